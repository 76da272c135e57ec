"""What a support archive holds: redacted, within limits, and with a list of what is in it and what is not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from detector.collection import LARGEST_BYTES, Collection
from detector.redact import Redactor


@pytest.fixture
def collection() -> Collection:
    return Collection(Redactor(["vm1"]))


def manifest(collection: Collection) -> dict[str, Any]:
    collection.finish(datetime(2026, 11, 30, tzinfo=UTC))
    found: dict[str, Any] = json.loads(collection.files["manifest.json"])
    return found


def test_a_text_in_json_stays_json_and_another_stays_text(collection: Collection) -> None:
    collection.add_text("a.json", "a", b'{"text": "password:", "from": "10.9.8.7"}')
    collection.add_text("b.json", "b", b'{"from": "10.9.8.7"')
    collection.add_text("c.txt", "c", b'{"from": "10.9.8.7"}')
    assert json.loads(collection.files["a.json"]) == {"text": "password:", "from": "<ip-1>"}
    assert collection.files["b.json"] == b'{"from": "<ip-1>"'
    assert collection.files["c.txt"] == b'{"from": "<ip-1>"}'


def test_what_is_too_long_is_cut_at_a_line_and_said(collection: Collection) -> None:
    collection.add_text("lines.txt", "long", b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * (LARGEST_BYTES // 100))
    collection.add_text("line.txt", "long", b"x" * (LARGEST_BYTES + 1))
    collection.add_text("fits.txt", "short", b"x")
    assert len(collection.files["lines.txt"]) == LARGEST_BYTES // 100 * 100
    assert len(collection.files["line.txt"]) == LARGEST_BYTES
    cut = {entry["name"]: entry.get("cut") for entry in manifest(collection)["files"]}
    assert cut == {"fits.txt": None, "line.txt": "it was longer", "lines.txt": "it was longer"}


def test_of_too_many_lines_the_last_are_kept(collection: Collection) -> None:
    collection.add_lines("log.jsonl", "many", [{"n": n, "text": "x" * 100_000} for n in range(100)])
    kept = [json.loads(line)["n"] for line in collection.files["log.jsonl"].splitlines()]
    assert kept == list(range(100 - len(kept), 100))
    assert LARGEST_BYTES < len(collection.files["log.jsonl"]) < LARGEST_BYTES + 200_000
    collection.add_lines("few.jsonl", "few", [{"n": 1}, {"n": 2}])
    assert collection.files["few.jsonl"] == b'{"n":1}\n{"n":2}\n'
    assert [entry.get("cut") for entry in manifest(collection)["files"]] == [None, "it was longer"]


def test_the_manifest_says_what_is_in_it_what_is_missing_and_what_was_redacted(collection: Collection) -> None:
    collection.add("b.json", "second", {"to": "10.9.8.7"})
    collection.add("a.json", "first", ["10.9.8.7", "10.9.8.8"])
    collection.miss("node", "no answer from 10.9.8.8")
    found = manifest(collection)
    assert found["created_at"] == "2026-11-30T00:00:00Z"
    assert [(entry["name"], entry["about"]) for entry in found["files"]] == [("a.json", "first"), ("b.json", "second")]
    assert [entry["bytes"] for entry in found["files"]] == [
        len(collection.files[name]) for name in ("a.json", "b.json")
    ]
    assert found["missing"] == [{"what": "node", "why": "no answer from <ip-2>"}]
    assert found["redacted"] == {"ip": {"values": 2, "places": 4}}
    assert set(found["exit_codes"]) == {"0", "1", "2"}
    assert found["not_redacted"] == "1 own names, too short or too common to be told"


def test_without_such_names_the_manifest_does_not_speak_of_them() -> None:
    assert "not_redacted" not in manifest(Collection(Redactor(["gpu-7"])))


def test_names_in_the_archive_are_plain_and_say_nothing(collection: Collection) -> None:
    collection.add_text("rules/1-10.9.8.7 of\nbob@example.com" + "x" * 99, "odd", b"")
    assert list(collection.files) == ["rules/1-_ip-1_of_email-1_"]
