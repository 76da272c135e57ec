"""Lines from real kernel logs, each with what the vendor says of it, through all shipped rule sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from detector.lines import read_line
from detector.matcher import Matcher
from detector.parse import to_record
from detector.rulefiles import load_all
from runtime.vocabulary import SHIPPED_RULE_SETS

_FILE = Path(__file__).parents[1] / "data" / "kmsg_lines.jsonl"
LINES: dict[str, dict[str, Any]] = {
    line["id"]: line for line in (json.loads(text) for text in _FILE.read_text(encoding="utf-8").splitlines())
}
MATCHER = Matcher(load_all(SHIPPED_RULE_SETS).rule_sets)

# Where the vendors leave it open: what was decided, (reason, condition) for each rule that counts. A change here is a
# change for operators; the reasons for each decision stand at the head of the rule sets.
DECIDED: dict[str, list[tuple[str, str | None]]] = {
    "B1": [("NeuronHasError_RUNTIME_REPORT", None)],
    "B4": [("NeuronHasError_RUNTIME_REPORT", None)],
    "B5": [("NeuronHasError_RUNTIME_REPORT", None)],
    "B7": [],
    "C32": [("NeuronHasError_DRIVER", None)],
    "C42": [("NeuronHasError_DRIVER", None)],
    "E29": [("NvidiaHasError_XID_OTHER", None)],
    "F4": [],
    "G15": [("AmdGpuHasError_QUEUE_HANG", None)],
    "H3": [("GaudiHasError_INIT_FAILED", "GaudiHasError")],
    "I3": [],
    "I4": [],
    "J6": [],
    "J7": [],
    "J8": [("NvidiaHasError_PCIE_CANNOT_RECOVER", "NvidiaHasError")],
}


def verdict(line: str) -> list[tuple[str, str | None]]:
    """Judge a line as `replay` does, and as one record of a batch; both must say the same."""
    message = read_line(line.encode())
    findings = MATCHER.judge(message)
    assert MATCHER.judge(read_line(to_record(message))) == findings
    benign = to_record(read_line(b"usb 1-1: new high-speed USB device number 2"))
    hits = MATCHER.batch([benign, to_record(message), benign])
    assert tuple(found for hit in hits for found in hit.findings) == findings
    return [(found.rule.reason, found.rule.condition) for found in findings]


def test_there_are_lines_of_all_kinds() -> None:
    verdicts = [line["match"] for line in LINES.values()]
    assert (verdicts.count(True), verdicts.count(False), verdicts.count(None)) == (24, 105, 15)
    assert {name for name, line in LINES.items() if line["match"] is None} == set(DECIDED)


@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line["match"]])
def test_a_line_that_tells_of_a_fault_sets_a_condition(name: str) -> None:
    assert any(condition for _, condition in verdict(LINES[name]["line"])), LINES[name]["meaning"]


@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line["match"] is False])
def test_a_line_that_tells_of_none_sets_no_condition(name: str) -> None:
    assert not any(condition for _, condition in verdict(LINES[name]["line"])), LINES[name]["meaning"]


@pytest.mark.parametrize("name", sorted(DECIDED))
def test_what_the_vendors_leave_open_is_decided(name: str) -> None:
    assert verdict(LINES[name]["line"]) == DECIDED[name]


@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line["match"]])
def test_a_log_daemon_that_repeats_a_fault_is_not_believed(name: str) -> None:
    message = read_line(LINES[name]["line"].encode())
    record = to_record(message).partition(b",")
    assert MATCHER.batch([b"30," + record[2]]) == []
    assert MATCHER.batch([b"11," + record[2]]), "a person's test injection is"


@pytest.mark.parametrize(
    "before",
    ["audit: type=1400 msg='", "Command line: x=", "Kernel command line: ", "oom-kill:constraint=", "systemd[1]: "],
)
@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line["match"] and name.startswith("A")])
def test_text_that_a_user_can_choose_sets_no_condition(name: str, before: str) -> None:
    line = LINES[name]["line"]
    for text in (before + line, f"{before}x {line}"):
        assert not any(condition for _, condition in verdict(text)), text
