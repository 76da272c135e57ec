"""Instances in no group, groups that may not be described, calls that are denied or fail."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from recovery.decision import Why
from recovery.model import Outcome, State, Way
from recovery.policy import Budget, Policy, Rules
from recovery.ports import PortError
from runtime.durations import Duration
from tests.recovery.machines import DMA, RESET, SLOW
from tests.recovery.world import World, fleet

if TYPE_CHECKING:
    from tests.recovery.world import Process

_DENIED = PortError("AccessDenied", denied="autoscaling:DescribeAutoScalingInstances")


# In no group.


def test_an_instance_in_no_group_is_refused_after_three_answers_in_a_minute_and_never_begun_with_again() -> None:
    world, names, process = fleet()
    del world.groups["g"].members[world.nodes[names[0]].instance or ""]
    world.break_node(names[0])
    world.run(process, 45)
    assert world.outcomes() == [None]
    assert world.nodes[names[0]].is_tainted
    world.run(process, 15)
    assert world.outcomes() == [Outcome.REFUSED]
    assert "in no Auto Scaling group" in world.told("Blocked")[-1][1]
    world.run(process, 600)
    assert len(world.entries()) == 1
    assert world.acts() == []
    assert process.why(names[0]) == Why.ALREADY_DONE
    assert world.points[-1][DMA] == 1
    world.heal(names[0])
    world.run(process, 60)
    assert not world.nodes[names[0]].is_tainted


def test_a_degraded_instance_in_no_group_is_refused_without_a_fence() -> None:
    policies = {SLOW: Policy(confirm_for=Duration(5))}
    world, names, process = fleet(rules=Rules(policies=policies))
    del world.groups["g"].members[world.nodes[names[0]].instance or ""]
    world.break_node(names[0], SLOW)
    world.run(process, 90)
    assert world.outcomes() == [Outcome.REFUSED]
    assert world.nodes[names[0]].taints == ()


def test_one_answer_with_the_instance_forgets_those_without() -> None:
    world, names, process = fleet()
    group = world.groups["g"]
    member = group.members.pop(world.nodes[names[0]].instance or "")
    world.break_node(names[0])
    world.run(process, 45)
    group.members[member.instance] = member
    world.run(process, 60)
    assert [act for act, _ in world.acts()] == ["mark"]


def test_a_managed_groups_node_is_never_refused() -> None:
    world, names, process = fleet()
    world.nodes[names[0]].labels["eks.amazonaws.com/nodegroup"] = "trn1"
    del world.groups["g"].members[world.nodes[names[0]].instance or ""]
    world.break_node(names[0])
    world.run(process, 300)
    assert world.outcomes() == [None]
    assert process.why(names[0]) == Why.CLOUD_UNKNOWN


def test_a_node_in_no_group_can_be_rebooted() -> None:
    world, names, process = fleet()
    world.groups["g"].replaces = False
    del world.groups["g"].members[world.nodes[names[0]].instance or ""]
    world.break_node(names[0], RESET)
    world.run(process, 300)
    assert world.outcomes() == [Outcome.REBOOTED]


# Denied.


@pytest.mark.parametrize("call", ["group_of", "group"])
def test_an_answer_that_fails_concludes_nothing_and_the_next_one_goes_on(call: str) -> None:
    world, names, process = fleet()
    world.refuse({call: PortError("Throttling")})
    world.break_node(names[0])
    world.run(process, 60)
    assert world.acts() == []
    assert process.why(names[0]) == Why.CLOUD_UNKNOWN
    world.refuse({})
    world.run(process, 10)
    assert len(world.acts()) == 1


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PortError("so it is", denied="autoscaling:SetInstanceHealth"), Why.ACCESS_DENIED),
        (PortError("so it is", unsent=True), Why.CLOUD_UNKNOWN),
    ],
)
def test_a_mark_that_was_certainly_not_made_can_be_undone_and_is_tried_every_30_s(error: PortError, why: Why) -> None:
    world, names, process = fleet()
    world.refuse({"set_unhealthy": error})
    world.break_node(names[0])
    world.run(process, 100)
    assert world.entry(names[0]).state is State.DRAINED
    assert process.why(names[0]) == why
    assert any("so it is" in message for _, message in world.told("Blocked"))
    assert "so it is" in str(process.decision(names[0]))
    tried = [body.entries[0].called_at for body in world.history if body.entries]
    assert 3 <= len({at for at in tried if at is not None}) <= 4
    world.heal(names[0])
    world.run(process, 5)
    assert world.outcomes() == [Outcome.CLEARED]
    assert not world.nodes[names[0]].is_tainted


def _narrow(rules: Rules | None = None) -> tuple[World, list[str], Process]:
    world, names, process = fleet(rules=rules)
    world.refuse({"group_of": _DENIED, "group": _DENIED})
    return world, names, process


def test_groups_that_may_not_be_described_in_two_rounds_a_minute_apart_bring_narrow_mode() -> None:
    world, names, process = _narrow()
    instance = world.nodes[names[0]].instance
    world.break_node(names[0])
    world.run(process, 60)
    assert process.why(names[0]) == Why.ACCESS_DENIED
    assert world.acts() == []
    world.run(process, 30)
    assert world.acts() == [("mark", instance)]
    assert world.entry(names[0]).way is Way.NARROW
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]
    assert len(world.acts()) == 1


def test_in_narrow_mode_one_entry_is_open_in_the_whole_fleet() -> None:
    world, names, process = _narrow(Rules(budget=Budget(max_per_group=3)))
    others = world.add_group("h", 5)
    for name in (names[0], others[0]):
        world.break_node(name)
    world.run(process, 95)
    assert len(world.acts()) == 1
    whys = {process.why(name) for name in (names[0], others[0])}
    assert Why.NARROW_MODE in whys
    world.run(process, 300)
    assert world.outcomes() == [Outcome.REPLACED, Outcome.REPLACED]


def test_in_narrow_mode_a_call_with_an_unknown_outcome_is_repeated_and_an_accepted_one_is_not() -> None:
    world, names, process = _narrow()
    world.groups["g"].replaces = False
    world.break_node(names[0])
    world.refuse({"group_of": _DENIED, "group": _DENIED, "set_unhealthy": PortError("no answer")})
    world.run(process, 100)
    assert world.acts() == []
    world.refuse({"group_of": _DENIED, "group": _DENIED})
    world.run(process, 100)
    assert len(world.acts()) == 1
    assert world.entry(names[0]).state is State.TERMINATING


def test_in_narrow_mode_an_instance_without_the_tag_is_in_no_group() -> None:
    world, names, process = _narrow()
    del world.tags[world.nodes[names[0]].instance or ""]
    world.break_node(names[0])
    world.run(process, 180)
    assert world.outcomes() == [Outcome.REFUSED]


def test_narrow_mode_ends_when_groups_may_be_described_again() -> None:
    world, names, process = _narrow()
    world.break_node(names[0])
    world.run(process, 300)
    assert world.outcomes() == [Outcome.REPLACED]
    world.refuse({})
    world.advance(600)
    world.break_node(names[1])
    world.run(process, 30)
    assert world.entry(names[1]).way is Way.AUTOSCALING
    assert ("group", "g") in world.calls[-10:]


def test_an_entry_begun_in_narrow_mode_goes_on_in_it_at_another_leader() -> None:
    world, names, process = _narrow()
    world.break_node(names[0])
    world.run(process, 90)
    assert world.entry(names[0]).state is State.TERMINATING
    world.run(world.process(), 60)
    assert world.outcomes() == [Outcome.REPLACED]


def test_ec2_that_may_not_be_asked_either_is_said_by_its_name() -> None:
    world, names, process = _narrow()
    ec2 = PortError("ec2 says no", denied="ec2:DescribeInstances")
    world.refuse({"group_of": _DENIED, "group": _DENIED, "group_by_tag": ec2})
    world.break_node(names[0])
    world.run(process, 120)
    decision = process.decision(names[0])
    assert decision is not None
    assert (decision.why, decision.detail) == (Why.ACCESS_DENIED, "ec2 says no")


def test_in_narrow_mode_a_managed_groups_node_without_the_tag_is_not_known_never_refused() -> None:
    world, names, process = _narrow()
    world.nodes[names[0]].labels["eks.amazonaws.com/nodegroup"] = "trn1"
    del world.tags[world.nodes[names[0]].instance or ""]
    world.break_node(names[0])
    world.run(process, 300)
    assert world.outcomes() == [None]
    decision = process.decision(names[0])
    assert decision is not None
    assert decision.why is Why.CLOUD_UNKNOWN
    assert "trn1" in decision.detail


def test_narrow_mode_is_said_once_and_kept_while_describing_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world, names, process = _narrow()
    world.groups["g"].terminate_seconds = 1e9
    for name in names[:2]:
        world.break_node(name)
    world.run(process, 7200)
    said = [record for record in caplog.records if record.getMessage().startswith("narrow mode")]
    assert len(said) == 1
    assert len(world.told("Blocked")) <= 4
    world.refuse({})
    world.run(process, 700)
    assert [record for record in caplog.records if record.getMessage() == "groups can be described again"] != []


def test_in_narrow_mode_a_machine_replaced_during_its_reboot_is_closed_and_the_fleet_goes_on() -> None:
    world, names, process = _narrow()
    world.groups["g"].replaces = False
    world.nodes[names[0]].reboot_helps = False
    world.break_node(names[0], RESET)
    world.run(process, 120)
    assert [act for act, _ in world.acts()] == ["reboot"]
    world.remove(world.groups["g"], world.nodes[names[0]].instance or "")
    new = world.launch("g")
    world.tags[new] = "g"
    world.run(process, 60)
    assert [(each.outcome, each.replacement) for each in world.entries()] == [(Outcome.REPLACED, new)]


# Stand-alone.


def test_stand_alone_a_confirmed_fault_waits_its_random_time() -> None:
    world, names, process = fleet(rules=Rules(hold_seconds=20))
    began = world.now
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 60)
    assert timedelta(seconds=30) <= world.marked_at[instance] - began <= timedelta(seconds=36)
