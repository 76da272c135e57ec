"""The book of active faults: bounded, and it forgets none."""

from __future__ import annotations

import msgspec
import pytest

from detector.book import MOST_DEVICES, MOST_ENTRIES, MOST_MENTIONED, Book, key_of
from detector.model import Condition, Fault, Finding, Rule
from runtime.vocabulary import Action, ClearsOn, FaultClass, Status
from tests.detector.builders import at, finding, rule

BROKEN = rule(fault_class=FaultClass.DEAD, action=Action.REPLACE, clears_on=ClearsOn.REPLACEMENT)
WORSE = rule(reason="ChipWorse", fault_class=FaultClass.POISONED)
ODD = rule(reason="ChipOdd", condition=None)
FURTHER = {"device": "further"}


def book(*rules: Rule) -> Book:
    return Book({each.reason: each for each in rules or (BROKEN, WORSE, ODD)})


def enter(into: Book, found: Finding, *, lines: int = 1, seconds: float = 0.0) -> int:
    return into.count(into.key(found), found, lines, at(seconds), at(seconds))


def true_condition(reason: str, message: str = "", kind: str = "ChipHasError") -> Condition:
    return Condition(
        type=kind,
        status=Status.TRUE,
        reason=reason,
        message=message,
        last_transition_at=at(-60),
        last_heartbeat_at=at(-30),
    )


def adopt(into: Book, condition: Condition) -> None:
    into.adopt(into.named(condition), frozenset())


def reasons(of: Book) -> list[str]:
    return [fault.reason for fault in of.faults]


def test_a_fault_has_what_its_rule_says_and_what_its_line_says() -> None:
    faults = book()
    assert enter(faults, finding(BROKEN, nd_id="1", action="TERMINATE_INSTANCE"), lines=2, seconds=5) == 2
    assert faults.faults == (
        Fault(
            reason="ChipBroken",
            condition="ChipHasError",
            fault_class=FaultClass.DEAD,
            action=Action.REPLACE,
            clears_on=ClearsOn.REPLACEMENT,
            count=2,
            first_at=at(5),
            last_at=at(5),
            details={"nd-id": "1", "action": "TERMINATE_INSTANCE"},
        ),
    )


def test_lines_of_the_same_device_are_one_fault() -> None:
    faults = book()
    enter(faults, finding(BROKEN, nd_id="1", hostname="a"), seconds=5)
    assert enter(faults, finding(BROKEN, nd_id="1", hostname="b", action="x"), lines=3, seconds=9) == 4
    enter(faults, finding(BROKEN, nd_id="2"))
    assert [(fault.details["nd-id"], fault.count, fault.last_at) for fault in faults.faults] == [
        ("1", 4, at(9)),
        ("2", 1, at(0)),
    ]


def test_an_older_line_read_late_does_not_turn_back_the_newest_time() -> None:
    faults = book()
    enter(faults, finding(BROKEN), seconds=9)
    enter(faults, finding(BROKEN), seconds=5)
    assert faults.faults[0].last_at == at(9)


def test_temporary_problems_are_counted_by_device_and_are_no_faults() -> None:
    faults = book()
    assert [enter(faults, finding(ODD, nd_id=device), lines=2) for device in ("1", "2", "1")] == [2, 2, 4]
    assert faults.faults == ()


def test_too_many_devices_share_one_further_entry() -> None:
    faults = book()
    for number in range(50_000):
        enter(faults, finding(BROKEN, nd_id=str(number)))
    assert len(faults.faults) == MOST_DEVICES + 1
    assert (faults.faults[-1].details, faults.faults[-1].count) == (FURTHER, 50_000 - MOST_DEVICES)
    assert enter(faults, finding(BROKEN, nd_id="3")) == 2, "a device that has an entry keeps it"
    assert enter(faults, finding(BROKEN, nd_id="49999")) == 50_000 - MOST_DEVICES + 1


def test_a_fault_of_a_full_book_still_gets_an_entry() -> None:
    rules = [rule(reason=f"Chip{number}") for number in range(9)]
    faults = book(*rules, WORSE)
    for each in rules:
        for device in range(MOST_DEVICES):
            enter(faults, finding(each, nd_id=str(device)))
    enter(faults, finding(WORSE, nd_id="1"))
    assert faults.faults[-1].details == FURTHER
    assert len(faults.faults) <= MOST_ENTRIES + len(rules)
    assert set(reasons(faults)) == {*(each.reason for each in rules), "ChipWorse"}


def test_a_storm_of_temporary_problems_costs_no_fault_its_device() -> None:
    odd = [rule(reason=f"Odd{number}", condition=None) for number in range(9)]
    faults = book(*odd, BROKEN)
    for each in odd:
        for device in range(1000):
            enter(faults, finding(each, nd_id=str(device)))
    assert len(faults._mentioned) <= MOST_MENTIONED + len(odd)
    enter(faults, finding(BROKEN, nd_id="1"))
    assert faults.faults[0].details == {"nd-id": "1"}


def test_further_temporary_problems_are_counted_together() -> None:
    faults = book()
    counts = [enter(faults, finding(ODD, nd_id=str(device))) for device in range(MOST_DEVICES + 3)]
    assert counts == [1] * (MOST_DEVICES + 1) + [2, 3]


def test_ended_faults_make_room_for_others() -> None:
    faults = book()
    for number in range(MOST_DEVICES):
        enter(faults, finding(BROKEN, nd_id=str(number)))
    ended = faults.end(lambda fault: fault.details["nd-id"] != "5")
    assert len(ended) == MOST_DEVICES - 1
    enter(faults, finding(BROKEN, nd_id="new"))
    assert [fault.details["nd-id"] for fault in faults.faults] == ["5", "new"]
    assert faults.end(lambda fault: fault.reason == "ChipOther") == []


