"""What keeps everything from being done is said once, counted, and seen from outside for as long as it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recovery.decision import Why
from recovery.model import Outcome
from recovery.ports import PortError
from tests.recovery.world import fleet

if TYPE_CHECKING:
    from tests.recovery.world import World


def _told(world: World) -> list[tuple[str, str]]:
    return [told for told in world.told("Blocked") if "ApiUnknown" in told[1]]


@pytest.mark.parametrize("call", ["load", "save"])
def test_a_ledger_that_cannot_be_read_or_written_is_an_event_a_counter_and_one_line(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    world, names, process = fleet()
    world.refuse({call: PortError("it is gone")})
    world.break_node(names[0])
    world.run(process, 600)
    snapshot = process.controller.snapshot
    assert snapshot.trouble == "it is gone"
    assert snapshot.blocked_total[Why.API_UNKNOWN] == 1
    assert snapshot.blocked_nodes[Why.API_UNKNOWN] == 1
    assert _told(world) == [(names[0], "ApiUnknown: it is gone")]
    assert world.points[-1]["RecoveryBlocked"] >= 1
    assert len(caplog.records) <= 4
    assert world.acts() == []
    world.refuse({})
    world.run(process, 120)
    assert world.outcomes() == [Outcome.REPLACED]
    assert process.controller.snapshot.trouble is None
    assert world.points[-1]["RecoveryBlocked"] == 0
    assert process.controller.snapshot.blocked_nodes[Why.API_UNKNOWN] == 0
    assert len(_told(world)) == 1


def test_a_node_that_is_blocked_is_counted_once_and_no_more_when_its_reason_has_gone() -> None:
    world, names, process = fleet()
    world.pause = "a deployment"
    for name in names[:2]:
        world.break_node(name)
    world.run(process, 60)
    assert process.controller.snapshot.blocked_nodes == {Why.PAUSED: 2}
    world.refuse({"load": PortError("it is gone")})
    world.run(process, 10)
    assert process.controller.snapshot.blocked_nodes == {Why.PAUSED: 0, Why.API_UNKNOWN: 2}
    world.refuse({})
    world.run(process, 10)
    assert process.controller.snapshot.blocked_nodes == {Why.PAUSED: 2, Why.API_UNKNOWN: 0}
    world.pause = None
    for name in names[:2]:
        world.heal(name)
    world.run(process, 60)
    assert set(process.controller.snapshot.blocked_nodes.values()) == {0}


def test_a_pass_that_could_not_be_done_shows_no_observations_of_the_one_before() -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    world.run(process, 5)
    assert process.controller.snapshot.observations["unconfirmed"] == 1
    world.refuse({"load": PortError("it is gone")})
    world.run(process, 5)
    assert process.controller.snapshot.observations == {}


def test_nodes_where_recovery_is_not_enabled_and_dry_runs_get_no_events_about_the_ledger() -> None:
    world, names, process = fleet()
    world.nodes[names[0]].enabled = False
    world.break_node(names[0])
    world.refuse({"load": PortError("it is gone")})
    world.run(process, 60)
    world.nodes[names[0]].enabled = True
    world.process(is_dry=True).controller.step()
    assert _told(world) == []


def test_a_storm_of_nodes_is_not_a_storm_of_events_about_the_ledger() -> None:
    world, names, process = fleet(40)
    for name in names:
        world.break_node(name)
    world.refuse({"load": PortError("it is gone")})
    world.run(process, 60)
    assert len(_told(world)) == 10


def test_a_conflict_with_another_leader_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    world, names, process = fleet()
    world.break_node(names[0])
    world.refuse({"save": PortError("409", conflict=True)})
    world.run(process, 60)
    assert process.controller.snapshot.blocked_total == {}
    assert _told(world) == []
    assert caplog.records == []


def test_all_nodes_are_blind_when_nothing_can_be_seen() -> None:
    world, _, process = fleet()
    world.why_blind, world.fleet = "Prometheus: no answer", 10
    world.run(process, 10)
    counts = process.controller.snapshot.observations
    assert {state: count for state, count in counts.items() if count} == {"blind": 10}
    world.fleet = None
    world.run(process, 10)
    assert process.controller.snapshot.observations["blind"] == 0
