"""How much may be taken away at once: each limit, at it and one below."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from recovery.budget import (
    Refusal,
    most_per_hour,
    most_unhealthy,
    refuses_any,
    refuses_fence,
    refuses_in,
    refuses_more_entries,
    remaining,
    remaining_in,
)
from recovery.decision import Why
from recovery.ledger_text import FULL_BYTES
from recovery.model import LedgerBody, Member, Outcome, State, Way
from recovery.policy import DEFAULT, NEVER_REPLACES, Budget, Policy, Rules, refuse_impossible
from runtime.durations import Duration, decode_hook
from runtime.vocabulary import Action, FaultClass
from tests.recovery.cases import I1, I2, found, group, other
from tests.recovery.machines import DMA, T0

_HOUR = timedelta(hours=1)


def body(*entries: Any, **changes: Any) -> LedgerBody:
    return LedgerBody(entries=entries, **changes)


def why(refusal: Refusal | None) -> Why | None:
    return None if refusal is None else refusal.why


@pytest.mark.parametrize(("size", "most"), [(None, 1), (0, 1), (1, 1), (4, 1), (5, 1), (9, 1), (10, 2), (100, 20)])
def test_a_fifth_of_a_group_may_be_out_and_always_one(size: int | None, most: int) -> None:
    assert most_unhealthy(size, Budget()) == most


@pytest.mark.parametrize(("fleet", "most"), [(None, 3), (0, 3), (39, 3), (40, 4), (1000, 100)])
def test_a_tenth_of_the_fleet_is_admitted_in_an_hour_and_always_three(fleet: int | None, most: int) -> None:
    assert most_per_hour(fleet, Budget()) == most
    assert most_per_hour(fleet, Budget(max_per_hour=7)) == 7


@pytest.mark.parametrize("state", list(State))
def test_an_entry_holds_a_slot_from_admitted_until_closed(state: State) -> None:
    held = body(other(1, state))
    full = state not in (State.OBSERVED, State.FENCED)
    budget = Budget(max_concurrent=1)
    assert (why(refuses_any(held, budget, 100, T0)) is Why.MAX_CONCURRENT) is full
    closed = body(other(1, state, outcome=Outcome.REPLACED))
    assert why(refuses_any(closed, budget, 100, T0)) is None
    would = body(other(1, state, would=True))
    assert why(refuses_any(would, budget, 100, T0)) is None


def test_three_are_open_at_once_and_the_fourth_is_told_which() -> None:
    three = [other(number, group=f"g{number}") for number in range(3)]
    assert refuses_any(body(*three[:2]), Budget(), 100, T0) is None
    refusal = refuses_any(body(*three), Budget(), 100, T0)
    assert refusal == Refusal(why=Why.MAX_CONCURRENT, detail="3 (o0, o1, o2) open, at most 3")


def test_what_was_admitted_within_the_hour_counts_though_it_is_closed_and_the_time_it_ends_is_told() -> None:
    admitted = [
        other(number, outcome=Outcome.REPLACED, admitted_at=T0 - timedelta(minutes=10 * number)) for number in range(5)
    ]
    refusal = refuses_any(body(*admitted), Budget(), None, T0)
    assert refusal is not None
    assert refusal.why is Why.MAX_PER_HOUR
    assert refusal.until == T0 - timedelta(minutes=20) + _HOUR
    assert refuses_any(body(*admitted), Budget(), 60, T0) is None
    assert refuses_any(body(*admitted), Budget(), None, T0 + timedelta(minutes=31)) is not None
    assert refuses_any(body(*admitted), Budget(), None, T0 + timedelta(minutes=40)) is None


def test_a_ledger_that_is_full_lets_nothing_begin() -> None:
    large = body(other(1, State.FENCED, outcome=Outcome.REPLACED, serial="x" * FULL_BYTES))
    assert why(refuses_more_entries(large)) is Why.LEDGER_FULL
    assert why(refuses_any(large, Budget(), 100, T0)) is Why.LEDGER_FULL
    assert refuses_more_entries(body()) is None


def test_one_of_a_group_is_open_at_once_and_others_of_other_groups_do_not_count() -> None:
    assert why(refuses_in(body(other(1)), found(), I1, Budget())) is Why.MAX_PER_GROUP
    assert refuses_in(body(other(1, group="h")), found(), I1, Budget()) is None
    assert refuses_in(body(other(1)), found(), I1, Budget(max_per_group=2)) is None


@pytest.mark.parametrize(
    ("out", "refused"),
    [
        ([], False),
        ([(I2, "Pending", "Healthy")], False),
        ([(I2, "InService", "Unhealthy")], False),
        ([(I1, "InService", "Unhealthy")], False),
        ([(I2, "Pending", "Healthy"), ("i-9", "Standby", "Healthy")], True),
        ([(I1, "InService", "Unhealthy"), ("i-9", "Standby", "Healthy")], False),
    ],
)
def test_whoever_is_not_in_service_and_healthy_counts_once(out: list[tuple[str, str, str]], refused: bool) -> None:
    members = [Member(instance=instance, state=state, health=health) for instance, state, health in out]
    answer = found(group(*members, desired=10))
    assert (why(refuses_in(body(), answer, I1, Budget())) is Why.MAX_UNHEALTHY_PERCENT) is refused


def test_open_entries_count_beside_those_out_of_service_each_instance_once() -> None:
    budget = Budget(max_per_group=9)
    answer = found(group(Member(instance=I2, state="Terminating", health="Unhealthy"), desired=10))
    same = other(1, instance=I2)
    assert refuses_in(body(same), answer, I1, budget) is None
    assert why(refuses_in(body(same, other(2)), answer, I1, budget)) is Why.MAX_UNHEALTHY_PERCENT


def test_a_group_of_which_nothing_is_known_may_lose_one() -> None:
    unknown = found(name=None, group=None, size=None, unknown="throttled")
    assert refuses_in(body(), unknown, I1, Budget()) is None
    refusal = refuses_in(body(other(1, group="")), unknown, I1, Budget(max_per_group=5))
    assert refusal is not None
    assert refusal.why is Why.MAX_UNHEALTHY_PERCENT
    assert "unknown group" in refusal.detail


@pytest.mark.parametrize(("asked", "held"), [(Way.NARROW, Way.AUTOSCALING), (Way.AUTOSCALING, Way.NARROW)])
def test_narrow_mode_allows_one_open_entry_in_the_whole_fleet(asked: Way, held: Way) -> None:
    answer = found(way=asked, name="h")
    assert why(refuses_in(body(other(1, way=held)), answer, I1, Budget())) is Why.NARROW_MODE
    assert refuses_in(body(), answer, I1, Budget()) is None


def test_fenced_nodes_keep_to_the_same_number_whether_they_have_a_slot_or_not() -> None:
    answer = found(group(desired=10))
    one = other(1, State.FENCED)
    assert refuses_fence(body(one), answer, "n1", Budget()) is None
    for second in (other(2, State.FENCED), other(2), other(2, State.FENCED, outcome=Outcome.STALLED)):
        assert why(refuses_fence(body(one, second), answer, "n1", Budget())) is Why.MAX_UNHEALTHY_PERCENT
    gone = [
        other(2, outcome=Outcome.REPLACED),
        other(2, State.FENCED, outcome=Outcome.CLEARED),
        other(2, State.FENCED, outcome=Outcome.STALLED, added=()),
        other(2, State.FENCED, would=True),
        other(2, State.OBSERVED, outcome=Outcome.REFUSED),
        other(2, State.FENCED, outcome=Outcome.REFUSED),
        other(2, State.FENCED, group="h"),
        other(2, State.FENCED, node="n1"),
    ]
    for second in gone:
        assert refuses_fence(body(one, second), answer, "n1", Budget()) is None
    unknown = found(name=None, group=None, size=None)
    refusal = refuses_fence(body(other(1, State.FENCED, group="")), unknown, "n1", Budget())
    assert refusal is not None
    assert "unknown group" in refusal.detail


def test_what_remains_is_the_least_of_all_limits_and_never_negative() -> None:
    assert remaining(body(), Budget(), 100, T0) == 3
    assert remaining(body(other(1), other(2)), Budget(), 100, T0) == 1
    closed = [other(number, outcome=Outcome.REPLACED) for number in range(4)]
    assert remaining(body(*closed), Budget(), None, T0) == 0
    assert remaining_in(body(), found(), Budget()) == 1
    assert remaining_in(body(other(1)), found(), Budget()) == 0
    out = [Member(instance=f"i-{number}", state="Standby", health="Healthy") for number in range(9)]
    assert remaining_in(body(), found(group(*out)), Budget(max_per_group=5)) == 0


# Policies.


@pytest.mark.parametrize(
    ("advised", "own", "default", "expected"),
    [
        (Action.REPLACE, None, None, Action.REPLACE),
        (Action.REBOOT, None, None, Action.REBOOT),
        (Action.NONE, None, None, Action.NONE),
        (None, None, None, Action.NONE),
        (None, Action.REPLACE, None, Action.REPLACE),
        (Action.NONE, Action.REBOOT, None, Action.REBOOT),
        (Action.REPLACE, Action.NONE, None, Action.NONE),
        (Action.REPLACE, None, Action.NONE, Action.NONE),
        (Action.REBOOT, None, Action.REPLACE, Action.REPLACE),
        (Action.NONE, None, Action.REPLACE, Action.NONE),
        (None, None, Action.REPLACE, Action.NONE),
        (Action.REPLACE, Action.REBOOT, Action.NONE, Action.REBOOT),
    ],
)
def test_a_reasons_own_policy_goes_first_then_the_default_for_what_is_advised_at_all(
    advised: Action | None, own: Action | None, default: Action | None, expected: Action
) -> None:
    rules = Rules(policies={DMA: Policy(action=own), DEFAULT: Policy(action=default)})
    assert rules.action(DMA, advised) is expected


def test_hang_on_collectives_never_replaces_whatever_is_written() -> None:
    assert Rules().action(NEVER_REPLACES, Action.REPLACE) is Action.NONE
    assert Rules(policies={DEFAULT: Policy(action=Action.REPLACE)}).action(NEVER_REPLACES, Action.NONE) is Action.NONE
    refuse_impossible({NEVER_REPLACES: Policy(action=Action.REBOOT)})
    with pytest.raises(ValueError, match=r"HANG_ON_COLLECTIVES\.action: .*allowed: none, reboot"):
        Rules(policies={NEVER_REPLACES: Policy(action=Action.REPLACE)})


@pytest.mark.parametrize(
    ("fault_class", "confirm", "drain"),
    [
        (FaultClass.POISONED, 10, 300),
        (FaultClass.DEAD, 10, 0),
        (FaultClass.DEGRADED, 600, 300),
        (FaultClass.SUSPECT, 600, 300),
    ],
)
def test_times_come_from_the_class_unless_a_policy_names_them(
    fault_class: FaultClass, confirm: float, drain: float
) -> None:
    assert Rules().confirm_for(DMA, fault_class) == Duration(confirm)
    assert Rules().drain_timeout(DMA, fault_class) == Duration(drain)
    default = Rules(policies={DEFAULT: Policy(confirm_for=Duration(1), drain_timeout=Duration(2)), DMA: Policy()})
    assert default.confirm_for(DMA, fault_class) == Duration(1)
    assert default.drain_timeout(DMA, fault_class) == Duration(2)
    own = Rules(policies={**default.policies, DMA: Policy(confirm_for=Duration(3), drain_timeout=Duration(4))})
    assert own.confirm_for(DMA, fault_class) == Duration(3)
    assert own.drain_timeout(DMA, fault_class) == Duration(4)


def test_policies_and_budget_are_written_as_the_contract_shows_them() -> None:
    policy = msgspec.convert(
        {"action": "none", "confirmFor": "10s", "drainTimeout": "5m"}, Policy, dec_hook=decode_hook
    )
    assert policy == Policy(action=Action.NONE, confirm_for=Duration(10), drain_timeout=Duration(300))
    written = {
        "maxConcurrent": 1,
        "maxPerGroup": 2,
        "maxUnhealthyPercent": 30,
        "maxPerHour": 4,
        "stormNodes": 5,
        "stormWindow": "1m",
        "replacementTimeout": "30m",
        "forceTerminate": True,
        "respectScaleInProtection": True,
    }
    assert msgspec.convert(written, Budget, dec_hook=decode_hook).max_unhealthy_percent == 30
    for wrong in ({"maxConcurrent": 0}, {"maxUnhealthyPercent": 101}, {"maxConcurent": 1}, {"stormWindow": "0s"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, Budget, dec_hook=decode_hook)


def test_a_group_is_no_larger_than_the_machines_it_has_with_those_that_are_being_replaced() -> None:
    nine = group(desired=9)
    weighted = found(replace(nine, desired=160), size=160)
    leaving = body(other(1, State.GONE))
    assert refuses_in(body(), weighted, I1, Budget()) is None
    assert why(refuses_fence(body(other(2, State.FENCED)), weighted, "n1", Budget())) is Why.MAX_UNHEALTHY_PERCENT
    assert refuses_in(leaving, weighted, I1, Budget(max_per_group=2)) is None
    two = body(other(1, State.GONE), other(2, State.GONE))
    refusal = refuses_in(two, weighted, I1, Budget(max_per_group=3))
    assert refusal is not None
    assert refusal.detail.startswith("3 of 11 in g would be out, at most 2")
    assert remaining_in(body(), weighted, Budget(max_per_group=9)) == 1
    assert remaining_in(body(), found(group(desired=10)), Budget(max_per_group=9)) == 2