def test_a_restored_fault_means_what_its_rule_says_now() -> None:
    faults, old = book(), book(rule(clears_on=ClearsOn.REBOOT, condition="OldCondition"))
    enter(old, finding(rule(clears_on=ClearsOn.REBOOT, condition="OldCondition"), nd_id="1"), lines=3)
    faults.restore(old.faults[0])
    (fault,) = faults.faults
    assert (fault.condition, fault.clears_on, fault.action) == ("ChipHasError", ClearsOn.REPLACEMENT, Action.REPLACE)
    assert enter(faults, finding(BROKEN, nd_id="1")) == 4


@pytest.mark.parametrize("rules", [(WORSE,), (rule(condition=None),)], ids=["no longer loaded", "temporary by now"])
def test_a_restored_fault_whose_rule_sets_no_condition_any_more_keeps_its_last_word(rules: tuple[Rule, ...]) -> None:
    old, faults = book(), book(*rules)
    enter(old, finding(BROKEN, nd_id="1"))
    faults.restore(old.faults[0])
    assert faults.faults == old.faults


def test_an_adopted_condition_names_its_faults() -> None:
    faults = book()
    adopt(faults, true_condition("ChipWorse", "ChipWorse nd-id=1 (1 line); ChipBroken nd-id=2 (7 lines)"))
    assert sorted(reasons(faults)) == ["ChipBroken", "ChipWorse"]
    assert faults.faults[0].first_at == at(-60)
    assert {key[0] for key in faults.placeholders} == {"ChipBroken", "ChipWorse"}
    assert [(fault.details, fault.count) for fault in faults.faults] == [({"nd-id": "1"}, 1), ({"nd-id": "2"}, 7)]


def test_an_adopted_condition_of_a_rule_no_longer_loaded_is_a_fault_all_the_same() -> None:
    faults = book()
    adopt(faults, true_condition("ChipGone", "ChipGone (1 line)"))
    (fault,) = faults.faults
    assert (fault.reason, fault.condition, fault.clears_on) == ("ChipGone", "ChipHasError", ClearsOn.OPERATOR)


def test_a_detail_or_another_type_adopts_no_fault() -> None:
    faults = book(BROKEN, WORSE, rule(reason="OtherFault", condition="Other"))
    adopt(faults, true_condition("ChipBroken", "ChipBroken task=x ChipWorse (9 lines); OtherFault (1 line)"))
    assert reasons(faults) == ["ChipBroken"]


def test_the_first_line_that_comes_again_tells_the_device_of_an_adopted_fault() -> None:
    faults = book()
    adopt(faults, true_condition("ChipBroken"))
    enter(faults, finding(BROKEN, nd_id="1"), seconds=5)
    enter(faults, finding(BROKEN, nd_id="2"), seconds=6)
    assert [(fault.details, fault.count, fault.first_at) for fault in faults.faults] == [
        ({"nd-id": "1"}, 1, at(-60)),
        ({"nd-id": "2"}, 1, at(6)),
    ]
    assert faults.placeholders == frozenset()


def test_an_adopted_fault_whose_line_tells_no_device_stays_one_entry() -> None:
    faults = book()
    adopt(faults, true_condition("ChipBroken"))
    enter(faults, finding(BROKEN), lines=2)
    enter(faults, finding(BROKEN, nd_id="1"))
    assert [(fault.details, fault.count) for fault in faults.faults] == [({}, 3), ({"nd-id": "1"}, 1)]


def test_a_fault_read_before_its_condition_is_adopted_is_not_entered_twice() -> None:
    faults = book()
    enter(faults, finding(BROKEN, nd_id="1"), lines=4)
    adopt(faults, true_condition("ChipBroken"))
    assert [(fault.details, fault.count, fault.first_at) for fault in faults.faults] == [({"nd-id": "1"}, 4, at(-60))]
    assert faults.placeholders == frozenset()


def test_lines_that_an_adopted_count_holds_already_are_not_counted_twice() -> None:
    faults = book()
    adopt(faults, true_condition("ChipBroken", "ChipBroken nd-id=1 (3 lines)"))
    found = finding(BROKEN, nd_id="1")
    counts = [faults.count(faults.key(found), found, 1, at(0), at(0), again=True) for _ in range(4)]
    assert counts == [3, 3, 3, 4]
    assert enter(faults, found) == 5, "a newer line"


def test_what_an_earlier_run_kept_is_here_or_has_ended() -> None:
    faults = book()
    named = faults.named(true_condition("ChipBroken", "ChipBroken nd-id=1 (3 lines); ChipBroken nd-id=2 (1 line)"))
    faults.adopt(named, {key_of(named[0])})
    assert [fault.details for fault in faults.faults] == [{"nd-id": "2"}]


def test_a_condition_that_is_not_true_names_no_fault() -> None:
    condition = msgspec.structs.replace(true_condition("ChipBroken"), status=Status.FALSE)
    assert book().named(condition) == []


def test_an_adopted_fault_can_end() -> None:
    faults = book()
    adopt(faults, true_condition("ChipBroken"))
    assert [fault.reason for fault in faults.end(lambda _: True)] == ["ChipBroken"]
    assert faults.placeholders == frozenset()
    enter(faults, finding(BROKEN, nd_id="1"))
    assert faults.faults[0].first_at == at(0)
