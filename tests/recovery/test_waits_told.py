"""Why a node waits is told: each new reason in the log, once, and what nobody can see the end of in an Event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recovery.decision import Why
from recovery.plan import plan_text
from tests.recovery.machines import SRAM
from tests.recovery.world import fleet

if TYPE_CHECKING:
    from tests.recovery.world import World


def _waits(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage() in ("waits", "held up")]


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="chipwarden")


@pytest.mark.parametrize("state", ["Pending", "NeverHeardOf"])
def test_a_state_that_is_waited_for_is_said_once(state: str, caplog: pytest.LogCaptureFixture) -> None:
    world, names, process = fleet()
    instance = world.nodes[names[0]].instance or ""
    world.groups["g"].members[instance].state = state
    world.break_node(names[0])
    world.run(process, 120)
    assert process.why(names[0]) == Why.INSTANCE_CHANGING
    (told,) = world.told("Blocked")
    assert told[1].startswith(f"InstanceChanging: {instance} is {state}")
    assert len(_waits(caplog)) == 2  # first the fault has to last


def test_a_node_that_is_not_enabled_waits_without_an_event() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.groups["g"].members[node.instance or ""].state = "Pending"
    node.enabled = False
    world.break_node(names[0])
    world.run(process, 120)
    assert world.events == []


def _held_up() -> tuple[World, str]:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    node.stuck = {"default/a": "Cannot evict pod as it would violate the pod's disruption budget."}
    world.break_node(names[0], SRAM)
    world.run(process, 60)
    return world, names[0]


def test_the_words_of_a_disruption_budget_reach_people_once(caplog: pytest.LogCaptureFixture) -> None:
    world, name = _held_up()
    held_up = [told for told in world.told("Draining") if "disruption budget" in told[1]]
    assert [node for node, _ in held_up] == [name]
    assert "1 pods may not be evicted now: default/a: Cannot evict pod" in held_up[0][1]
    assert _waits(caplog).count("held up") == 1


def test_a_plan_tells_which_pods_are_left_and_evicts_none() -> None:
    world, name = _held_up()
    drained = len([call for call in world.calls if call[0] == "drain"])
    planned = world.process(is_dry=True)
    planned.controller.step()
    planned.controller.step()
    assert "1 pods left: default/a" in plan_text(planned.controller.snapshot)
    assert planned.why(name) == Why.DRAINING
    assert len([call for call in world.calls if call[0] == "drain"]) == drained
