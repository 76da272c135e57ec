"""What a detector's page says about its node, and when it says nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.model import FaultSeen, Seen
from recovery.page import UnusableError, read_page
from recovery.parse import ParseError
from runtime.vocabulary import Action, FaultClass
from tests.recovery.detector_page import DMA, HANG, INSTANCE, SINCE, SRAM, page

NOW = datetime.fromtimestamp(SINCE + 60, UTC)
REASONS = (SRAM[1], DMA[1], HANG[1])


def read(text: str, *, open_metrics: bool = False) -> Seen:
    return read_page(text, "n1", oldest=NOW - timedelta(minutes=1), open_metrics=open_metrics)


def test_a_quiet_page_says_that_nothing_is_wrong() -> None:
    assert read(page()) == Seen(
        node="n1", faults=(), enabled=False, platform_repair=False, instance=INSTANCE, reasons=REASONS
    )


def test_a_fault_comes_with_its_class_its_action_and_its_beginning() -> None:
    seen = read(page(DMA, HANG, enabled=True, platform_repair=True, instance=None))
    since = datetime.fromtimestamp(SINCE, UTC)
    assert seen.faults == (
        FaultSeen(type=DMA[0], reason=DMA[1], fault_class=FaultClass.DEAD, action=Action.REPLACE, since=since),
        FaultSeen(type=HANG[0], reason=HANG[1], fault_class=FaultClass.SUSPECT, action=Action.NONE, since=since),
    )
    assert (seen.enabled, seen.platform_repair, seen.instance) == (True, True, None)


def test_a_fault_whose_rule_is_not_loaded_any_more_is_seen_without_class_and_action() -> None:
    known = f'problem_gauge{{type="{DMA[0]}",reason="{DMA[1]}"}} 0\n'
    seen = read(page().replace(known, known + 'problem_gauge{type="OldError",reason="Old"} 1\n'))
    assert seen.faults == (FaultSeen(type="OldError", reason="Old", fault_class=None, action=None, since=None),)
    assert "Old" in seen.reasons


def test_words_of_a_newer_detector_are_unknown_not_an_error() -> None:
    seen = read(page(DMA).replace('"dead"', '"cursed"').replace('"replace"', '"exorcise"'))
    assert (seen.faults[0].fault_class, seen.faults[0].action) == (None, None)


def test_only_rules_for_events_mean_no_gauges_and_no_fault() -> None:
    lines = [line for line in page().splitlines(keepends=True) if "NeuronHasError_" not in line or "_OTHER" in line]
    assert read("".join(lines)).reasons == ()


def _without(name: str) -> str:
    return "".join(line for line in page(DMA).splitlines(keepends=True) if not line.startswith(name))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (page(reader_up=False), "cannot read the kernel log"),
        (_without("problem_gauge"), "problem_gauge lacks"),
        (page(DMA).replace(f'problem_gauge{{type="{SRAM[0]}",reason="{SRAM[1]}"}} 0\n', ""), "problem_gauge lacks"),
        (_without("chipwarden_detector_rule_info"), "no detector's page"),
        (_without("chipwarden_detector_reader_up"), "stands there 0 times"),
        (_without("chipwarden_detector_recovery_enabled"), "stands there 0 times"),
        (_without("chipwarden_detector_platform_repair"), "stands there 0 times"),
        (page(DMA).replace("} 1\n", "} NaN\n", 1), "problem_gauge is nan"),
        (page(DMA).replace("} 1\n", "} 2\n", 1), "problem_gauge is 2"),
        (page().replace("recovery_enabled 0\n", "recovery_enabled NaN\n"), "recovery_enabled is nan"),
        (page().replace("reader_up 1\n", "reader_up +Inf\n"), "reader_up is inf"),
        (page().replace('action="none"} 1', 'action="none"} 0'), "ambiguous about"),
        (page(DMA).replace(f"{SINCE}", "NaN"), "fault_since_timestamp_seconds is nan"),
        (page(DMA).replace(f"{SINCE}", "+Inf"), "fault_since_timestamp_seconds is inf"),
        (page(DMA).replace(f"{SINCE}", "1e30"), "fault_since_timestamp_seconds is 1e"),
        (page().replace("reader_up 1\n", f"reader_up 1 {(SINCE - 1) * 1000:.0f}\n"), "reader_up is stale"),
        (page().replace(INSTANCE, ""), "instance_info is ambiguous"),
        (page() + 'chipwarden_detector_instance_info{instance="i-00000000"} 1\n', "instance_info is ambiguous"),
        (page() + 'chipwarden_detector_reader_up{x="y"} 1\n', "stands there 2 times"),
        (page() + 'problem_gauge{reason="X"} 0\n', "without type or reason"),
        (
            page() + f'chipwarden_detector_rule_info{{type="{DMA[0]}",reason="{DMA[1]}",action="none"}} 1\n',
            "ambiguous about",
        ),
        ("", "stands there 0 times"),
        ('problem_gauge{type="KernelDeadlock",reason="AUFSUmountHung"} 0\n', "stands there 0 times"),
    ],
)
def test_a_page_in_doubt_is_neither_healthy_nor_faulty(text: str, why: str) -> None:
    with pytest.raises(UnusableError, match=why):
        read(text)


def test_timestamps_are_fine_while_they_are_fresh() -> None:
    fresh = page(DMA).replace("reader_up 1\n", f"reader_up 1 {SINCE * 1000:.0f}\n")
    assert read(fresh).faults


def test_both_formats_give_the_same_answer() -> None:
    # Row B88: prometheus/client_python#1177.
    assert read(page(DMA) + "# EOF\n", open_metrics=True) == read(page(DMA))


@given(cut=st.integers(min_value=0, max_value=page(DMA).count("\n") - 1))
def test_a_page_cut_off_between_two_lines_is_blind(cut: int) -> None:
    text = "".join(page(DMA).splitlines(keepends=True)[:cut])
    with pytest.raises((UnusableError, ParseError)):
        read(text)
