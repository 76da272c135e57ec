"""What no support archive may give away, whatever stands beside it, and what it must keep to be of use."""

from __future__ import annotations

import ipaddress
import json
import string
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from detector.redact import HOST, USER, Redactor
from tests.detector.secret_texts import KEPT, SECRETS

FIELD_LINES = Path(__file__).parents[1] / "data" / "kmsg_lines.jsonl"
OWN = ("gpu-7.corp.example.org", "ip-10-0-0-1.us-west-2.compute.internal")


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_does_not_survive(text: str, secret: str) -> None:
    redacted = Redactor(OWN).text(text)
    assert secret not in redacted
    assert Redactor(OWN).text(redacted) == redacted


@pytest.mark.parametrize("text", KEPT)
def test_what_explains_a_fault_is_kept(text: str) -> None:
    redactor = Redactor(OWN)
    assert redactor.text(text) == text
    assert redactor.values == redactor.places == {}


def test_of_all_lines_of_the_field_only_names_hashes_and_audit_texts_go() -> None:
    redactor = Redactor()
    lines = [json.loads(line)["line"] for line in FIELD_LINES.read_text().splitlines()]
    changed = [line for line in lines if redactor.text(line) != line]
    assert redactor.values == {"hex": 2, "hidden": 1, "ip": 1}
    assert len(changed) == 9


def test_the_same_value_always_gets_the_same_placeholder() -> None:
    redactor = Redactor()
    assert redactor.text("10.1.2.3 to 10.1.2.4") == "<ip-1> to <ip-2>"
    assert redactor.text("10.1.2.4 to 10.1.2.3, FE80::1, fe80::1") == "<ip-2> to <ip-1>, <ip-3>, <ip-3>"
    assert redactor.values == {"ip": 3}
    assert redactor.places == {"ip": 6}


def test_the_own_node_is_one_host_with_or_without_its_domain() -> None:
    redactor = Redactor(OWN)
    assert (
        redactor.text("IP-10-0-0-1.us-west-2.compute.internal ip-10-0-0-1 on gpu-7") == "<host-1> <host-1> on <host-2>"
    )
    assert redactor.text("hostname=ip-10-0-0-1 nd-id=0") == "hostname=<host-1> nd-id=0"
    assert redactor.text("ip-10-0-0-2.ec2.internal is not ip-10-0-0-3 but ip-10-0-0-2") == (
        "<ip-1> is not <ip-2> but <ip-1>"
    )


def test_own_names_that_are_parts_of_many_words_are_told_instead() -> None:
    redactor = Redactor(["vm1", "neuron", "", "büro-rechner"])
    assert redactor.too_common == ["büro-rechner", "neuron", "vm1"]
    assert redactor.text("NeuronHasError on vm1") == "NeuronHasError on vm1"


def test_names_are_kept_when_asked_for_and_secrets_go_all_the_same() -> None:
    redactor = Redactor(OWN, keep=(HOST, USER))
    text = "/home/alice on gpu-7 and db.corp.internal at 10.1.2.3, hostname=a.example.com, ip-10-0-0-1, token=x"
    assert redactor.text(text) == (
        text.replace("10.1.2.3", "<ip-2>").replace("=x", "=<hidden-1>").replace("ip-10-0-0-1", "<ip-1>")
    )
    assert redactor.tree({"hostname": "trainer"}) == {"hostname": "trainer"}


def test_json_stays_json_and_keys_tell_what_values_are() -> None:
    found = {
        "hostname": "trainer",
        "nodeName": "",
        "node": "ip-10-0-0-9.ec2.internal",
        "text": "on ip-10-0-0-9",
        "apiToken": "hunter2",
        "pin_secret": 1234,
        "auth": ["one", None, True],
        "db_pass": "hunter3",
        "token": {"value": "hunter4"},
        "env": [{"value": 5, "name": "DB_PASSWORD"}],
        "serial-num": "12" * 16,
        "10.1.2.3": {"text": 'says "password:"', "n": 1.5, "list": [1, "bob@example.com"]},
        "sha256": "ab" * 32,
        "again": "ab" * 32,
    }
    redactor = Redactor()
    redacted = redactor.tree(found)
    assert redacted == {
        "hostname": "<host-1>",
        "nodeName": "",
        "node": "<ip-1>",
        "text": "on <ip-1>",
        "apiToken": "<hidden-1>",
        "pin_secret": "<hidden-2>",
        "auth": ["<hidden-3>", None, True],
        "db_pass": "<hidden-4>",
        "token": {"value": "<hidden-5>"},
        "env": [{"value": "<hidden-6>", "name": "DB_PASSWORD"}],
        "serial-num": "12" * 16,
        "<ip-2>": {"text": 'says "password:"', "n": 1.5, "list": [1, "<email-1>"]},
        "sha256": "ab" * 32,
        "again": "<hex-1>",
    }
    assert Redactor().tree(redacted) == redacted


