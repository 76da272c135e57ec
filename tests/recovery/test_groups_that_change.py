"""Groups that count in weights, that a machine is moved between, or that do not have it."""

from __future__ import annotations

from datetime import timedelta

from recovery.model import Outcome
from tests.recovery.machines import SRAM
from tests.recovery.world import fleet


def test_a_group_whose_capacity_is_counted_in_weights_is_as_large_as_it_has_machines() -> None:
    world, names, process = fleet(10)
    world.groups["g"].desired, world.groups["g"].replaces = 160, False
    for name in names[:8]:
        world.break_node(name, since=world.now - timedelta(hours=1))
        world.run(process, 400)
    assert sum(world.nodes[name].is_tainted for name in names) == 2
    assert len(world.acts()) == 1


def test_a_second_dead_node_in_no_group_is_refused_too() -> None:
    world, names, process = fleet(10)
    for name in names[:2]:
        del world.groups["g"].members[world.nodes[name].instance or ""]
    world.break_node(names[0])
    world.run(process, 200)
    world.break_node(names[1])
    world.run(process, 200)
    assert world.outcomes() == [Outcome.REFUSED, Outcome.REFUSED]
    assert all(world.nodes[name].is_tainted for name in names[:2])


def test_a_machine_that_was_moved_to_another_group_is_replaced_in_that_one() -> None:
    world, names, process = fleet(16)
    world.add_group("h", 20)
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 60)
    instance = world.nodes[names[0]].instance or ""
    world.groups["h"].members[instance] = world.groups["g"].members.pop(instance)
    world.tags[instance] = "h"
    world.groups["g"].desired, world.groups["h"].desired = 15, 21
    world.run(process, 600)
    held = world.entry(names[0])
    assert (held.group, held.outcome) == ("h", Outcome.REPLACED)
    assert held.replacement in world.groups["h"].members
    assert world.acts() == [("mark", instance)]
