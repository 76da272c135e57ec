"""Recovery as a whole, on a clock that stands still until it is told to move."""

from __future__ import annotations

from datetime import timedelta

from recovery.decision import Why
from recovery.model import FaultSeen, Outcome, State
from recovery.policy import Policy, Rules
from runtime.durations import Duration
from runtime.vocabulary import Action
from tests.recovery.machines import HANG, RESET, SLOW, SRAM, TYPE
from tests.recovery.world import fleet

_FIVE = (
    "NeuronHasError_SRAM_UNCORRECTABLE_ERROR",
    "NeuronHasError_NC_UNCORRECTABLE_ERROR",
    "NeuronHasError_HBM_UNCORRECTABLE_ERROR",
    "NeuronHasError_DMA_ERROR",
    "NeuronHasError_HANG_ON_COLLECTIVES",
)


def test_a_quiet_fleet_costs_no_cloud_call_no_read_of_a_node_and_one_list_to_begin_with() -> None:
    world, _, process = fleet(100)
    for _ in range(200):
        world.advance(process.controller.step())
    assert world.calls == [("list", "")]
    assert world.reads == 0
    assert world.entries() == []


def test_a_quiet_fleet_is_polled_every_5_s_and_one_with_a_fault_every_second() -> None:
    world, names, process = fleet()
    assert process.controller.step() == 5.0
    world.break_node(names[0], HANG)
    assert process.controller.step() == 1.0


def test_a_0_is_handed_over_for_every_reason_that_a_detector_knows_and_for_the_five_of_neuron() -> None:
    world, _, _ = fleet()
    assert {*_FIVE, SLOW, RESET} <= world.points[-1].keys()
    assert set(world.points[-1].values()) == {0}


# The way of one fault.


def test_a_dead_node_is_replaced_in_the_order_of_the_contract_and_nothing_else_is_touched() -> None:
    world, names, process = fleet()
    instance = world.nodes[names[3]].instance
    world.break_node(names[3])
    world.run(process, 120)
    assert world.acts() == [("mark", instance)]
    assert [(entry.node, entry.outcome) for entry in world.entries()] == [(names[3], Outcome.REPLACED)]
    states = [body.entries[0].state for body in world.history if body.entries]
    assert list(dict.fromkeys(states)) == [
        State.FENCED,
        State.ADMITTED,
        State.NOTIFIED,
        State.DRAINED,
        State.TERMINATING,
        State.GONE,
        State.REPLACED,
    ]
    assert [event for _, event, _ in world.events] == [
        "Fenced",
        "Admitted",
        "Draining",
        "Terminating",
        "Gone",
        "Replaced",
    ]
    assert len(world.groups["g"].members) == 10
    assert process.controller.snapshot.decisions == ()


def test_no_step_of_a_dead_node_waits_for_more_than_the_time_to_confirm_and_a_poll() -> None:
    world, names, process = fleet()
    began = world.now
    instance = world.nodes[names[0]].instance or ""
    world.break_node(names[0])
    world.run(process, 30)
    assert world.marked_at[instance] - began <= timedelta(seconds=10)


def test_a_fault_that_is_older_when_first_seen_needs_two_polls_all_the_same() -> None:
    world, names, process = fleet()
    world.break_node(names[0], since=world.now - timedelta(hours=1))
    process.controller.step()
    assert process.why(names[0]) == Why.CONFIRMING
    process.controller.step()
    assert world.acts() == []  # the same moment is no second poll
    world.advance(1)
    process.controller.step()
    assert len(world.acts()) == 1


def test_a_fault_from_the_future_of_a_node_whose_clock_is_ahead_is_as_old_as_it_was_seen() -> None:
    world, names, process = fleet()
    world.break_node(names[0], since=world.now + timedelta(hours=1))
    world.run(process, 20)
    assert len(world.acts()) == 1


def test_a_degraded_node_is_not_fenced_before_its_10_minutes_and_its_slot() -> None:
    world, names, process = fleet()
    world.break_node(names[0], SLOW)
    world.run(process, 590)
    assert not world.nodes[names[0]].is_tainted
    decision = process.decision(names[0])
    assert decision is not None
    assert (decision.decision, decision.why) == ("wait", Why.CONFIRMING)
    assert decision.until == world.now + timedelta(seconds=10)
    world.run(process, 30)
    assert world.nodes[names[0]].is_tainted
    assert world.entry(names[0]).state is State.NOTIFIED or world.acts()


def test_pods_of_a_poisoned_node_are_evicted_until_the_time_is_over() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    node.pods, node.stuck = ["default/a", "default/b"], {"default/b": "budget b needs 1 available"}
    world.break_node(names[0], SRAM)
    world.run(process, 100)
    decision = process.decision(names[0])
    assert decision is not None
    assert decision.why is Why.DRAINING
    assert "1 pods left: default/b; default/b: budget b needs 1 available" in decision.detail
    assert world.acts() == []
    world.run(process, 215)
    assert len(world.acts()) == 1


def test_a_policy_may_change_action_and_times_of_a_reason() -> None:
    policies = {HANG: Policy(action=Action.REBOOT, confirm_for=Duration(30), drain_timeout=Duration(0))}
    world, names, process = fleet(rules=Rules(policies=policies))
    world.break_node(names[0], HANG)
    world.run(process, 25)
    assert world.acts() == []
    world.run(process, 200)
    assert [act for act, _ in world.acts()] == ["reboot"]
    assert world.outcomes() == [Outcome.REBOOTED]


def test_a_reason_without_class_and_action_is_nothing_to_act_on() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    node.faults.append(FaultSeen(type=TYPE, reason="Odd", fault_class=None, action=None, since=None))
    node.condition = "True"
    world.run(process, 1200)
    assert world.acts() == []
    decision = process.decision(names[0])
    assert decision is not None
    assert (decision.decision, decision.why) == ("none", Why.NO_ACTION)
