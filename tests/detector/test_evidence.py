"""Which records of a kernel log are picked as evidence: those around each fault, however long and loud the log is."""

from __future__ import annotations

import tracemalloc

from detector.evidence import AROUND, MOST_LINES, NEWEST, Evidence, Line
from detector.matcher import Matcher
from tests.detector.builders import OURS, THEIRS, record, rule, rule_set

MATCHER = Matcher([
    rule_set(
        rule("broken", reason="ChipBroken"),
        rule("hot", reason="ChipHot", condition=None),
        rule("NEURON_HW_ERR=X", reason="ChipLost"),
    )
])  # fmt: skip


def benign(first: int, count: int) -> list[bytes]:
    return [record(f"benign {number}", sequence=number) for number in range(first, first + count)]


def picked(*records: bytes, batch: int = 7, instance: str | None = OURS) -> list[Line]:
    return list(judged(*records, batch=batch, instance=instance).lines())


def judged(*records: bytes, batch: int = 7, instance: str | None = OURS) -> Evidence:
    evidence = Evidence(MATCHER, instance=instance)
    for start in range(0, len(records), batch):
        evidence.take(list(records[start : start + batch]))
    return evidence


def numbers(lines: list[Line]) -> list[int]:
    return [line.sequence for line in lines]


def test_a_fault_comes_with_its_neighbours_and_the_end_of_the_log() -> None:
    lines = picked(*benign(0, 100), record("broken", sequence=100, seconds=1.5), *benign(101, 200))
    assert numbers(lines) == [*range(100 - AROUND, 101 + AROUND), *range(301 - AROUND, 301)]
    (hit,) = (line for line in lines if line.verdicts)
    assert (hit.sequence, hit.stamp_us, hit.facility, hit.text) == (100, 1_500_000, 0, "broken")
    (verdict,) = hit.verdicts
    assert (verdict.reason, verdict.condition, verdict.foreign) == ("ChipBroken", "ChipHasError", False)


def test_without_a_fault_there_is_the_end_of_the_log() -> None:
    assert numbers(picked(*benign(0, 100))) == list(range(80, 100))
    assert numbers(picked(*benign(0, 3))) == [0, 1, 2]
    assert picked() == []


def test_neighbours_of_faults_that_are_close_are_told_once() -> None:
    lines = picked(*benign(0, 50), record("broken", sequence=50), *benign(51, 5), record("hot", sequence=56))
    assert numbers(lines) == list(range(30, 57))
    assert [line.sequence for line in lines if line.verdicts] == [50, 56]


def test_a_record_that_two_rules_match_has_both_verdicts() -> None:
    (line,) = picked(record("hot and broken"))
    assert {verdict.reason: verdict.condition for verdict in line.verdicts} == {
        "ChipBroken": "ChipHasError",
        "ChipHot": None,
    }


def test_a_line_about_another_instance_is_marked() -> None:
    text = f"NEURON_HW_ERR=X instance-id={THEIRS}"
    assert [verdict.foreign for line in picked(record(text)) for verdict in line.verdicts] == [True]
    assert [verdict.foreign for line in picked(record(text), instance=None) for verdict in line.verdicts] == [False]


def test_of_a_flood_the_first_line_and_the_newest_are_kept() -> None:
    flood = [record("broken", sequence=number) for number in range(100, 50_100)]
    evidence = judged(*benign(0, 100), *flood, *benign(50_100, 100), batch=256)
    lines = list(evidence.lines())
    assert evidence.records == 50_200
    assert evidence.reasons == {"ChipBroken": 50_000}
    newest = range(50_100 - NEWEST - AROUND, 50_100 + AROUND)
    assert numbers(lines) == [*range(80, 121), *newest, *range(50_180, 50_200)]
    assert all(bool(line.verdicts) == (100 <= line.sequence < 50_100) for line in lines)


def test_of_many_reasons_the_oldest_lines_go_first() -> None:
    reasons = [f"Chip{number:03}" for number in range(100)]
    matcher = Matcher([rule_set(*(rule(f"{reason} fails", reason=reason) for reason in reasons))])
    evidence = Evidence(matcher, instance=None)
    log = [record(f"{reason} fails", sequence=number) for number, reason in enumerate(reasons * 3)]
    evidence.take(log[:150])
    evidence.take(log[150:])
    hits = numbers(list(evidence.lines()))
    assert hits == list(range(300 - MOST_LINES - AROUND, 300))
    assert evidence.reasons == dict.fromkeys(reasons, 3)


def test_memory_stays_small_however_long_the_log_is() -> None:
    evidence = Evidence(MATCHER, instance=None)
    line = "broken " + "x" * 900
    tracemalloc.start()
    for start in range(0, 60_000, 200):
        evidence.take([record(line, sequence=number) for number in range(start, start + 200)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


def test_bytes_that_are_no_utf_8_are_written_out_and_fragments_are_marked() -> None:
    (line,) = picked(b"6,1,2,c;caf\\xc3\\xa9 \\xff\\x01\n")
    assert line.text == "café \\xff\x01"
    assert line.flags == "c"


def test_what_is_no_record_is_passed_over() -> None:
    assert numbers(picked(b"no record at all\n", record("fine", sequence=2))) == [2]
