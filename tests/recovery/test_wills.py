"""Whose will counts: operators, labels, the platform; and what is undone when they change their mind."""

from __future__ import annotations

import pytest

from recovery.decision import Why
from recovery.model import CORDON, SCALE_DOWN_DISABLED, TAINT, Outcome, State
from recovery.policy import Policy, Rules
from recovery.ports import PortError
from runtime.durations import Duration
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL, SCALE_DOWN_ANNOTATION
from tests.recovery.machines import DMA, RESET, SRAM
from tests.recovery.world import fleet


def test_nothing_is_touched_where_recovery_is_not_enabled_and_the_same_is_decided() -> None:
    world, names, process = fleet()
    world.nodes[names[0]].enabled = False
    world.break_node(names[0])
    world.run(process, 60)
    node = world.nodes[names[0]]
    assert world.acts() == []
    assert (node.taints, node.annotations, node.unschedulable) == ((), {}, False)
    assert world.entries() == []
    (would,) = world.entries(would=True)
    assert (would.state, would.reason, would.added, would.group) == (State.ADMITTED, DMA, (), "g")
    decision = process.decision(names[0])
    assert decision is not None
    assert (decision.would, decision.why, decision.state) == (True, Why.NOT_ENABLED, State.ADMITTED)
    assert world.events == []
    assert world.points[-1][DMA] == 1


def test_what_would_be_done_takes_no_slot_and_is_dropped_when_recovery_is_switched_on() -> None:
    world, names, process = fleet()
    world.nodes[names[0]].enabled = False
    world.break_node(names[0])
    world.run(process, 60)
    world.break_node(names[1])
    world.run(process, 20)
    assert [act for act, _ in world.acts()] == ["mark"]
    world.nodes[names[0]].enabled = True
    world.run(process, 120)
    assert world.entries(would=True) == []
    assert world.outcomes() == [Outcome.REPLACED, Outcome.REPLACED]


def test_what_would_be_done_is_closed_when_the_fault_has_gone() -> None:
    world, names, process = fleet()
    world.nodes[names[0]].enabled = False
    world.break_node(names[0])
    world.run(process, 60)
    world.heal(names[0])
    world.run(process, 10)
    assert [entry.outcome for entry in world.entries(would=True)] == [Outcome.CLEARED]


@pytest.mark.parametrize(("enabled", "acts"), [(True, 1), (False, 0)])
def test_recoverys_own_setting_goes_before_the_detectors(enabled: bool, acts: int) -> None:
    world, names, process = fleet(rules=Rules(enabled=enabled))
    world.nodes[names[0]].enabled = not enabled
    world.break_node(names[0])
    world.run(process, 60)
    assert len([call for call in world.calls if call[0] == "mark"]) == acts


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"labels": {RECOVERY_LABEL: RECOVERY_DISABLED}}, Why.OPTED_OUT),
        ({"platform_repair": True}, Why.DELEGATED_TO_PLATFORM),
        ({"deleting": True}, Why.OTHER_REMEDIATOR),
        ({"provider_instance": "i-0000000000000beef"}, Why.IDENTITY_MISMATCH),
        ({"seen_instance": "i-0000000000000beef"}, Why.IDENTITY_MISMATCH),
        ({"instance": None}, Why.INSTANCE_UNKNOWN),
    ],
)
def test_a_node_that_is_not_ours_to_act_on_is_left_alone_and_that_is_said(change: dict[str, object], why: Why) -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    for name, value in change.items():
        setattr(node, name, value)
    world.break_node(names[0])
    world.run(process, 300)
    assert world.acts() == []
    assert node.taints == ()
    assert process.why(names[0]) == why
    assert [message.split(":")[0] for _, message in world.told("Blocked")] == [why]
    assert process.controller.snapshot.blocked_total == {why: 1}
    assert process.controller.snapshot.blocked_nodes == {why: 1}
    assert world.points[-1]["RecoveryBlocked"] == 1


def test_nothing_begins_while_paused_and_goes_on_when_resumed() -> None:
    world, names, process = fleet()
    world.pause = "a deployment"
    world.break_node(names[0])
    world.run(process, 60)
    assert world.nodes[names[0]].taints == ()
    assert process.controller.snapshot.paused == "a deployment"
    assert process.why(names[0]) == Why.PAUSED
    world.pause = None
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ("heal", Outcome.CLEARED),
        ("switch off", Outcome.RELEASED),
        ("opt out", Outcome.RELEASED),
        ("let the platform", Outcome.RELEASED),
    ],
)
def test_before_the_call_what_is_no_longer_wanted_is_undone_at_once_and_only_what_we_added(
    change: str, outcome: Outcome
) -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    node.annotations["team"] = "a"
    node.unschedulable = True  # an operator's cordon
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    assert world.entry(names[0]).added == (SCALE_DOWN_DISABLED, TAINT)
    if change == "heal":
        world.heal(names[0])
    elif change == "switch off":
        node.enabled = False
    elif change == "opt out":
        node.labels[RECOVERY_LABEL] = RECOVERY_DISABLED
    else:
        node.platform_repair = True
    world.run(process, 3)
    assert world.outcomes() == [outcome]
    assert node.taints == ()
    assert node.unschedulable
    assert node.annotations == {"team": "a"}
    assert world.acts() == []
    assert process.controller.snapshot.open_entries == {}


def test_a_cordon_of_ours_is_lifted_with_the_rest() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    assert set(world.entry(names[0]).added) == {CORDON, TAINT, SCALE_DOWN_DISABLED}
    assert node.annotations[SCALE_DOWN_ANNOTATION] == "true"
    world.heal(names[0])
    world.run(process, 3)
    assert (node.taints, node.annotations, node.unschedulable) == ((), {}, False)
    assert world.entry(names[0]).added == ()


def test_a_fence_that_could_not_be_lifted_is_lifted_later() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    world.heal(names[0])

    def refuse(call: str, _when: str) -> None:
        if call == "lift":
            raise PortError("no answer")

    world.hook = refuse
    world.run(process, 5)
    assert world.outcomes() == [Outcome.CLEARED]
    assert node.is_tainted
    world.hook = lambda _call, _when: None
    world.run(process, 10)
    assert not node.is_tainted
    assert world.entry(names[0]).added == ()


def test_a_graver_fault_that_comes_meanwhile_is_the_one_that_counts() -> None:
    world, names, process = fleet(rules=Rules(policies={RESET: Policy(drain_timeout=Duration(60))}))
    world.occupy(names[0])
    world.break_node(names[0], RESET)
    world.run(process, 30)
    world.break_node(names[0], SRAM)
    world.run(process, 120)
    assert [act for act, _ in world.acts()] == ["mark"]
    assert world.entry(names[0]).reason == SRAM
