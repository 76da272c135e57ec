"""One rule set's verdict on one line."""

from __future__ import annotations

import pytest

from detector.judge import Judge
from detector.matcher import Matcher
from detector.patterns import PatternError
from runtime.vocabulary import Facility
from tests.detector.builders import DAEMON, KERN, USER, message, rule, rule_set
from tests.detector.npd_files import made


def reasons(judge: Judge, text: str, *, facility: int = KERN, seconds: float = 0.0) -> list[str]:
    line = message(text, facility=facility, seconds=seconds)
    numbers = [at for at, search in enumerate(judge._searches) if search.search(line.text)]
    return [found.rule.reason for found in judge.findings(line, numbers, line.text)]


def judging(*rules: object, ignore: tuple[str, ...] = (), kernel_only: bool = False) -> Judge:
    return Judge(rule_set(*rules, ignore=ignore), kernel_only=kernel_only, started_us=None)  # type: ignore[arg-type]


def test_all_rules_that_match_count_and_no_other() -> None:
    judge = judging(rule("one", reason="One"), rule("two", reason="Two"), rule("three", reason="Three"))
    assert reasons(judge, "three and one") == ["One", "Three"]
    assert reasons(judge, "none of them, however") == ["One"]
    assert reasons(judge, "nothing") == []


def test_a_fallback_counts_only_if_no_other_rule_counts() -> None:
    judge = judging(
        rule("any", reason="Other", fallback=True),
        rule("bad", reason="Bad", facilities=(Facility.KERN,)),
        rule("anything", reason="More", fallback=True),
    )
    assert reasons(judge, "any bad") == ["Bad"]
    assert reasons(judge, "anything") == ["Other", "More"]
    assert reasons(judge, "any bad", facility=USER) == ["Other"]


def test_text_that_a_user_can_choose_is_no_fault_of_this_set() -> None:
    judge = judging(rule("bad", reason="Bad"), ignore=("^Command line: ", "^audit: "))
    assert reasons(judge, "Command line: bad") == []
    assert reasons(judge, "audit: bad") == []
    assert reasons(judge, "bad Command line: ") == ["Bad"]


@pytest.mark.parametrize(
    ("facilities", "kernel_only", "facility", "counts"),
    [
        ((Facility.KERN, Facility.USER), False, KERN, True),
        ((Facility.KERN, Facility.USER), False, USER, True),
        ((Facility.KERN, Facility.USER), False, DAEMON, False),
        ((Facility.KERN, Facility.USER), True, KERN, True),
        ((Facility.KERN, Facility.USER), True, USER, False),
        ((Facility.KERN,), False, USER, False),
        ((Facility.USER,), False, KERN, False),
        ((Facility.USER,), False, USER, True),
        ((Facility.USER,), True, USER, False),
        ((Facility.KERN, Facility.USER), False, 2**29 - 1, False),
    ],
)
def test_who_may_have_written_the_line(
    facilities: tuple[Facility, ...], kernel_only: bool, facility: int, counts: bool
) -> None:
    judge = judging(rule("bad", facilities=facilities), kernel_only=kernel_only)
    assert bool(reasons(judge, "bad", facility=facility)) is counts


def test_lookback_counts_back_from_the_start_of_the_program() -> None:
    judge = Judge(made("bad", lookback="5s"), kernel_only=False, started_us=60_000_000)
    assert judge.oldest_us == 55_000_000
    assert reasons(judge, "bad", seconds=54.9) == []
    assert reasons(judge, "bad", seconds=55.0) == ["R0"]


def test_nothing_is_too_old_where_there_is_no_start_or_no_lookback() -> None:
    assert Judge(made("bad", lookback="5s"), kernel_only=False, started_us=None).oldest_us == 0
    assert Judge(rule_set(rule("bad")), kernel_only=False, started_us=60_000_000).oldest_us == 0


def test_named_groups_and_neuron_fields_become_details() -> None:
    judge = judging(rule(r"GPU (?P<device>\d+)(?: unit (?P<unit>\d+))?.*NEURON_HW_ERR"))
    line = message("GPU 3 NEURON_HW_ERR=X nd-id=1")
    (found,) = judge.findings(line, [0], line.text)
    assert found.details == {"device": "3", "nd-id": "1"}
    assert found.rule_set == "made"


def test_a_named_group_has_the_last_word() -> None:
    judge = judging(rule(r"NEURON_HW_ERR=X (?P<hostname>\w+)"))
    line = message("NEURON_HW_ERR=X mine hostname=theirs")
    assert judge.findings(line, [0], line.text)[0].details == {"hostname": "mine"}


def test_each_of_two_codes_in_one_record_tells_its_own_device() -> None:
    both = rule_set(
        rule(r"(?:^|\s)NEURON_HW_ERR=DMA_ERROR", reason="Dma"), rule(r"(?:^|\s)NEURON_HW_ERR=SRAM", reason="Sram")
    )
    text = "NEURON_HW_ERR=DMA_ERROR nd-id=1 nc-id=7\n\tNEURON_HW_ERR=SRAM nd-id=5"
    details = {found.rule.reason: found.details for found in Matcher([both]).judge(message(text))}
    assert details == {"Dma": {"nd-id": "1", "nc-id": "7"}, "Sram": {"nd-id": "5"}}


def test_of_records_joined_the_one_that_matches_tells_the_device() -> None:
    over_lines = made(r"\nNEURON_HW_ERR=DMA_ERROR nd-id=\d+", r"ring\nbroke .*")
    judge = Judge(over_lines, kernel_only=False, started_us=None)
    two = b"NEURON_HW_ERR=DMA_ERROR nd-id=1\nNEURON_HW_ERR=DMA_ERROR nd-id=2"
    assert judge.findings(message("x"), [0], two)[0].details == {"nd-id": "2"}
    other = b"NEURON_HW_ERR=DMA_ERROR nd-id=1\nring\nbroke here"
    assert judge.findings(message("x"), [1], other)[0].details == {}


def test_a_pattern_that_re2_refuses_stops_the_judge() -> None:
    with pytest.raises(PatternError, match="missing"):
        judging(rule("(bad"))
