"""The same again on a new machine: a job, an image or a driver must not eat the fleet."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from recovery import entries
from recovery.decision import Why
from recovery.model import Outcome
from tests.recovery.machines import DMA, SRAM
from tests.recovery.world import World, fleet

if TYPE_CHECKING:
    from tests.recovery.world import Process


def large_fleet() -> tuple[World, list[str], Process]:
    """Make a fleet in which no hour has too many admissions."""
    world, names, process = fleet(20)
    world.fleet = 400
    return world, names, process


def broken_again(world: World, process: Process, name: str, reason: str = DMA, serial: str = "") -> str:
    """Break a node, have it replaced, and give the name of the node that came in its place."""
    world.break_node(name, reason, serial=serial)
    world.run(process, 90)
    assert world.entry(name).outcome is Outcome.REPLACED
    return world.node_of(world.entry(name).replacement or "").name


def test_the_second_new_machine_with_the_same_fault_blocks_its_group_until_it_is_resumed() -> None:
    world, names, process = large_fleet()
    second = broken_again(world, process, names[0])
    third = broken_again(world, process, second)
    world.break_node(third)
    world.run(process, 600)
    assert process.why(third) == Why.RECURS_AFTER_REPLACEMENT
    assert not world.nodes[third].is_tainted
    assert len(world.acts()) == 2
    body = world.ledger_text
    assert body is not None
    assert "resume --group g" in body.blocked_groups["g"]
    world.break_node(names[1])
    world.run(process, 60)
    assert process.why(names[1]) == Why.RECURS_AFTER_REPLACEMENT
    world.ledger_text = entries.resume_group(world.ledger_text or body, "g")
    world.ledger_version += 1
    world.run(process, 300)
    assert world.entry(third).outcome is Outcome.REPLACED
    assert world.entry(names[1]).outcome is Outcome.REPLACED


def test_old_machines_other_reasons_and_other_groups_are_no_recurrence() -> None:
    world, names, process = large_fleet()
    others = world.add_group("h", 20)
    broken_again(world, process, broken_again(world, process, names.pop()))
    broken_again(world, process, broken_again(world, process, names.pop()), SRAM)
    broken_again(world, process, broken_again(world, process, others.pop()))
    broken_again(world, process, names.pop())
    assert len(world.acts()) == 7
    assert world.ledger_text is not None
    assert world.ledger_text.blocked_groups == {}


def test_what_happened_more_than_a_day_ago_is_forgotten() -> None:
    world, names, process = large_fleet()
    second = broken_again(world, process, names[0])
    broken_again(world, process, second)
    world.advance(25 * 3600)
    second = broken_again(world, process, names[1])
    broken_again(world, process, second)
    assert len(world.acts()) == 4


def test_a_device_that_comes_back_with_another_machine_counts_whatever_the_machines_age() -> None:
    world, names, process = large_fleet()
    broken_again(world, process, names[0], serial="1a2b")
    world.advance(5 * 3600)
    broken_again(world, process, names[1], serial="1a2b")
    world.break_node(names[2], serial="1a2b")
    world.run(process, 60)
    assert process.why(names[2]) == Why.RECURS_AFTER_REPLACEMENT


def test_a_new_machine_that_found_an_old_node_object_is_new_all_the_same() -> None:
    world, names, process = large_fleet()
    broken_again(world, process, broken_again(world, process, names.pop()))
    fresh = broken_again(world, process, names.pop())
    world.nodes[fresh].created_at = world.now - timedelta(days=300)
    world.break_node(fresh)
    world.run(process, 60)
    assert process.why(fresh) == Why.RECURS_AFTER_REPLACEMENT


def test_where_recovery_is_not_enabled_a_recurrence_is_only_told() -> None:
    world, names, process = large_fleet()
    second = broken_again(world, process, names[0])
    third = broken_again(world, process, second)
    world.nodes[third].enabled = False
    world.break_node(third)
    world.run(process, 60)
    assert process.why(third) == Why.RECURS_AFTER_REPLACEMENT
    assert world.ledger_text is not None
    assert world.ledger_text.blocked_groups == {}


def test_two_new_machines_at_once_block_their_group_before_either_gets_a_slot() -> None:
    world, names, process = large_fleet()
    for name in names[:2]:
        world.nodes[name].created_at = world.now - timedelta(minutes=30)
        world.break_node(name)
    world.pause = "wait"
    world.run(process, 30)
    world.pause = None
    world.run(process, 60)
    assert process.why(names[1]) == Why.RECURS_AFTER_REPLACEMENT
    assert len(world.acts()) <= 1
