"""The sentences in conditions and Events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from detector.details import printable
from detector.model import Condition, Fault
from detector.wording import (
    Named,
    as_named,
    cleared_message,
    condition_message,
    fault_message,
    gravest_first,
    named_faults,
)
from runtime.vocabulary import Action, ClearsOn, FaultClass, Status
from tests.detector.builders import at, finding, rule

LONGEST = 1024


def fault(
    reason: str = "ChipBroken",
    fault_class: FaultClass = FaultClass.DEAD,
    *,
    seconds: float = 0,
    count: int = 1,
    details: dict[str, str] | None = None,
) -> Fault:
    return Fault(
        reason=reason,
        condition="ChipHasError",
        fault_class=fault_class,
        action=Action.REPLACE,
        clears_on=ClearsOn.REPLACEMENT,
        count=count,
        first_at=at(seconds),
        last_at=at(seconds),
        details=details or {},
    )


def test_a_condition_names_each_fault_with_its_device_and_count() -> None:
    faults = [fault("A", details={"nd": "1", "nc": "2"}), fault("B", count=7, details={"nd": "5"}), fault("C")]
    assert condition_message(faults) == "A nd=1 nc=2 (1 line); B nd=5 (7 lines); C (1 line)"


def test_more_faults_than_a_message_holds_are_counted() -> None:
    faults = [fault(f"Chip{number:03}Broken", details={"device": "x" * 20}) for number in range(50)]
    message = condition_message(faults)
    named = message.count("Broken device=")
    assert len(message) <= LONGEST
    assert named > 15
    assert message.endswith(f"; and {50 - named} more")


def test_a_single_fault_with_endless_details_is_named_all_the_same() -> None:
    details = {f"group{number}": "x" * 64 for number in range(40)}
    message = condition_message([fault(details=details), fault("Other")])
    assert len(message) <= LONGEST
    assert message.startswith("ChipBroken group0=")
    assert message.endswith("(1 line); Other (1 line)")


def test_nothing_in_a_line_can_pass_for_another_fault() -> None:
    """Conditions are read back by their `;` when the state file is lost."""
    faked = condition_message([fault(details={"task": "x (1 line); ChipDead (9 lines)"})])
    assert faked.split("; ") == [faked]


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.binary(max_size=400).map(printable)), max_size=200))
def test_a_condition_never_says_more_than_it_may(all_details: list[dict[str, str]]) -> None:
    message = condition_message([fault("R" * 128, details=details) for details in all_details])
    assert len(message) <= LONGEST
    assert bool(message) is bool(all_details)


def test_the_gravest_and_then_the_oldest_fault_comes_first() -> None:
    suspect, degraded, dead, poisoned = (fault(c, c, seconds=9 - n) for n, c in enumerate(reversed(FaultClass)))
    younger = fault("younger", FaultClass.POISONED, seconds=60)
    assert [f.reason for f in gravest_first([suspect, younger, dead, degraded, poisoned])] == [
        "poisoned",
        "younger",
        "dead",
        "degraded",
        "suspect",
    ]


def test_an_event_says_what_a_line_means_and_quotes_it() -> None:
    found = finding(rule(fault_class=FaultClass.DEAD, action=Action.REPLACE), nd_id="3")
    said = fault_message(found, b"chip 3 broken\n\x1b[31m")
    assert said == "ChipBroken nd-id=3 (dead, vendor's advice: replace): chip 3 broken??[31m"
    temporary = finding(rule(condition=None))
    assert fault_message(temporary, b"x" * 9) == "ChipBroken (no condition): xxxxxxxxx"


@given(st.binary(max_size=2048), st.binary(max_size=400))
def test_an_event_is_one_short_printable_line(text: bytes, value: bytes) -> None:
    said = fault_message(finding(rule(), **{f"g{n}": printable(value) for n in range(30)}), text)
    assert len(said) <= LONGEST
    assert said.isprintable()


def test_an_ended_fault_is_told_with_its_cause() -> None:
    assert cleared_message(fault(count=2, details={"nd": "1"}), "the node was rebooted") == (
        "ChipBroken nd=1 ended after 2 lines: the node was rebooted"
    )


def says(message: str, reason: str = "A") -> Condition:
    return Condition(
        type="ChipHasError",
        status=Status.TRUE,
        reason=reason,
        message=message,
        last_transition_at=at(0),
        last_heartbeat_at=at(0),
    )


def test_what_a_condition_says_can_be_read_again() -> None:
    faults = [fault("A", details={"nd-id": "1", "note": "two words"}), fault("B", count=7), fault("A", count=2)]
    assert named_faults(says(condition_message(faults))) == [
        Named("A", {"nd-id": "1", "note": "two words"}, 1),
        Named("B", {}, 7),
        Named("A", {}, 2),
    ]


def test_a_message_that_was_cut_names_what_is_left_of_it() -> None:
    faults = [fault("A", details={"nd": str(number), "note": "x" * 50}) for number in range(99)]
    named = named_faults(says(condition_message(faults)))
    assert 9 < len(named) < 30
    assert [each.details["nd"] for each in named] == [str(number) for number in range(len(named))]


@given(
    st.dictionaries(st.sampled_from(["nd-id", "nc-id", "device"]), st.text("ab =;()1,-x", min_size=1, max_size=64)),
    st.integers(1, 10**9 - 1),
)
def test_a_fault_reads_from_a_message_as_it_is_told_to_read(details: dict[str, str], count: int) -> None:
    message = condition_message([fault("A", details=details, count=count)])
    assert named_faults(says(message)) == [Named("A", as_named(details), count)]


@given(st.text())
def test_whatever_a_message_says_the_reason_is_named(message: str) -> None:
    assert "A" in {each.reason for each in named_faults(says(message))}
