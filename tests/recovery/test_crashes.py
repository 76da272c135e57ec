"""Whatever call a leader dies in, fails in or is replaced in: the work is done once, by whoever is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from recovery.model import Outcome
from recovery.ports import PortError
from tests.recovery.machines import DMA, RESET, SRAM
from tests.recovery.world import Killed, Process, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LONGEST = 1500  # seconds: a reboot that was written down and not made is waited for in vain, then made
_LATER = 8  # calls that follow the last act are polls like each other: every so many will do


@dataclass(frozen=True)
class Story:
    """One fault from its line to its end."""

    reason: str
    outcome: Outcome
    act: str
    pods: tuple[str, ...] = ()

    def begin(self) -> tuple[World, str, Process]:
        world = World()
        name = world.add_group("g", 6)[2]
        world.nodes[name].pods = list(self.pods)
        process = world.process()
        world.run(process, 7)
        world.break_node(name, self.reason)
        return world, name, process

    def calls(self) -> list[str]:
        world, _, process = self.begin()
        calls: list[str] = []
        world.hook = lambda call, when: calls.append(f"{when} {call}")
        world.run_to_the_end(process, _LONGEST)
        assert world.outcomes() == [self.outcome]
        return calls

    def moments(self) -> Iterator[tuple[int, str]]:
        """Name the moments at which something may happen: before and after each call."""
        calls = self.calls()
        last = max(at for at, call in enumerate(calls) if call == f"after {self.act}")
        return ((at, call) for at, call in enumerate(calls) if at < last + 10 or at % _LATER == 0)


STORIES = [
    pytest.param(Story(DMA, Outcome.REPLACED, "set_unhealthy"), id="dead"),
    pytest.param(Story(SRAM, Outcome.REPLACED, "set_unhealthy", ("default/a", "default/b")), id="poisoned"),
    pytest.param(Story(RESET, Outcome.REBOOTED, "reboot"), id="to be rebooted"),
]


def _at(world: World, number: int, act: Callable[[], None]) -> None:
    """Do something at the call with this number, once."""
    count = -1

    def hook(_call: str, _when: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            world.hook = lambda _c, _w: None
            act()

    world.hook = hook


def _raise(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def _assert_done_once(world: World, story: Story, name: str, when: str, *, again: int = 0) -> None:
    """See that the right machine was taken, once, and that nothing is left of it."""
    instance = world.entry(name).instance
    assert world.violations == [], when
    closed = [entry for entry in world.entries() if entry.outcome is not Outcome.FAILED]
    assert [entry.outcome for entry in closed] == [story.outcome], when
    act = {"set_unhealthy": "mark", "reboot": "reboot"}[story.act]
    assert set(world.acts()) == {(act, instance)}, when
    assert len(world.acts()) <= 1 + again, when
    assert not any(node.is_tainted or node.unschedulable for node in world.nodes.values()), when
    assert len(world.groups["g"].members) == 6, when


@pytest.mark.parametrize("story", STORIES)
def test_a_leader_killed_at_any_call_is_followed_by_one_that_goes_on(story: Story) -> None:
    for at, call in story.moments():
        world, name, process = story.begin()
        _at(world, at, _raise(Killed()))
        with pytest.raises(Killed):
            world.run(process, _LONGEST)
        world.advance(16)  # the Lease expires
        world.run_to_the_end(world.process(), _LONGEST)
        _assert_done_once(world, story, name, call)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("conflict", [False, True], ids=["no answer", "conflict"])
def test_a_call_that_fails_at_any_step_is_made_up_for(story: Story, conflict: bool) -> None:
    for at, call in story.moments():
        world, name, process = story.begin()
        _at(world, at, _raise(PortError("it failed", conflict=conflict)))
        world.run_to_the_end(process, _LONGEST)
        _assert_done_once(world, story, name, call)


@pytest.mark.parametrize("story", STORIES)
def test_a_leader_paused_at_any_call_and_replaced_does_nothing_when_it_wakes(story: Story) -> None:
    for at, call in story.moments():
        world, name, process = story.begin()
        other = world.process()

        def sleep(world: World = world, process: Process = process, other: Process = other) -> None:
            process.lead.held = False
            world.run(other, 60)

        _at(world, at, sleep)
        world.run(process, 30)
        world.run_to_the_end(other, _LONGEST)
        # Asleep between its last look at the Lease and the call: the same mark again, which changes nothing.
        _assert_done_once(world, story, name, call, again=call == "before set_unhealthy")


@pytest.mark.parametrize("story", STORIES)
def test_two_that_both_believe_to_lead_do_it_once(story: Story) -> None:
    for at, call in story.moments():
        if at % _LATER:
            continue
        world, name, first = story.begin()
        both = [first, world.process()]  # the last one is in the middle of its pass
        _at(world, at, lambda world=world, both=both: world.run(both[0], 15))  # type: ignore[misc]
        for _ in range(150):
            for _ in both:
                both.reverse()
                both[1].controller.step()
            world.advance(1)
        _assert_done_once(world, story, name, call)
