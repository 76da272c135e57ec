"""What cannot be seen is neither healthy nor faulty."""

from __future__ import annotations

import pytest

from recovery.decision import Why
from recovery.model import Outcome
from recovery.policy import Budget, Rules
from recovery.ports import PortError
from tests.recovery.machines import SLOW, SRAM, SimNode
from tests.recovery.world import fleet


def test_a_blind_node_is_neither_healthy_nor_faulty_and_nothing_begins() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    world.nodes[names[0]].blind = "connection refused"
    world.run(process, 300)
    assert world.nodes[names[0]].taints == ()
    assert process.controller.snapshot.observations["blind"] == 1
    assert process.decision(names[0]) is None


def test_a_blind_source_is_said_nothing_is_published_and_nothing_begins() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    world.why_blind = "NeedsPrometheus: 600 nodes"
    before = len(world.points)
    world.run(process, 300)
    assert world.nodes[names[0]].taints == ()
    assert len(world.points) == before
    snapshot = process.controller.snapshot
    assert snapshot.source == "NeedsPrometheus: 600 nodes"
    assert snapshot.blocked_total == {Why.NEEDS_PROMETHEUS: 1}
    world.why_blind = None
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]


def test_a_node_that_goes_blind_after_admission_goes_on_with_its_condition_alone() -> None:
    world, names, process = fleet()
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 20)
    world.nodes[names[0]].blind = "connection refused"
    world.run(process, 400)
    assert [act for act, _ in world.acts()] == ["mark"]


def test_a_node_that_nothing_confirms_after_admission_is_stalled_after_15_minutes() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 20)
    node.blind, node.condition = "connection refused", "Unknown"
    world.run(process, 890)
    assert world.outcomes() == [None]
    assert process.why(names[0]) == Why.BLIND
    world.run(process, 20)
    assert world.outcomes() == [Outcome.STALLED]
    assert [node for node, _ in world.told("Stalled")] == [names[0]]
    assert process.controller.snapshot.open_entries == {}
    assert node.is_tainted
    assert world.acts() == []
    world.heal(names[0])
    node.blind = None
    world.run(process, 60)
    assert not node.is_tainted


def test_a_slot_is_not_held_for_ever_by_a_node_that_no_longer_says_whose_it_is() -> None:
    world, names, process = fleet(16)
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    node = world.nodes[names[0]]
    node.instance, node.version = None, node.version + 1
    world.run(process, 600)
    assert process.why(names[0]) == Why.INSTANCE_UNKNOWN
    assert world.outcomes() == [None]
    world.run(process, 310)
    assert world.outcomes() == [Outcome.STALLED]
    assert node.is_tainted
    assert world.acts() == []


def test_a_new_disagreement_is_given_its_60_s_though_there_was_one_before() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    world.nodes[names[0]].condition = "False"
    world.run(process, 3)
    world.heal(names[0])
    world.run(process, 3600)
    world.break_node(names[0])
    world.nodes[names[0]].condition = "False"
    world.run(process, 50)
    assert world.told("Disagree") == []


def test_sight_that_comes_back_in_time_stops_the_clock() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 20)
    for _ in range(3):
        node.blind, node.condition = "connection refused", "Unknown"
        world.run(process, 10)
        node.blind, node.condition = None, "True"
        world.run(process, 10)
    assert world.entry(names[0]).blind_at is None
    assert world.outcomes() == [None]


@pytest.mark.parametrize("side", ["metric", "condition"])
def test_metric_and_condition_that_disagree_for_60_s_are_said_and_not_acted_on(side: str) -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    node = world.nodes[names[0]]
    if side == "metric":
        node.condition = "False"
        world.run(process, 50)
        assert process.why(names[0]) == Why.CONFIRMING
        assert world.told("Disagree") == []
        world.run(process, 20)
        assert process.why(names[0]) == Why.DISAGREE
        assert [name for name, _ in world.told("Disagree")] == [names[0]]
    else:
        node.faults = []
        world.run(process, 120)
        assert process.decision(names[0]) is None
    assert world.acts() == []
    assert node.taints == ()


def test_an_api_server_that_fails_again_and_again_is_left_alone_for_the_rest_of_a_pass() -> None:
    world, names, process = fleet(rules=Rules(budget=Budget(storm_nodes=50)))
    for name in names:
        world.break_node(name, SLOW)
    world.refuse({"read": PortError("no answer")})
    before = world.reads
    process.controller.step()
    assert world.reads - before == 3
    assert {decision.why for decision in process.controller.snapshot.decisions} == {Why.API_UNKNOWN}
    world.refuse({})
    world.run(process, 900)
    assert len(world.acts()) == 3


def test_nodes_that_cannot_be_decoded_do_not_hide_the_others() -> None:
    world, names, process = fleet(20, rules=Rules(budget=Budget(storm_nodes=50)))
    for name in names[:5]:
        world.break_node(name, SLOW)
    odd = set(names[:4])
    nodes = world.nodes

    class Odd(dict[str, SimNode]):
        def __getitem__(self, name: str) -> SimNode:
            if name in odd:
                raise PortError(f"{name}: not what was asked for", answered=True)
            return super().__getitem__(name)

    world.nodes = Odd(nodes)
    world.run(process, 700)
    assert [entry.node for entry in world.entries()] == [names[4]]
    assert process.why(names[0]) == Why.API_UNKNOWN


def test_a_disagreement_about_a_node_that_holds_a_slot_is_said_too_and_ends_it_after_15_minutes() -> None:
    world, names, process = fleet()
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 20)
    world.nodes[names[0]].faults = []
    world.run(process, 50)
    assert world.told("Disagree") == []
    world.run(process, 30)
    assert [name for name, _ in world.told("Disagree")] == [names[0]]
    world.run(process, 900)
    assert world.outcomes() == [Outcome.STALLED]
