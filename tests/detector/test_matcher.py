"""Batches of records: the fast way must say what a slow one-by-one search says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.matcher import Matcher
from detector.model import NpdRuleSet
from detector.parse import ParseError, parse
from detector.patterns import PatternError, options
from tests.detector.builders import DAEMON, USER, message, record, rule, rule_set
from tests.detector.npd_files import made
from tests.detector.strategies import NASTY_PATTERNS, batches, rule_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detector.model import Rule, RuleSet

Verdicts = Counter[tuple[bytes, tuple[tuple[str, str, str], ...]]]


def slowly(
    rule_sets: Sequence[RuleSet], records: list[bytes], *, kernel_only: bool, started_us: int | None
) -> Verdicts:
    """Judge each record by itself with each pattern by itself, by the letter of the contract."""
    verdicts: Verdicts = Counter()
    for raw in records:
        try:
            facility, stamp_us = (parsed := parse(raw)).facility, parsed.timestamp_us
        except ParseError:
            continue
        text = _unescaped(raw.split(b";", 1)[1].split(b"\n", 1)[0])
        verdict: list[tuple[str, str, str]] = []
        for each in rule_sets:
            old = isinstance(each, NpdRuleSet) and started_us is not None
            if old and stamp_us < started_us - each.lookback.seconds * 1e6:  # type: ignore[attr-defined]
                continue
            verdict += _of_one_set(each, text, {0: "kern", 1: "user"}.get(facility), kernel_only=kernel_only)
        if verdict:
            verdicts[raw, tuple(verdict)] += 1
    return verdicts


def _of_one_set(each: RuleSet, text: bytes, writer: str | None, *, kernel_only: bool) -> list[tuple[str, str, str]]:
    if any(_searched(pattern, text) for pattern in each.ignore) or (kernel_only and writer == "user"):
        return []
    matching = [one for one in each.rules if _searched(one.pattern, text) and writer in one.facilities]
    plain: list[Rule] = [one for one in matching if not one.fallback]
    return [(each.name, one.reason, one.pattern) for one in plain or matching]


def _searched(pattern: str, text: bytes) -> bool:
    return re2.compile(pattern.encode("latin-1"), options()).search(text) is not None


def _unescaped(text: bytes) -> bytes:
    out, at = bytearray(), 0
    while at < len(text):
        digits = text[at + 2 : at + 4]
        if text[at : at + 2] == b"\\x" and len(digits) == 2 and set(digits) <= set(b"0123456789abcdef"):
            out.append(int(digits, 16))
            at += 4
        else:
            out.append(text[at])
            at += 1
    return bytes(out)


def quickly(matcher: Matcher, records: list[bytes]) -> Verdicts:
    verdicts: Verdicts = Counter()
    for hit in matcher.batch(records):
        verdict = tuple((found.rule_set, found.rule.reason, found.rule.pattern) for found in hit.findings)
        assert hit.message == parse(hit.records[0])
        assert hit.stamps_us == [parse(each).timestamp_us for each in hit.records]
        for each in hit.records:
            verdicts[each, verdict] += 1
    return verdicts


@settings(deadline=None, max_examples=250)
@given(rule_sets("one"), rule_sets("two"), batches, st.booleans())
def test_the_batch_says_what_one_by_one_says(
    one: RuleSet, two: RuleSet, records: list[bytes], kernel_only: bool
) -> None:
    matcher = Matcher([one, two], kernel_only=kernel_only)
    expected = slowly([one, two], records, kernel_only=kernel_only, started_us=None)
    assert quickly(matcher, records) == expected
    assert quickly(matcher, records) == expected, "a batch leaves nothing behind"


@pytest.mark.parametrize("pattern", NASTY_PATTERNS)
@settings(deadline=None, max_examples=25)
@given(batches)
def test_each_nasty_pattern_by_itself_says_what_one_by_one_says(pattern: str, records: list[bytes]) -> None:
    rules = rule_set(rule(pattern))
    expected = slowly([rules], records, kernel_only=False, started_us=None)
    assert quickly(Matcher([rules]), records) == expected


@settings(deadline=None, max_examples=100)
@given(batches, st.integers(0, 20), st.integers(0, 20))
def test_records_too_old_for_a_file_do_not_count_in_a_batch_either(
    records: list[bytes], started_us: int, lookback_us: int
) -> None:
    looking_back = made("alpha", lookback=f"{lookback_us}us")
    assert looking_back.buffer_lines == 1
    both = [looking_back, rule_set(rule("beta"))]
    expected = slowly(both, records, kernel_only=False, started_us=started_us)
    assert quickly(Matcher(both, started_us=started_us), records) == expected


@settings(deadline=None, max_examples=100)
@given(rule_sets("one"), batches)
def test_a_record_by_itself_gets_the_verdict_that_it_gets_in_a_batch(one: RuleSet, records: list[bytes]) -> None:
    matcher = Matcher([one])
    in_batch = {each: hit.findings for hit in matcher.batch(records) for each in hit.records}
    for each in records:
        try:
            parsed = parse(each)
        except ParseError:
            assert each not in in_batch
        else:
            assert matcher.judge(parsed) == in_batch.get(each, ())


def test_records_of_the_same_writer_and_body_are_one_hit() -> None:
    matcher = Matcher([rule_set(rule("broken"))])
    batch = [record("broken", sequence=n, seconds=n) for n in range(3)]
    batch += [record("broken 2", sequence=4), record("broken", facility=USER, sequence=5), record("fine", sequence=6)]
    hits = matcher.batch(batch)
    assert [hit.records for hit in hits] == [batch[:3], batch[4:5], batch[3:4]]
    assert hits[0].message.sequence == 0
    assert hits[0].stamps_us == [0, 1_000_000, 2_000_000]


def test_a_malformed_record_does_not_hide_a_fault_with_the_same_body() -> None:
    malformed = [b"3x;broken\n", b"3,1,x,-;broken\n", b"3,18446744073709551616,1,-;broken\n", b"3,1;broken\n"]
    fault = b"3,18446744073709551615,5,-;broken\n"
    for bad in malformed:
        for batch in ([bad, fault], [fault, bad]):
            hits = Matcher([rule_set(rule("broken"))]).batch(batch)
            assert [(hit.records, hit.stamps_us) for hit in hits] == [([fault], [5])]


def test_an_old_line_does_not_hide_a_new_one_with_the_same_body() -> None:
    matcher = Matcher([made("broken", lookback="5s")], started_us=10_000_000)
    batch = [record("broken", seconds=1, sequence=1), record("broken", seconds=8, sequence=2)]
    assert [hit.records for hit in matcher.batch(batch)] == [batch[1:]]


def test_the_last_line_of_a_batch_may_lack_its_end() -> None:
    assert Matcher([rule_set(rule("^broken$"))]).batch([record("fine"), b"3,1,5,-;broken"])


def test_a_benign_batch_has_no_hits_and_neither_has_none() -> None:
    matcher = Matcher([rule_set(rule("^broken$"))])
    assert matcher.batch([record("broken pipe"), record(rb"\broken"), record("unbroken")]) == []
    assert matcher.batch([]) == []
    assert Matcher([]).batch([record("broken")]) == []


def test_a_fault_in_the_middle_of_a_batch_is_found() -> None:
    batch = [record(f"usb {n}: new device", sequence=n) for n in range(256)]
    batch[100] = record("a\n\tbroken", sequence=100)
    assert [hit.records for hit in Matcher([rule_set(rule(r"(?:^|\s)broken$"))]).batch(batch)] == [[batch[100]]]


def test_dictionary_lines_are_not_searched() -> None:
    with_dictionary = b"3,1,5,-;fine\n DEVICE=broken\n"
    assert Matcher([rule_set(rule("broken"))]).batch([with_dictionary]) == []
    assert Matcher([rule_set(rule("fine$"))]).batch([with_dictionary])


def test_fragments_are_judged_by_themselves() -> None:
    matcher = Matcher([rule_set(rule("NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR"))])
    fragments = [b"3,48217,1718549705,c;NEURON_HW_ERR=HBM_UNCORR\n", b"3,48218,1718549706,c;ECTABLE_ERROR nd-id=0\n"]
    assert matcher.batch(fragments) == []
    assert matcher.batch([b"3,1,2,c;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR\n"])


def test_sets_are_found_in_their_order_and_rules_in_theirs() -> None:
    first = rule_set(rule("ken", reason="A"), rule("bro", reason="B"), name="first")
    second = rule_set(rule("broken", reason="C"), name="second")
    findings = Matcher([first, second]).judge(message("broken"))
    assert [(found.rule_set, found.rule.reason) for found in findings] == [
        ("first", "A"),
        ("first", "B"),
        ("second", "C"),
    ]


def test_patterns_over_several_lines_are_judged_beside_the_others() -> None:
    matcher = Matcher([made(r"alpha\nbeta", source="several"), rule_set(rule("beta"))])
    alpha, beta = record("alpha"), record("beta")
    assert [hit.records for hit in matcher.batch([alpha, beta])] == [[beta], [beta]]
    assert [found.rule_set for found in matcher.judge(message("alpha\nbeta"))] == ["made", "several"]


@pytest.mark.parametrize(
    ("facility", "kernel_only", "counts"), [(USER, False, True), (USER, True, False), (DAEMON, False, False)]
)
def test_who_wrote_the_line_decides(facility: int, kernel_only: bool, counts: bool) -> None:
    matcher = Matcher([rule_set(rule("broken"))], kernel_only=kernel_only)
    assert bool(matcher.judge(message("broken", facility=facility))) is counts
    assert bool(matcher.batch([record("broken", facility=facility)])) is counts


def test_a_pattern_that_re2_refuses_stops_the_matcher() -> None:
    with pytest.raises(PatternError, match="missing"):
        Matcher([rule_set(rule("(broken"))])
