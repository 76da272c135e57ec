"""A node of a NodePool loses its NodeClaim; a machine that a reboot may mend is rebooted, else replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recovery.decision import Kind, Why
from recovery.model import Outcome, State, Way
from recovery.policy import Policy, Rules
from recovery.ports import PortError
from runtime.durations import Duration
from runtime.vocabulary import Action
from tests.recovery.machines import HANG, RESET
from tests.recovery.world import World, fleet

if TYPE_CHECKING:
    from tests.recovery.world import Process

_DENIED = PortError("AccessDenied", denied="autoscaling:DescribeAutoScalingInstances")


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
    world.refuse({"claim": PortError("no answer")})
    world.break_node(name)
    world.run(process, 30)
    world.refuse({})
    world.run(process, 40)
    assert len(world.acts()) == 1
    world.run(process, 1200)
    assert world.entry(name).kind == Kind.OTHER
    assert len(world.acts()) == 1


def test_a_nodeclaim_that_cannot_be_looked_for_is_neither_there_nor_gone() -> None:
    world, name, process = _karpenter()
    world.break_node(name)
    world.run(process, 20)
    world.refuse({"is_gone": PortError("403", denied="list nodeclaims")})
    world.run(process, 20)
    assert process.why(name) == Why.ACCESS_DENIED
    assert world.outcomes() == [None]


@pytest.mark.parametrize(("size", "fenced"), [(None, 1), (4, 1), (12, 2)])
def test_nodes_of_a_nodepool_are_fenced_as_its_size_allows(size: int | None, fenced: int) -> None:
    world, _, process = _karpenter(size)
    world.refuse({"size": PortError("no answer")} if size is None else {})
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


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PortError("denied", denied="ec2:RebootInstances"), Why.ACCESS_DENIED),
        (PortError("no route", unsent=True), Why.CLOUD_UNKNOWN),
    ],
)
def test_a_reboot_that_was_certainly_not_made_is_no_failed_reboot(error: PortError, why: Why) -> None:
    world, names, process = fleet()
    world.refuse({"reboot": error})
    world.break_node(names[0], RESET)
    world.run(process, 2000)
    assert world.entry(names[0]).state is State.DRAINED
    assert world.outcomes() == [None]
    assert process.why(names[0]) == why


@pytest.mark.parametrize("suspended", [set(), {"ReplaceUnhealthy"}])
def test_an_instance_that_is_unhealthy_for_a_moment_is_rebooted_all_the_same(suspended: set[str]) -> None:
    world, names, process = fleet(16)
    instance, group = world.nodes[names[0]].instance or "", world.groups["g"]
    group.suspended, group.replaces = suspended, False
    group.members[instance].health = "Unhealthy"
    world.break_node(names[0], RESET)
    world.run(process, 60)
    assert world.acts() == []
    assert process.why(names[0]) == (Why.PROCESS_SUSPENDED if suspended else Why.TERMINATING)
    group.suspended, group.members[instance].health = set(), "Healthy"
    world.run(process, 60)
    assert world.acts() == [("reboot", instance)]
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REBOOTED]


@pytest.mark.parametrize("case", ["no answer", "lease not fresh"])
def test_a_reboot_that_may_never_have_been_made_does_not_lead_to_a_replacement(case: str) -> None:
    world, names, process = fleet(16)
    world.break_node(names[0], RESET)
    if case == "no answer":
        world.refuse({"reboot": PortError("EndpointConnectionError")})
    else:

        def hook(_call: str, _when: str) -> None:
            process.lead.fresh = [each.state for each in world.entries()][-1:] != [State.REBOOTING]

        world.hook = hook
    world.run(process, 2900)
    assert world.acts() == []
    assert sum(each.reboots_failed for each in world.entries()) == 0


def test_a_hanging_node_is_rebooted_twice_if_a_policy_says_so_and_never_replaced() -> None:
    rules = Rules(policies={HANG: Policy(action=Action.REBOOT, confirm_for=Duration(10))})
    world, names, process = fleet(16, rules)
    world.nodes[names[0]].reboot_helps = False
    world.break_node(names[0], HANG)
    world.run(process, 3600)
    assert [act for act, _ in world.acts()] == ["reboot", "reboot"]
    assert world.outcomes() == [Outcome.FAILED, Outcome.FAILED]
    decision = process.decision(names[0])
    assert decision is not None
    assert (decision.why, decision.decision) == (Why.NO_ACTION, "none")
    assert "never replaces" in decision.detail
    world.advance(24 * 3600)
    world.run(process, 60)
    assert [act for act, _ in world.acts()] == ["reboot", "reboot", "reboot"]


def test_a_machine_replaced_during_its_reboot_is_closed_though_another_is_out() -> None:
    world, names, process = fleet(16)
    group = world.groups["g"]
    group.replaces = world.nodes[names[0]].reboot_helps = False
    world.break_node(names[0], RESET)
    world.run(process, 40)
    group.members[world.nodes[names[5]].instance or ""].state = "Standby"
    world.remove(group, world.nodes[names[0]].instance or "")
    new = world.launch("g")
    world.run(process, 60)
    assert [(each.outcome, each.replacement) for each in world.entries()] == [(Outcome.REPLACED, new)]
