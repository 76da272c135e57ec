"""A replacement that does not come gets a name, and stays open until it does."""

from __future__ import annotations

import pytest

from recovery.decision import Kind, Why
from recovery.model import Outcome
from recovery.policy import Budget, Rules
from tests.recovery.world import fleet

_TIMEOUT = 1200


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (
            "We currently do not have sufficient trn1.32xlarge capacity in the Availability Zone you requested",
            "capacity",
        ),
        ("Could not launch: ReservationCapacityExceeded", "capacity"),
        ("You have requested more vCPU capacity than your current vCPU limit of 128 allows", "limit"),
        ("The image id 'ami-0abc' does not exist. Launching EC2 instance failed.", "template"),
        ("The stars are wrong", "other"),
    ],
)
def test_a_replacement_that_does_not_come_gets_a_name_and_stays_open(words: str, kind: str) -> None:
    world, names, process = fleet()
    world.groups["g"].failed = words
    world.break_node(names[0])
    world.run(process, _TIMEOUT - 30)
    assert process.why(names[0]) == Why.REPLACING
    assert world.told("ReplacementBlocked") == []
    world.run(process, 60)
    assert process.why(names[0]) == Why.REPLACEMENT_BLOCKED
    assert world.entry(names[0]).kind == kind
    ((node, message),) = world.told("ReplacementBlocked")
    assert node == names[0]
    assert words in message
    assert process.controller.snapshot.replacement_blocked == {"g": {kind: 1}}
    assert world.points[-1]["ReplacementBlocked"] == 1
    world.groups["g"].failed = None
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]
    assert process.controller.snapshot.replacement_blocked == {}


def test_a_group_that_launches_first_without_a_spare_is_named_and_forced_only_if_allowed() -> None:
    for forced in (False, True):
        world, names, process = fleet(rules=Rules(budget=Budget(force_terminate=forced)))
        group = world.groups["g"]
        group.launches_first, group.failed = True, "no capacity in the block"
        instance = world.nodes[names[0]].instance or ""
        world.break_node(names[0])
        world.run(process, _TIMEOUT + 30)
        assert world.entry(names[0]).kind == (Kind.CAPACITY if forced else Kind.LAUNCH_FIRST_NO_SPARE)
        assert world.acts() == [("mark", instance), ("terminate", instance)][: 1 + forced]
        group.failed = None
        world.run(process, 120)
        assert world.outcomes() == [Outcome.REPLACED]
        assert world.violations == []


@pytest.mark.parametrize("why", ["paused", "opted out"])
def test_nothing_is_forced_against_an_operators_will(why: str) -> None:
    world, names, process = fleet(rules=Rules(budget=Budget(force_terminate=True)))
    group = world.groups["g"]
    group.launches_first, group.failed = True, "no capacity"
    world.break_node(names[0])
    world.run(process, 60)
    if why == "paused":
        world.pause = "wait"
    else:
        world.nodes[names[0]].labels["chipwarden.io/recovery"] = "disabled"
    world.run(process, _TIMEOUT + 60)
    assert [act for act, _ in world.acts()] == ["mark"]
    assert world.outcomes() == [None]
    assert process.why(names[0]) == Why.REPLACEMENT_BLOCKED


def test_an_operators_standby_instance_is_never_forced_out() -> None:
    world, names, process = fleet(16, Rules(budget=Budget(force_terminate=True)))
    group, instance = world.groups["g"], world.nodes[names[0]].instance or ""
    group.replaces = False
    group.members[instance].state, group.members[instance].health = "Standby", "Unhealthy"
    world.break_node(names[0])
    world.run(process, _TIMEOUT + 300)
    assert world.acts() == []
    assert world.entry(names[0]).kind == Kind.OTHER
    assert "is Standby, Unhealthy" in world.told("ReplacementBlocked")[0][1]


def test_a_lifecycle_hook_is_waited_for_never_completed_and_named() -> None:
    world, names, process = fleet()
    group = world.groups["g"]
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 15)
    group.replaces = False
    group.members[instance].state = "Terminating:Wait"
    world.run(process, _TIMEOUT + 30)
    assert world.entry(names[0]).kind == Kind.HOOK
    assert world.acts() == [("mark", instance)]
    del group.members[instance]
    world.run(process, 10)
    new = world.launch("g", "Pending:Wait")
    world.run(process, 10)
    assert f"{new} is Pending:Wait" in str(process.decision(names[0]))
    group.members[new].state = "InService"
    world.run(process, 10)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_launch_suspended_after_the_call_is_named() -> None:
    world, names, process = fleet()
    world.groups["g"].failed = "no capacity"
    world.break_node(names[0])
    world.run(process, 15)
    world.groups["g"].suspended, world.groups["g"].failed = {"Launch"}, None
    world.run(process, _TIMEOUT + 30)
    assert world.entry(names[0]).kind == Kind.SUSPENDED
    world.groups["g"].suspended = set()
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]
