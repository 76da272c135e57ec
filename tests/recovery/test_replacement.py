"""What a group does with a mark, in every order and with everything that can hold it up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery.decision import Why
from recovery.model import Outcome, State
from recovery.policy import Budget, Rules
from recovery.ports import PortError
from tests.recovery.machines import DMA
from tests.recovery.world import fleet

_TIMEOUT = 1200


def test_a_group_that_launches_first_is_followed_as_well() -> None:
    world, names, process = fleet()
    world.groups["g"].launches_first = True
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 45)
    assert world.groups["g"].members[instance].state == "InService"
    assert process.why(names[0]) == Why.TERMINATING
    world.run(process, 60)
    assert world.outcomes() == [Outcome.REPLACED]
    assert world.acts() == [("mark", instance)]


def test_a_call_that_did_not_take_is_repeated_every_30_s_and_not_sooner() -> None:
    world, names, process = fleet()
    world.groups["g"].replaces = False
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 15)
    world.groups["g"].members[instance].health = "Healthy"  # HealthCheck has overwritten it
    world.run(process, 20)
    assert len(world.acts()) == 1
    world.run(process, 20)
    assert world.acts() == [("mark", instance)] * 2
    assert world.violations == []


@pytest.mark.parametrize("why", ["healed", "paused", "standby"])
def test_a_call_that_did_not_take_is_not_repeated_if_nothing_speaks_for_it_any_more(why: str) -> None:
    world, names, process = fleet()
    world.groups["g"].replaces = False
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 15)
    world.groups["g"].members[instance].health = "Healthy"
    if why == "healed":
        world.heal(names[0])
    elif why == "paused":
        world.pause = "maintenance"
    else:
        world.groups["g"].members[instance].state = "Standby"
    world.run(process, 300)
    assert len(world.acts()) == 1
    expected = {"healed": None, "paused": Why.PAUSED, "standby": Why.STANDBY}
    assert process.why(names[0]) == expected[why]
    assert world.outcomes() == [Outcome.CLEARED if why == "healed" else None]


@pytest.mark.parametrize(
    ("state", "health"),
    [("InService", "Unhealthy"), ("Terminating:Wait", "Healthy"), ("Detaching", "Healthy"), ("Terminated", "Healthy")],
)
def test_what_is_already_being_done_is_followed_without_a_call(state: str, health: str) -> None:
    world, names, process = fleet()
    group = world.groups["g"]
    group.replaces = False
    instance = world.nodes[names[0]].instance or ""
    group.members[instance].state, group.members[instance].health = state, health
    world.break_node(names[0])
    world.run(process, 30)
    assert world.acts() == []
    expected = State.GONE if state == "Terminated" else State.TERMINATING
    assert world.entry(names[0]).state is expected
    world.remove(group, instance)
    world.run(process, 10)
    assert world.entry(names[0]).state is State.GONE
    world.launch("g")
    world.run(process, 10)
    assert world.outcomes() == [Outcome.REPLACED]


def test_what_somebody_else_has_replaced_already_is_closed_by_the_number_of_those_in_service() -> None:
    world, names, process = fleet()
    group = world.groups["g"]
    group.replaces = False
    instance = world.nodes[names[0]].instance or ""
    group.members[instance].state = "Terminating"
    world.launch("g")
    world.break_node(names[0])
    world.run(process, 30)
    world.remove(group, instance)
    world.run(process, 10)
    assert world.outcomes() == [Outcome.GONE]


def test_two_entries_of_a_group_need_two_newcomers() -> None:
    world, names, process = fleet(20, Rules(budget=Budget(max_per_group=2)))
    group = world.groups["g"]
    group.replaces = False
    for name in names[:2]:
        world.break_node(name)
    world.run(process, 20)
    for name in names[:2]:
        world.remove(group, world.nodes[name].instance or "")
    world.run(process, 10)
    assert [entry.state for entry in world.entries()] == [State.GONE, State.GONE]
    first = world.launch("g")
    world.run(process, 20)
    assert sorted(str(outcome) for outcome in world.outcomes()) == ["None", "replaced"]
    second = world.launch("g")
    world.run(process, 20)
    assert world.outcomes() == [Outcome.REPLACED, Outcome.REPLACED]
    assert {entry.replacement for entry in world.entries()} == {first, second}


def test_a_mark_that_would_kill_later_is_taken_back_and_the_entry_fails() -> None:
    world, names, process = fleet()
    instance = world.nodes[names[0]].instance or ""
    group = world.groups["g"]
    group.launches_first = True
    world.break_node(names[0])
    world.run(process, 15)
    group.suspended = {"ReplaceUnhealthy"}
    world.run(process, 15)
    assert world.acts() == [("mark", instance), ("unmark", instance)]
    assert world.outcomes() == [Outcome.FAILED, None]
    assert world.entry(names[0]).state is State.FENCED
    assert group.members[instance].health == "Healthy"
    assert world.nodes[names[0]].is_tainted
    world.run(process, 300)
    assert process.why(names[0]) == Why.PROCESS_SUSPENDED
    assert len(world.acts()) == 2


def test_a_mark_that_is_not_ours_is_not_taken_back() -> None:
    world, names, process = fleet()
    group = world.groups["g"]
    group.replaces = False
    group.members[world.nodes[names[0]].instance or ""].health = "Unhealthy"
    world.break_node(names[0])
    world.run(process, 20)
    group.suspended = {"ReplaceUnhealthy"}
    world.run(process, 60)
    assert world.acts() == []


def test_taking_a_mark_back_is_repeated_until_it_took_or_the_group_replaces_again() -> None:
    world, names, process = fleet()
    instance = world.nodes[names[0]].instance or ""
    group = world.groups["g"]
    group.replaces = False
    world.break_node(names[0])
    world.run(process, 15)
    group.suspended = {"Terminate"}
    tried: list[str] = []

    def refuse(call: str, when: str) -> None:
        if (call, when) == ("set_healthy", "before"):
            tried.append(call)
            raise PortError("throttled")

    world.hook = refuse
    world.run(process, 70)
    assert len(tried) == 3
    assert group.members[instance].health == "Unhealthy"
    assert process.why(names[0]) == Why.PROCESS_SUSPENDED
    group.suspended, group.replaces = set(), True
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_retained_instance_closes_the_entry_and_the_event_says_who_must_end_it() -> None:
    world, names, process = fleet()
    group = world.groups["g"]
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 15)
    group.replaces = False
    group.members[instance].state = "Terminating:Retained"
    world.run(process, 30)
    assert world.outcomes() == [Outcome.RETAINED]
    (message,) = [text for _, text in world.told("Blocked") if "retained" in text]
    assert "has to be ended by" in message
    assert process.why(names[0]) == Why.ALREADY_DONE
    world.run(process, 300)
    assert len(world.acts()) == 1


def test_a_group_that_is_gone_three_times_in_a_minute_ends_the_entry() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    world.run(process, 15)
    group = world.groups.pop("g")
    world.run(process, 30)
    assert world.outcomes() == [None]
    assert group.name in str(process.decision(names[0]))
    world.run(process, 30)
    assert world.outcomes() == [Outcome.GONE]


def test_a_group_that_goes_while_its_replacement_is_waited_for_ends_the_entry_too() -> None:
    world, names, process = fleet()
    world.groups["g"].failed = "no capacity"
    world.break_node(names[0])
    world.run(process, 60)
    assert world.entry(names[0]).state is State.GONE
    del world.groups["g"]
    world.run(process, 60)
    assert world.outcomes() == [Outcome.GONE]


def test_a_group_made_smaller_meanwhile_needs_no_replacement() -> None:
    world, names, process = fleet()
    world.groups["g"].failed = "no capacity"
    world.break_node(names[0])
    world.run(process, 60)
    world.groups["g"].desired = 9
    world.run(process, 10)
    assert world.outcomes() == [Outcome.GONE]


def test_the_next_node_of_a_group_is_admitted_when_the_first_is_replaced() -> None:
    world, names, process = fleet()
    for name in names[:2]:
        world.break_node(name)
    world.run(process, 30)
    assert [act for act, _ in world.acts()] == ["mark"]
    assert process.why(names[1]) == Why.MAX_PER_GROUP
    assert world.nodes[names[1]].is_tainted
    world.run(process, 150)
    assert world.outcomes() == [Outcome.REPLACED, Outcome.REPLACED]


def test_groups_are_asked_every_5_s_at_most_while_something_is_followed() -> None:
    world, names, process = fleet()
    world.groups["g"].terminate_seconds = 600
    world.break_node(names[0])
    world.run(process, 30)
    before = len(world.calls)
    world.run(process, 300)
    assert len(world.calls) - before <= 61


def test_a_machine_that_lingers_on_its_node_after_its_replacement_is_not_begun_with_again() -> None:
    world, names, process = fleet()
    group = world.groups["g"]
    group.replaces = False
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 15)
    del group.members[instance]
    world.launch("g")
    world.run(process, 300)
    assert world.outcomes() == [Outcome.REPLACED]
    assert process.why(names[0]) == Why.ALREADY_DONE
    assert world.acts() == [("mark", instance)]
    assert world.nodes[names[0]].is_tainted
    assert world.now - world.marked_at[instance] > timedelta(seconds=200)
    assert world.entry(names[0]).reason == DMA


def test_protection_from_scale_in_is_noted_in_the_event_of_the_call() -> None:
    world, names, process = fleet()
    world.groups["g"].members[world.nodes[names[0]].instance or ""].protected = True
    world.break_node(names[0])
    world.run(process, 20)
    assert "protected from scale-in" in world.told("Terminating")[0][1]
