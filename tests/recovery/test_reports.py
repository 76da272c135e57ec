"""What users of similar agents reported, where no other test here is about it.

Source: public issues, read 2026-11-29: kubernetes-sigs/karpenter #2134 and #2321, medik8s/node-healthcheck-operator
#274 and #378, kubernetes/autoscaler #709, aws/containers-roadmap #928.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery import entries
from recovery.model import Outcome, State
from recovery.policy import Budget, Rules
from tests.recovery.machines import DMA, SRAM
from tests.recovery.world import World, fleet


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_small_group_is_repaired_though_one_machine_is_more_than_a_fifth_of_it(size: int) -> None:
    world, names, process = fleet(size)
    world.break_node(names[0])
    world.run_to_the_end(process, 300)
    assert world.outcomes() == [Outcome.REPLACED]
    assert len(world.groups["g"].members) == size


def test_ten_broken_nodes_are_replaced_two_at_a_time() -> None:
    world = World()
    names = [world.add_group(f"g{number}", 10)[0] for number in range(10)]
    process = world.process(Rules(budget=Budget(max_concurrent=2, max_per_hour=100, storm_nodes=20)))
    world.run(process, 5)
    for name in names:
        world.break_node(name)
    world.run(process, 900)
    assert world.outcomes() == [Outcome.REPLACED] * 10
    held = [sum(entries.holds_slot(entry) for entry in body.entries) for body in world.history]
    assert max(held) == 2
    assert len(world.acts()) == 10


def test_a_second_reason_does_not_begin_the_countdown_anew() -> None:
    world, names, process = fleet()
    began = world.now
    world.break_node(names[0], SRAM)
    world.run(process, 8)
    world.break_node(names[0], DMA)
    world.run(process, 4)
    entry = world.entry(names[0])
    assert entry.state is not State.OBSERVED
    assert entry.fenced_at is not None
    assert timedelta(seconds=10) <= entry.fenced_at - began <= timedelta(seconds=11)


def test_another_reason_in_place_of_the_first_is_not_a_recovery_in_between() -> None:
    world, names, process = fleet()
    world.break_node(names[0], SRAM)
    world.run(process, 15)
    world.occupy(names[0])
    node = world.nodes[names[0]]
    node.faults.clear()
    world.break_node(names[0], DMA)
    world.run_to_the_end(process, 300)
    assert world.outcomes()[-1] is Outcome.REPLACED
    assert [act for act, _ in world.acts()] == ["mark"]
    assert not world.violations
