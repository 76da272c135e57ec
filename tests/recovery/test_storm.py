"""When not to believe: too many at once, or the same again on a new machine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery import entries
from recovery.model import LedgerBody, NodeFacts, State
from recovery.policy import Budget, Rules
from recovery.storm import is_young, most_at_once, recurrences, serial_of, storms
from recovery.watch import Watch
from tests.recovery.cases import I1, I2, facts, fault, fleet_with, gauge, other, seen, sighting
from tests.recovery.machines import DMA, HANG, SLOW, SRAM, T0, TYPE

_RULES = Rules()
_MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(("fleet", "most"), [(None, 3), (10, 3), (39, 3), (40, 4), (499, 49), (500, 50), (9999, 50)])
def test_a_tenth_of_the_fleet_at_most_50_and_at_least_3_are_no_storm(fleet: int | None, most: int) -> None:
    assert most_at_once(fleet, _RULES) == most
    assert most_at_once(fleet, Rules(budget=Budget(storm_nodes=7))) == 7


@pytest.mark.parametrize(
    ("poll", "reasons"),
    [
        (fleet_with(DMA, 4), []),
        (fleet_with(DMA, 5), [DMA]),
        (fleet_with(DMA, 5, minutes=5), [DMA]),
        (fleet_with(DMA, 5, minutes=5.1), [DMA]),
        (fleet_with(DMA, 5, minutes=60 * 20), [DMA]),
        (fleet_with(DMA, 4, minutes=60 * 20), []),
        (fleet_with(DMA, 5, minutes=-60), [DMA]),
        (fleet_with(DMA, 5, since=None), [DMA]),
        (fleet_with(HANG, 40), []),
        (fleet_with(DMA, 40, action=None), []),
        (fleet_with(DMA, 40, fault_class=None), []),
    ],
)
def test_more_nodes_than_that_within_5_minutes_are_a_storm_hanging_ones_never(poll: Any, reasons: list[str]) -> None:
    watch = Watch()
    watch.look(poll, T0)
    assert [storm.reason for storm in storms(poll, LedgerBody(), _RULES, watch, T0)] == reasons


def _spread(*minutes: float) -> Any:
    """Make a poll of a fleet of 40 with one node for each beginning."""
    nodes = [seen(node=f"n{number}", faults=(gauge(DMA, ago),)) for number, ago in enumerate(minutes)]
    return sighting(*nodes, fleet=40)


@pytest.mark.parametrize(
    ("poll", "nodes"),
    [
        (_spread(0, 2, 4, 6, 8, 10, 12), 0),
        (_spread(0, 90, 91, 92, 93, 95, 200), 5),
        (_spread(90, 91, 92, 93, 95.1), 0),
        (_spread(0, 1, 2, 3, 600, 601, 602, 603, 604, 604.5, 605), 7),
    ],
)
def test_it_is_the_window_with_most_beginnings_that_counts_whenever_it_was(poll: Any, nodes: int) -> None:
    found = storms(poll, LedgerBody(), _RULES, Watch(), T0)
    assert [storm.nodes for storm in found] == ([nodes] if nodes else [])


def test_a_storm_of_the_past_that_has_gone_is_none() -> None:
    history = tuple(other(number, State.GONE, observed_at=T0 - 9 * _MINUTE) for number in range(20))
    assert storms(fleet_with(DMA, 4, minutes=9), LedgerBody(entries=history), _RULES, Watch(), T0) == []


def test_nodes_that_were_begun_with_and_have_gone_count_too_and_what_is_tripped_or_reset_does_not() -> None:
    poll = fleet_with(DMA, 4)
    gone = other(1, State.GONE, observed_at=T0 - _MINUTE)
    watch = Watch()
    (storm,) = storms(poll, LedgerBody(entries=(gone,)), _RULES, watch, T0)
    assert (storm.nodes, storm.most, storm.node) == (5, 4, "n0")
    same = other(1, State.GONE, observed_at=T0 - _MINUTE, node="n1")
    for body in (
        LedgerBody(entries=(same,)),
        LedgerBody(entries=(other(1, would=True, observed_at=T0),)),
        LedgerBody(entries=(gone,), tripped={DMA: T0}),
        LedgerBody(entries=(gone,), reset={DMA: T0}),
        LedgerBody(entries=(other(1, State.GONE, observed_at=T0 - 6 * _MINUTE),)),
    ):
        assert storms(poll, body, _RULES, watch, T0) == []
    assert storms(poll, LedgerBody(entries=(gone,), reset={DMA: T0 - 2 * _MINUTE}), _RULES, watch, T0) != []


def test_a_reset_breaker_and_a_resumed_group_forget_only_their_own() -> None:
    body = LedgerBody(
        tripped={DMA: T0, SRAM: T0},
        blocked_groups={"g": "x", "h": "y"},
        entries=(other(1, young=True), other(2, young=True, group="h")),
    )
    reset = entries.reset_breaker(body, DMA, T0 + _MINUTE)
    assert (reset.tripped, reset.reset) == ({SRAM: T0}, {DMA: T0 + _MINUTE})
    resumed = entries.resume_group(body, "g")
    assert resumed.blocked_groups == {"h": "y"}
    assert [held.young for held in resumed.entries] == [False, True]


# Recurrence.


def test_the_serial_number_is_the_one_of_this_faults_line() -> None:
    message = f"{SRAM} nd-id=1 serial-num=aaaa (1 line); {DMA} instance-id={I1} serial-num=bbbb action=X (2 lines)"
    looked = facts(conditions={TYPE: ("True", "", message)})
    assert serial_of(fault(), looked) == "bbbb"
    assert serial_of(fault(reason=SRAM), looked) == "aaaa"
    assert serial_of(fault(reason=SLOW), looked) is None
    assert serial_of(fault(), facts(conditions={})) is None


@pytest.mark.parametrize(
    ("looked", "held", "young"),
    [
        (facts(), [], False),
        (facts(created_at=T0 - timedelta(hours=1)), [], True),
        (facts(created_at=T0 - timedelta(hours=2, seconds=31)), [], False),
        (facts(), [other(1, replacement=I1, ended_at=T0 - timedelta(hours=1))], True),
        (facts(), [other(1, replacement=I1, ended_at=T0 - timedelta(hours=3))], False),
        (facts(), [other(1, replacement=I2, ended_at=T0)], False),
        (facts(), [other(1, replacement=I1, ended_at=T0, group="h")], False),
        (facts(conditions={TYPE: ("True", "", f"{DMA} serial-num=aa")}), [other(1, serial="aa")], True),
        (facts(conditions={TYPE: ("True", "", f"{DMA} serial-num=aa")}), [other(1, serial="bb")], False),
        (facts(conditions={TYPE: ("True", "", f"{DMA} serial-num=aa")}), [other(1, serial="aa", instance=I1)], False),
    ],
)
def test_a_node_is_new_for_two_hours_and_a_device_for_ever(looked: NodeFacts, held: list[Any], young: bool) -> None:
    assert is_young(LedgerBody(entries=tuple(held)), "g", fault(), looked, I1) is young


def test_only_new_nodes_of_the_same_group_and_reason_within_a_day_are_recurrences() -> None:
    counted = other(1, young=True)
    rest = [
        other(2),
        other(3, young=True, reason=SRAM),
        other(4, young=True, group="h"),
        other(5, young=True, instance=I1),
        other(6, young=True, would=True),
        other(7, young=True, observed_at=T0 - timedelta(hours=24)),
        other(8, young=True, observed_at=None),
    ]
    body = LedgerBody(entries=(counted, *rest))
    assert recurrences(body, "g", DMA, I1, T0) == [counted]
