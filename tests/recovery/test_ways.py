"""The other ways to a new machine: no group, groups that may not be described, Karpenter, a reboot."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from recovery.decision import Kind, Why
from recovery.model import Outcome, State, Way
from recovery.policy import Budget, Policy, Rules
from recovery.ports import PortError
from runtime.durations import Duration
from tests.recovery.machines import DMA, RESET, SLOW
from tests.recovery.world import World, fleet

if TYPE_CHECKING:
    from tests.recovery.world import Process

_DENIED = PortError("AccessDenied", denied="autoscaling:DescribeAutoScalingInstances")


def refuse(world: World, calls: dict[str, PortError]) -> None:
    def hook(call: str, when: str) -> None:
        if when == "before" and call in calls:
            raise calls[call]

    world.hook = hook


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
    refuse(world, {call: PortError("Throttling")})
    world.break_node(names[0])
    world.run(process, 60)
    assert world.acts() == []
    assert process.why(names[0]) == Why.CLOUD_UNKNOWN
    refuse(world, {})
    world.run(process, 10)
    assert len(world.acts()) == 1


def test_a_denied_mark_was_not_made_so_that_it_can_be_undone_and_is_tried_every_30_s() -> None:
    world, names, process = fleet()
    refuse(world, {"set_unhealthy": PortError("denied it is", denied="autoscaling:SetInstanceHealth")})
    world.break_node(names[0])
    world.run(process, 100)
    assert world.entry(names[0]).state is State.DRAINED
    assert process.why(names[0]) == Why.ACCESS_DENIED
    assert any("denied it is" in message for _, message in world.told("Blocked"))
    assert "denied it is" in str(process.decision(names[0]))
    tried = [body.entries[0].called_at for body in world.history if body.entries]
    assert 3 <= len({at for at in tried if at is not None}) <= 4
    world.heal(names[0])
    world.run(process, 5)
    assert world.outcomes() == [Outcome.CLEARED]
    assert not world.nodes[names[0]].is_tainted


def _narrow(rules: Rules | None = None) -> tuple[World, list[str], Process]:
    world, names, process = fleet(rules=rules)
    refuse(world, {"group_of": _DENIED, "group": _DENIED})
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
    refuse(world, {"group_of": _DENIED, "group": _DENIED, "set_unhealthy": PortError("no answer")})
    world.run(process, 100)
    assert world.acts() == []
    refuse(world, {"group_of": _DENIED, "group": _DENIED})
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
    refuse(world, {})
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
    refuse(world, {"group_of": _DENIED, "group": _DENIED, "group_by_tag": ec2})
    world.break_node(names[0])
    world.run(process, 120)
    decision = process.decision(names[0])
    assert decision is not None
    assert (decision.why, decision.detail) == (Why.ACCESS_DENIED, "ec2 says no")


# Karpenter.


def _karpenter(size: int | None = 20) -> tuple[World, str, Process]:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    node.labels["karpenter.sh/nodepool"] = "pool"
    node.instance = node.seen_instance = None
    node.provider_instance = "node-of-kwok"
    world.claims.add(node.facts().provider_id)
    if size is not None:
        world.pool_sizes["pool"] = size
    return world, names[0], process


def test_a_node_of_a_nodepool_loses_its_nodeclaim_and_the_entry_closes_when_that_is_gone() -> None:
    world, name, process = _karpenter()
    node = world.nodes[name]
    world.break_node(name)
    world.run(process, 30)
    assert world.acts() == [("claim", name)]
    entry = world.entry(name)
    assert (entry.group, entry.way, entry.state) == ("pool", Way.KARPENTER, State.TERMINATING)
    world.claims.clear()
    del world.nodes[name]
    world.run(process, 15)
    assert world.outcomes() == [Outcome.GONE]
    assert node.is_tainted
    assert len(world.acts()) == 1


def test_a_nodeclaim_that_is_not_let_go_is_asked_for_again_after_30_s_and_named_after_20_minutes() -> None:
    world, name, process = _karpenter()
    refuse(world, {"claim": PortError("no answer")})
    world.break_node(name)
    world.run(process, 30)
    refuse(world, {})
    world.run(process, 40)
    assert len(world.acts()) == 1
    world.run(process, 1200)
    assert world.entry(name).kind == Kind.OTHER
    assert len(world.acts()) == 1


def test_a_nodeclaim_that_cannot_be_looked_for_is_neither_there_nor_gone() -> None:
    world, name, process = _karpenter()
    world.break_node(name)
    world.run(process, 20)
    refuse(world, {"is_gone": PortError("403", denied="list nodeclaims")})
    world.run(process, 20)
    assert process.why(name) == Why.ACCESS_DENIED
    assert world.outcomes() == [None]


@pytest.mark.parametrize(("size", "fenced"), [(None, 1), (4, 1), (12, 2)])
def test_nodes_of_a_nodepool_are_fenced_as_its_size_allows(size: int | None, fenced: int) -> None:
    world, _, process = _karpenter(size)
    refuse(world, {"size": PortError("no answer")} if size is None else {})
    for node in list(world.nodes.values())[:3]:
        node.labels["karpenter.sh/nodepool"] = "pool"
        world.claims.add(node.facts().provider_id)
        world.break_node(node.name)
    world.run(process, 30)
    assert sum(node.is_tainted for node in world.nodes.values()) == fenced


# Reboot.


def test_a_reboot_is_proved_by_the_boot_id_and_the_fence_is_lifted() -> None:
    world, names, process = fleet()
    world.break_node(names[0], RESET)
    world.run(process, 30)
    assert world.entry(names[0]).state is State.REBOOTING
    assert process.why(names[0]) == Why.REBOOTING
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REBOOTED]
    node = world.nodes[names[0]]
    assert (node.boot, node.taints, node.unschedulable) == ("boot-1+", (), False)
    assert [name for name, _ in world.told("Rebooted")] == [names[0]]


def test_two_reboots_that_do_not_help_within_a_day_lead_to_a_replacement() -> None:
    world, names, process = fleet()
    world.nodes[names[0]].reboot_helps = False
    world.break_node(names[0], RESET)
    world.run(process, 2100)
    assert [act for act, _ in world.acts()] == ["reboot", "reboot", "mark"]
    assert world.outcomes() == [Outcome.FAILED, Outcome.FAILED, Outcome.REPLACED]
    assert "not back within 15 min: new boot, ready" in world.told("Blocked")[0][1]


def test_a_machine_that_its_group_replaces_during_the_reboot_is_a_success() -> None:
    world, names, process = fleet()
    world.break_node(names[0], RESET)
    world.run(process, 30)
    instance = world.nodes[names[0]].instance or ""
    world.nodes[names[0]].back_at = None
    world.advance(850)
    world.groups["g"].members[instance].health = "Unhealthy"
    world.run(process, 30)
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_node_that_belongs_to_a_new_machine_after_the_reboot_is_freed() -> None:
    world, names, process = fleet()
    world.break_node(names[0], RESET)
    world.run(process, 30)
    node = world.nodes[names[0]]
    node.instance = node.seen_instance = node.provider_instance = "i-00000000000000fff"
    world.heal(names[0])
    world.run(process, 10)
    assert world.outcomes() == [Outcome.REPLACED]
    assert not node.is_tainted


def test_a_denied_reboot_is_no_failed_reboot() -> None:
    world, names, process = fleet()
    refuse(world, {"reboot": PortError("denied", denied="ec2:RebootInstances")})
    world.break_node(names[0], RESET)
    world.run(process, 2000)
    assert world.entry(names[0]).state is State.DRAINED
    assert world.outcomes() == [None]
    assert process.why(names[0]) == Why.ACCESS_DENIED


# Stand-alone.


def test_stand_alone_a_confirmed_fault_waits_its_random_time() -> None:
    world, names, process = fleet(rules=Rules(hold_seconds=20))
    began = world.now
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 60)
    assert timedelta(seconds=30) <= world.marked_at[instance] - began <= timedelta(seconds=36)