def test_bytes_of_any_encoding_are_taken() -> None:
    assert Redactor().raw(b"\xff\x00 10.1.2.3 \xe9") == b"\xff\x00 <ip-1> \xe9"
    assert Redactor().text("\ud800 é 10.1.2.3") == "? é <ip-1>"


LETTERS_AND_DIGITS = string.ascii_letters + string.digits
LONG = st.text(LETTERS_AND_DIGITS, min_size=12, max_size=30)
GROUPS = st.integers(0, 2**112 - 1).map(lambda low: str(ipaddress.ip_address(0xFD12 << 112 | low)))
# Each secret with what makes it known for one.
ALL_KINDS = st.one_of(
    st.tuples(st.sampled_from(["AKIA", "ASIA"]), st.text(string.ascii_uppercase, min_size=16, max_size=16)),
    st.tuples(st.sampled_from(["password=", "--token ", "X_API_KEY: ", '"secret":"', "authorization: "]), LONG),
    st.tuples(st.just("Bearer "), LONG),
    st.tuples(st.just("https://me:"), LONG.map(lambda secret: secret + "@")),
    st.tuples(st.just(""), st.ip_addresses(v=4, network="10.0.0.0/8").map(str)),
    st.tuples(st.just(""), GROUPS),
    st.tuples(st.just(""), st.binary(min_size=6, max_size=6).map(lambda mac: mac.hex(":"))),
    st.tuples(st.just(""), LONG.map(lambda user: f"{user}@example.com")),
    st.tuples(st.just("arn:aws:iam::"), st.text(string.digits, min_size=12, max_size=12)),
    st.tuples(st.just("/home/"), LONG),
    st.tuples(st.just(""), st.binary(min_size=16, max_size=16).map(bytes.hex)),
    st.tuples(st.just(""), st.just("gpu-7.corp.example.org")),
)
PIECES = st.sampled_from([
    "token", "=", ":", '"', "'", "\\", "--", "-u ", "<", ">", "<ip-1>", " ", "\n", "/", "@", "audit: type=1 audit(1):",
    "10.0.", "fe80:", "aa:", "AKIA", "eyJaaaaa.", "arn:aws:", "Bearer", "gpu-7", "hostname=", "x.com", "é", "a", "1",
    "&", "-----BEGIN PRIVATE KEY-----", "Authorization: ", "\x1b[0m", "\\x", "1b", "=>", "pass", "{", "[", "name: ",
    "value: ", "mysql -p", "@tcp(", "$6$", "serial-num=", "://", "owner 123456789012", "://x/123456789012",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join)


@given(TEXTS, ALL_KINDS, TEXTS)
@example("token=", ("Bearer ", "hunter2hunter2"), "")
@example("Authorization: ", ('"secret":"', "hunter2hunter2"), "")
@example("token= Authorization:", ("Basic ", "aHVudGVyMg"), "")
def test_no_secret_survives_whatever_stands_around_it(before: str, secret: tuple[str, str], after: str) -> None:
    known_by, value = secret
    text = f"{before} {known_by}{value} {after}"
    assert value.rstrip("@") not in Redactor(OWN).text(text)


@given(TEXTS, ALL_KINDS, TEXTS)
@example("token=token", ("AKIA", "A" * 16), "=token")
@example("-----BEGIN PRIVATE KEY-----", ("", "fd12::1"), "--x.com")
@example("", ("", "-----BEGIN PRIVATE KEY-----gpu-7"), "")
def test_redacting_twice_changes_nothing_more(before: str, secret: tuple[str, str], after: str) -> None:
    once = Redactor(OWN).text(before + "".join(secret) + after)
    assert Redactor(OWN).text(once) == once


HOSTILE = ["a", "1.", "a:", "token", "token=", "-", "::", "2600:", "x@", "a.", "AKIA", "eyJaaaaaa.", "ip-1-", "://a",
           "audit: type=1 audit(1):", 'password="', "-----BEGIN PRIVATE KEY-----", "arn:a:a:a:", "\\", "--token ",
           "aa:", "<ip-1>", "version ", "/home/a",
           "mysql ", "://a/", "a:b", "name: token value: ", "\x1b[", "token={a", "=" * 3]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    """Eight times the text takes eight times as long; thirty-two leaves room for a busy machine."""

    def seconds(size: int) -> float:
        text = (piece * size)[:size].encode()
        best = float("inf")
        for _ in range(3):
            redactor, began = Redactor(OWN), time.thread_time()
            redactor.raw(text)
            best = min(best, time.thread_time() - began)
        return best

    assert seconds(80_000) < 32 * max(seconds(10_000), 0.0005)
