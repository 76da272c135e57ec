"""Ledgers that are lost, Nodes that change hands, others that act: what was begun is found again or let go."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery.decision import Why
from recovery.model import Outcome, State, Taint
from recovery.ports import PortError
from runtime.vocabulary import RECOVERY_ANNOTATION, UNHEALTHY_TAINT
from tests.recovery.machines import SRAM
from tests.recovery.world import World, fleet


def lose(world: World) -> None:
    world.ledger_text = None
    world.ledger_version += 1


@pytest.mark.parametrize("seconds", [12, 25, 60, 320])
def test_a_lost_ledger_is_made_anew_of_the_fenced_nodes_and_the_work_goes_on(seconds: int) -> None:
    world, names, process = fleet()
    world.occupy(names[0])
    instance = world.nodes[names[0]].instance
    world.break_node(names[0], SRAM)
    world.run(process, seconds)
    state = world.entry(names[0]).state
    lose(world)
    process.controller.step()
    assert world.entry(names[0]).state is state
    world.run(process, 400)
    assert world.acts() == [("mark", instance)]
    assert world.outcomes() == [Outcome.REPLACED]


def test_nothing_is_begun_while_a_lost_ledger_cannot_be_made_anew() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    lose(world)

    def refuse(call: str, _when: str) -> None:
        if call == "fenced":
            raise PortError("no answer")

    world.hook = refuse
    world.run(process, 60)
    assert world.entries() == []
    assert world.acts() == []
    assert process.controller.snapshot.trouble == "no answer"
    world.hook = lambda _call, _when: None
    world.run(process, 100)
    assert world.outcomes() == [Outcome.REPLACED]
    assert process.controller.snapshot.trouble is None


def test_counts_reach_cloudwatch_though_the_ledger_cannot_be_read() -> None:
    world, names, process = fleet()
    world.break_node(names[0])

    def refuse(call: str, _when: str) -> None:
        if call == "load":
            raise PortError("no answer")

    world.hook = refuse
    world.run(process, 3)
    assert world.points[-1][world.nodes[names[0]].faults[0].reason] == 1


@pytest.mark.parametrize("copy", [None, "{", "{}"])
def test_a_fence_without_a_readable_copy_is_kept_while_faulty_and_only_our_taint_is_lifted(copy: str | None) -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    node.taints = (Taint(key=UNHEALTHY_TAINT, effect="NoSchedule", value="dead"),)
    node.unschedulable = True
    if copy is not None:
        node.annotations[RECOVERY_ANNOTATION] = copy
    node.condition = "True"
    world.break_node(names[0])
    world.nodes[names[0]].enabled = True
    world.pause = "look first"
    lose(world)
    world.run(process, 60)
    assert node.is_tainted
    assert world.entry(names[0]).outcome is Outcome.STALLED
    world.heal(names[0])
    world.run(process, 60)
    assert not node.is_tainted
    assert node.unschedulable


def test_a_new_machine_that_finds_its_predecessors_node_is_freed_and_the_old_entry_goes_on() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.break_node(names[0])
    world.run(process, 20)
    world.run(process, 8)
    assert world.entry(names[0]).state is State.TERMINATING
    world.nodes[names[0]] = node
    node.instance = node.seen_instance = "i-00000000000000fff"
    world.heal(names[0])
    world.run(process, 90)
    assert world.outcomes() == [Outcome.REPLACED]
    assert not node.is_tainted
    assert not node.unschedulable


def test_a_node_that_changes_hands_before_the_call_is_freed_and_nothing_is_called() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    node.instance = node.seen_instance = node.provider_instance = "i-00000000000000fff"
    world.heal(names[0])
    world.run(process, 3)
    assert world.entry(names[0]).outcome is Outcome.SUPERSEDED
    assert world.acts() == []
    assert not node.is_tainted


def test_a_node_made_anew_under_its_name_carries_nothing_of_ours() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    node.uid, node.taints, node.annotations, node.unschedulable = "uid-new", (), {}, False
    world.heal(names[0])
    world.run(process, 5)
    assert world.entry(names[0]).outcome is Outcome.SUPERSEDED
    assert world.entry(names[0]).added == ()
    assert ("lift", names[0]) not in world.calls


@pytest.mark.parametrize("state", ["fenced", "draining"])
def test_a_node_that_goes_before_the_call_is_let_go_or_followed(state: str) -> None:
    world, names, process = fleet()
    if state == "fenced":
        world.break_node(names[1], SRAM)
        world.occupy(names[1])
        world.run(process, 15)
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    instance = world.nodes[names[0]].instance or ""
    world.remove(world.groups["g"], instance)
    world.run(process, 120)
    expected = Outcome.SUPERSEDED if state == "fenced" else Outcome.REPLACED
    assert world.entry(names[0]).outcome is expected
    assert ("mark", instance) not in world.calls


def test_a_node_that_goes_while_its_instance_stays_in_service_is_stalled() -> None:
    world, names, process = fleet()
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    del world.nodes[names[0]]
    world.run(process, 950)
    assert world.outcomes() == [Outcome.STALLED]
    assert world.acts() == []


@pytest.mark.parametrize(
    "key",
    [
        "karpenter.sh/disrupted",
        "ToBeDeletedByClusterAutoscaler",
        "aws-node-termination-handler/spot-itn",
        "medik8s.io/remediation",
        "node.kubernetes.io/out-of-service",
    ],
)
def test_a_node_that_another_acts_on_is_left_to_it(key: str) -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    node.taints = (Taint(key=key, effect="NoSchedule"),)
    world.break_node(names[0])
    world.run(process, 60)
    assert process.why(names[0]) == Why.OTHER_REMEDIATOR
    assert key in world.told("Blocked")[0][1]
    assert world.acts() == []
    node.taints = ()
    world.run(process, 60)
    assert len(world.acts()) == 1


def test_another_that_begins_to_act_frees_the_slot_and_the_fence_stays() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    node.taints = (*node.taints, Taint(key="karpenter.sh/disrupted", effect="NoSchedule"))
    node.version += 1
    world.run(process, 40)
    assert world.entry(names[0]).outcome is Outcome.SUPERSEDED
    assert process.controller.snapshot.open_entries == {}
    assert node.is_tainted
    assert world.acts() == []


def test_a_fence_that_somebody_takes_away_is_put_back_before_the_machine_is_given_away() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    node.taints, node.unschedulable, node.version = (), False, node.version + 1
    world.run(process, 5)
    assert node.is_tainted
    assert node.unschedulable
    assert set(world.entry(names[0]).added) == {"cordon", "taint", "scaleDownDisabled"}


def test_an_old_leader_that_did_not_notice_is_stopped_by_the_ledger() -> None:
    world, names, old = fleet()
    new = world.process()
    world.break_node(names[0])
    world.run(new, 9)
    world.run(old, 1)

    def steal(call: str, when: str) -> None:
        if (call, when) == ("fence", "after"):
            world.hook = lambda _call, _when: None
            world.ledger_version += 1  # the new leader writes

    world.hook = steal
    old.controller.step()
    assert "Conflict" in str(old.controller.snapshot.trouble)
    assert world.acts() == []
    assert old.controller.step() > 0
    world.run(old, 90)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_follower_looks_at_nothing_and_says_nothing() -> None:
    world, names, process = fleet()
    process.lead.held = False
    before = len(world.calls), len(world.points)
    world.break_node(names[0])
    world.run(process, 120)
    assert (len(world.calls), len(world.points)) == before
    assert world.entries() == []
    assert not process.controller.snapshot.leader
    process.lead.held = True
    world.run(process, 100)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_leader_whose_lease_is_not_fresh_makes_no_cloud_call() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    world.run(process, 8)
    process.lead.fresh = False
    world.run(process, 60)
    assert not any(call in ("group", "group_of", "mark") for call, _ in world.calls)
    process.lead.fresh = True
    world.run(process, 100)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_plan_tells_the_next_step_and_takes_none() -> None:
    world, names, _ = fleet()
    world.break_node(names[0], since=world.now - timedelta(minutes=1))
    version = world.ledger_version
    plan = world.process(is_dry=True)
    for _ in range(2):
        world.advance(1)
        plan.controller.step()
    decision = plan.decision(names[0])
    assert decision is not None
    assert (decision.decision, decision.why) == ("fenced", Why.STEP_TAKEN)
    assert world.ledger_version == version
    assert world.entries() == []
    assert not world.nodes[names[0]].is_tainted
    assert world.events == []
