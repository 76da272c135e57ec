"""Searching several records together: the fast way must say what the slow one says."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.judge import Judge
from detector.model import Metadata, NpdRuleSet, Rule
from detector.parse import ParseError, parse
from detector.patterns import compile_one
from detector.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detector.model import Finding, KernelMessage

pytestmark = pytest.mark.pure

PATTERNS = (
    r"alpha",
    r"alpha\nbeta",
    r"alpha\nbeta\n.*gamma",
    r"(?s)alpha.*gamma",
    r"alpha[^x]+gamma",
    r"alpha\s+beta",
    r"alpha[\s\S]{0,9}beta",
    r"\Aalpha\n(?:.*\n)*beta",
    r"^alpha",
    r"(?m)^beta$",
    r"(?m)^alpha$\n^beta",
    r"\n\nalpha",
    r"\bbeta\b",
    r"\Bta",
    r"alpha|beta\ngamma",
    r"beta[\x00-\x1f]gamma",
    r"\xff",
    r"beta$",
    r"x\\y",
)
TEXTS = (
    b"alpha",
    b"beta",
    b"gamma",
    b"  beta gamma ",
    b"alpha beta",
    b"x",
    b"",
    b" ",
    rb"alpha\x0abeta",
    rb"\xff",
    rb"x\x5cy",
    rb"beta\x09gamma",
    b"alpha;beta",
)
TOO_LARGE = b"99999999999999999999"
MALFORMED = (
    b"",
    b"\n",
    b"alpha\n",
    b"6,x,0,-;alpha\n",
    b"6,1;beta\n",
    TOO_LARGE + b",0,0,-;alpha\n",
    b"6," + TOO_LARGE + b",0,-;alpha\n",
    b"6,0," + TOO_LARGE + b",-;alpha\n",
)


def rule_set(patterns: Sequence[str], lines: int) -> NpdRuleSet:
    rules = tuple(Rule(reason=f"R{at}", pattern=rf"(?:{pattern})\z") for at, pattern in enumerate(patterns))
    metadata = Metadata(name="several")
    return NpdRuleSet(
        api_version="chipwarden.io/v1", kind="RuleSet", metadata=metadata, rules=rules, buffer_lines=lines
    )


def window(patterns: Sequence[str], lines: int) -> Window:
    return Window(Judge(rule_set(patterns, lines), kernel_only=False, started_us=None), lines)


def record(text: bytes, sequence: int = 0, more: bytes = b"") -> bytes:
    return b"6,%d,%d,-;%s\n%s" % (sequence, sequence, text, more)


def reasons(hits: Sequence[tuple[bytes, KernelMessage, tuple[Finding, ...]]]) -> list[tuple[bytes, list[str]]]:
    return [(raw, [finding.rule.reason for finding in findings]) for raw, _, findings in hits]


def one_by_one(patterns: Sequence[str], lines: int, records: Sequence[bytes]) -> list[tuple[bytes, list[str]]]:
    """Do the same the slow way: parse each record, join, search each pattern."""
    searches = [compile_one(rule.pattern) for rule in rule_set(patterns, lines).rules]
    texts = deque([b""] * lines, maxlen=lines)
    hits = []
    for raw in records:
        try:
            texts.append(parse(raw).text.strip(b" "))
        except ParseError:
            continue
        joined = b"\n".join(texts)
        if found := [f"R{at}" for at, search in enumerate(searches) if search.search(joined)]:
            hits.append((raw, found))
    return hits


def records() -> st.SearchStrategy[bytes]:
    headers = st.sampled_from([b"6,1,2,-", b"6,1,2,c", b"14,1,2", b"6,18446744073709551615,2,-,caller=T1"])
    more = st.sampled_from([b"", b"", b" SUBSYSTEM=pci\n DEVICE=+pci:0000:a0:1e.0\n", b" X=alpha\n"])
    text = st.sampled_from(TEXTS)
    well_formed = st.builds(lambda header, said, lines: header + b";" + said + b"\n" + lines, headers, text, more)
    return st.one_of(well_formed, well_formed, well_formed, well_formed, st.sampled_from(MALFORMED))


@settings(deadline=None, max_examples=300)
@given(
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4, unique=True),
    lines=st.integers(1, 5),
    batches=st.lists(st.lists(records(), max_size=8), max_size=8),
)
def test_batches_find_what_going_one_by_one_finds(patterns: list[str], lines: int, batches: list[list[bytes]]) -> None:
    fast = window(patterns, lines)
    found = [hit for batch in batches for hit in reasons(fast.batch(batch))]
    assert found == one_by_one(patterns, lines, [raw for batch in batches for raw in batch])


@pytest.mark.parametrize("cut", range(4))
def test_a_pattern_matches_across_batches(cut: int) -> None:
    several = window([r"alpha\nbeta\ngamma"], 10)
    raws = [record(b"alpha", 1), record(b"beta", 2), record(b"gamma", 3)]
    found = reasons(several.batch(raws[:cut])) + reasons(several.batch(raws[cut:]))
    assert found == [(raws[2], ["R0"])]


def test_a_record_in_between_keeps_the_pattern_quiet() -> None:
    raws = [record(b"alpha"), record(b"x"), record(b"beta")]
    assert window([r"alpha\nbeta"], 10).batch(raws) == []


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_malformed_record_in_between_is_passed_over(malformed: bytes) -> None:
    raws = [record(b"alpha"), malformed, record(b"beta")]
    assert reasons(window([r"alpha\nbeta"], 10).batch(raws)) == [(raws[2], ["R0"])]


def test_a_text_further_back_than_the_window_does_not_count() -> None:
    pattern = r"(?s)alpha.*beta"
    near = [record(b"alpha"), record(b"x"), record(b"beta")]
    far = [record(b"alpha"), record(b"x"), record(b"x"), record(b"beta")]
    assert reasons(window([pattern], 3).batch(near)) == [(near[2], ["R0"])]
    assert window([pattern], 3).batch(far) == []


def test_an_old_match_is_not_found_again_with_each_new_record() -> None:
    several = window([r"alpha\nbeta"], 10)
    assert len(several.batch([record(b"alpha"), record(b"beta"), record(b"x"), record(b"x")])) == 1
    assert several.batch([record(b"x")]) == []


def test_records_of_a_benign_batch_are_remembered() -> None:
    several = window([r"alpha\nbeta"], 2)
    assert several.batch([record(b"x"), record(b"alpha")]) == []
    assert len(several.batch([record(b"beta")])) == 1


def test_a_line_of_a_daemon_does_not_count_by_itself() -> None:
    daemon = b"30,1,1,-;alpha\n"
    assert window([r"alpha"], 2).batch([daemon]) == []
    assert len(window([r"alpha"], 2).batch([record(b"alpha")])) == 1


def test_judging_one_record_leaves_the_window_alone() -> None:
    several = window([r"alpha\nbeta", r"beta"], 3)
    several.batch([record(b"alpha")])
    assert [finding.rule.reason for finding in several.judge(parse(record(b" beta ")))] == ["R1"]
    assert [found for _, found in reasons(several.batch([record(b"beta")]))] == [["R0", "R1"]]


@pytest.mark.parametrize(("lines", "fires"), [(1, True), (2, False)])
def test_the_start_anchor_means_the_oldest_kept_line(*, lines: int, fires: bool) -> None:
    several = window([r"^alpha"], lines)
    assert bool(several.judge(parse(record(b"alpha")))) is fires
    assert bool(several.batch([record(b"alpha")])) is fires


def test_the_message_of_a_hit_is_the_newest_record() -> None:
    raws = [record(b"alpha", 7), record(rb"be\x74a", 8)]
    ((raw, message, _),) = window([r"alpha\nbeta"], 2).batch(raws)
    assert (raw, message.sequence, message.text) == (raws[1], 8, b"beta")
