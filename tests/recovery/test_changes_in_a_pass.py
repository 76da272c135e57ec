"""What changes in the middle of a pass is seen before anything more is done, and a pass has an end."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from recovery.decision import Why
from recovery.model import Outcome, State
from recovery.policy import Budget, Policy, Rules
from runtime.durations import Duration
from tests.recovery.machines import RESET, SLOW, SRAM, SimNode
from tests.recovery.midway import Change, Midway
from tests.recovery.world import Process, World, fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SECONDS = 15
_SHORT_DRAIN = Rules(policies={SRAM: Policy(drain_timeout=Duration(3))})


def _story() -> tuple[World, list[str], Process]:
    """Make three nodes of three groups break at once: one is emptied, one dies, one needs a reboot."""
    world = World()
    names = [world.add_group(group, 6)[0] for group in "abc"]
    process = world.process(_SHORT_DRAIN)
    world.run(process, 7)
    world.occupy(names[0])
    for name, reason in zip(names, (SRAM, SRAM, RESET), strict=True):
        world.break_node(name, reason)
    world.run(process, 8)
    return world, names, process


def _moments() -> Iterator[int]:
    """Number the calls of all passes in which something is written down or done."""
    world, _, process = _story()
    log: list[str] = []
    world.hook = lambda call, when: log.append(f"{when} {call}")
    begun = 0
    end = world.now + timedelta(seconds=_SECONDS)
    while world.now < end:
        world.advance(process.controller.step())
        if "after save" in log[begun:]:
            yield from range(begun, len(log))
        begun = len(log)


def _is_at(wanted: int, number: int, _moment: str) -> bool:
    return number == wanted


_OF_ALL = [(Change.PAUSE, 0), (Change.LOSE_LEAD, 0)]
_OF_ONE = [(change, number) for change in (Change.CLEAR, Change.OPT_OUT) for number in range(3)]


@pytest.mark.parametrize(("change", "number"), _OF_ALL + _OF_ONE)
def test_nothing_more_is_done_after_a_change_at_any_call_of_a_pass(change: Change, number: int) -> None:
    for moment in _moments():
        world, names, process = _story()
        midway = Midway(world, change, names[number], process, functools.partial(_is_at, moment))
        world.run(process, _SECONDS)
        assert midway.has_happened
        assert midway.late == [], (moment, midway.log[moment])


@pytest.mark.parametrize("change", ["pause", "heal"])
def test_a_change_while_a_group_is_read_keeps_its_machine(change: str) -> None:
    world, names, process = fleet()
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    done = []

    def hook(call: str, when: str) -> None:
        if (when, call) == ("after", "group") and world.entries() and world.entries()[0].state is State.DRAINED:
            done.append(world.now)
            world.now += timedelta(seconds=25)
            world.pause = "stop" if change == "pause" else None
            if change == "heal":
                world.heal(names[0])

    world.hook = hook
    world.run(process, 400)
    assert len(done) >= 1
    assert world.acts() == []
    assert world.told("Terminating") == []
    assert world.entries()[0].outcome is (Outcome.CLEARED if change == "heal" else None)


def test_a_step_that_was_written_and_is_not_right_any_more_is_taken_back() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    written: list[State] = []

    def hook(call: str, when: str) -> None:
        if (when, call) == ("after", "save"):
            written.append(world.entries()[0].state)
            world.pause = "stop" if written[-1] is State.TERMINATING else world.pause

    world.hook = hook
    world.run(process, 60)
    assert State.TERMINATING in written
    assert world.acts() == []
    entry = world.entry(names[0])
    assert (entry.state, entry.called_at, entry.members) == (State.DRAINED, None, ())
    assert process.why(names[0]) == Why.PAUSED
    world.pause, world.hook = None, lambda _call, _when: None
    world.run(process, 90)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_lease_that_ages_between_the_write_and_the_call_leaves_nothing_given_away() -> None:
    world, names, process = fleet()
    world.break_node(names[0], RESET)

    def hook(call: str, when: str) -> None:
        states = [entry.state for entry in world.entries()]
        if (when, call) == ("after", "save") and State.REBOOTING in states:
            process.lead.fresh = False

    world.hook = hook
    world.run(process, 30)
    assert world.acts() == []
    entry = world.entry(names[0])
    assert (entry.state, entry.reboots_failed, entry.called_at) == (State.DRAINED, 0, None)
    process.lead.fresh, world.hook = True, lambda _call, _when: None
    world.run(process, 200)
    assert world.outcomes() == [Outcome.REBOOTED]


def test_a_pass_ends_after_a_minute_and_the_next_one_begins_with_the_nodes_that_were_left() -> None:
    world = World()
    names = [name for group in "abc" for name in world.add_group(group, 40)[:12]]
    process = world.process(Rules(budget=Budget(storm_nodes=100)))
    world.run(process, 5)
    for name in names:
        world.break_node(name, SLOW)
    read: list[str] = []

    def slow(call: str, when: str) -> None:
        if (when, call) == ("before", "read"):
            world.now += timedelta(seconds=4)

    def note(name: str) -> None:
        read.append(name)

    world.hook = slow
    world.nodes = _Noted(world.nodes, note)
    began = world.now
    process.controller.step()
    assert timedelta(seconds=60) <= world.now - began <= timedelta(seconds=64)
    first = list(read)
    process.controller.step()
    process.controller.step()
    assert len(first) == 15
    assert sorted(read[: len(names)]) == sorted(names)
    assert {decision.node for decision in process.controller.snapshot.decisions} == set(names)


def test_a_node_that_a_pass_does_not_come_to_keeps_what_was_said_about_it() -> None:
    world, names, process = fleet(rules=Rules(budget=Budget(storm_nodes=100)))
    for name in names:
        world.break_node(name, SLOW)
        world.nodes[name].provider_instance = "i-0000000000000dead"
    world.run(process, 700)
    told = len(world.told("Blocked"))
    assert told == len(names)

    def slow(call: str, when: str) -> None:
        if (when, call) == ("before", "read"):
            world.now += timedelta(seconds=25)

    world.hook = slow
    for _ in range(6):
        process.controller.step()
        assert len(process.controller.snapshot.decisions) == len(names)
    assert len(world.told("Blocked")) == told


class _Noted(dict[str, SimNode]):
    """Nodes that tell when one is looked up by its name."""

    def __init__(self, nodes: dict[str, SimNode], note: Callable[[str], None]) -> None:
        super().__init__(nodes)
        self._note = note

    def __getitem__(self, name: str) -> SimNode:
        self._note(name)
        return super().__getitem__(name)


def test_a_quiet_poll_asks_for_the_ledger_and_the_pause_and_nothing_else() -> None:
    world, _, process = fleet()
    log: list[str] = []
    world.hook = lambda call, when: log.append(call) if when == "before" else None
    for _ in range(200):
        process.controller.step()
    assert log == ["load", "paused"] * 200
