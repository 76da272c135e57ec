"""Many nodes at once: the one with the broken chip is replaced, a storm is not believed."""

from __future__ import annotations

from datetime import timedelta

from recovery.decision import Why
from recovery.model import Outcome, State
from recovery.policy import Budget, Rules
from tests.recovery.machines import DMA, HANG, SRAM
from tests.recovery.world import World, fleet

# One DMA_ERROR, fifteen HANG_ON_COLLECTIVES.


def test_one_of_16_has_a_dma_error_and_15_hang_the_one_is_replaced_the_15_are_not_touched() -> None:
    world, names, process = fleet(16)
    world.break_node(names[7], DMA)
    for number, name in enumerate(names):
        if name != names[7]:
            world.break_node(name, HANG, since=world.now + timedelta(seconds=number % 10))
    instance = world.nodes[names[7]].instance
    world.run(process, 3600)
    assert world.acts() == [("mark", instance)]
    assert world.outcomes() == [Outcome.REPLACED]
    assert world.ledger_text is not None
    assert world.ledger_text.tripped == {}
    hanging = [node for node in world.nodes.values() if node.faults]
    assert len(hanging) == 15
    assert not any(node.annotations or node.taints or node.unschedulable for node in hanging)
    assert world.points[-1][HANG] == 15


# Storms.


def test_1000_nodes_with_one_fault_within_a_minute_trip_the_breaker_and_few_are_touched() -> None:
    world = World()
    for number in range(10):
        world.add_group(f"g{number}", 100)
    process = world.process()
    world.run(process, 5)
    names = sorted(world.nodes)
    for number, name in enumerate(names):
        world.break_node(name, DMA)
        if number % 100 == 99:
            world.run(process, 6)
    world.run(process, 200)
    assert [entry.outcome for entry in world.entries() if entry.admitted_at] == []
    assert len(world.entries()) <= 50
    assert len(world.acts()) <= 3
    assert len(world.told("BreakerTripped")) == 1
    assert "at most 50 are believed" in world.told("BreakerTripped")[0][1]
    assert world.told("Blocked") == []
    snapshot = process.controller.snapshot
    assert snapshot.breaker_tripped == {DMA: True}
    assert snapshot.blocked_total[Why.BREAKER_TRIPPED] >= 950
    assert {decision.why for decision in snapshot.decisions} == {Why.BREAKER_TRIPPED}


def test_a_storm_that_grows_slowly_takes_no_more_than_the_budget_and_fences_no_more_than_the_breaker_allows() -> None:
    world, names, process = fleet(400)
    for name in names[:60]:
        world.break_node(name, DMA)
        world.run(process, 4)
    fenced = [node for node in world.nodes.values() if node.is_tainted]
    assert len(fenced) <= 40
    assert len([entry for entry in world.entries() if entry.outcome is None and entry.admitted_at]) <= 3
    assert world.ledger_text is not None
    assert DMA in world.ledger_text.tripped


def test_what_was_admitted_when_the_breaker_tripped_is_held_where_it_is() -> None:
    world, names, process = fleet(40, Rules(budget=Budget(storm_nodes=2)))
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 20)
    assert world.entry(names[0]).state is State.NOTIFIED
    for name in names[1:3]:
        world.break_node(name, SRAM)
    world.run(process, 900)
    assert world.entry(names[0]).state is State.NOTIFIED
    assert process.why(names[0]) == Why.BREAKER_TRIPPED
    assert world.acts() == []


def test_a_storm_that_nobody_saw_begin_is_not_believed_either() -> None:
    """It began before recovery did, while its source was blind, where it was off; or its breaker was lost."""
    for case in ("before the start", "blind", "switched on", "ledger lost"):
        world = World()
        for number in range(6):
            world.add_group(f"g{number}", 40)
        process = world.process()
        if case in ("blind", "ledger lost"):
            world.run(process, 10)
        world.why_blind = "no Prometheus" if case == "blind" else None
        ago = timedelta(hours=20 if case == "switched on" else 0, minutes=6)
        since = world.now if case in ("blind", "ledger lost") else world.now - ago
        for node in world.nodes.values():
            node.enabled = case != "switched on"
        for name in sorted(world.nodes)[:200]:
            world.break_node(name, SRAM, since=since)
        world.run(process, 400)
        world.why_blind = None
        if case == "ledger lost":
            world.ledger_text, world.ledger_version = None, world.ledger_version + 1
        for node in world.nodes.values():
            node.enabled = True
        world.run(process, 600)
        assert world.acts() == [], case
        assert not any(node.is_tainted for node in world.nodes.values()), case
        assert world.ledger_text is not None
        assert SRAM in world.ledger_text.tripped, case
