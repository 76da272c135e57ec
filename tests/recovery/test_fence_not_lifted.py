"""A fence that should be lifted and is not is told, once, for as long as it stands."""

from __future__ import annotations

import pytest

from recovery.decision import Why
from recovery.model import Outcome
from recovery.ports import PortError
from tests.recovery.machines import SRAM
from tests.recovery.world import fleet

_DENIED = PortError('nodes "a" is forbidden', denied="patch nodes")


@pytest.mark.parametrize("outcome", [Outcome.CLEARED, Outcome.STALLED])
def test_a_fence_that_may_not_be_lifted_is_blocked_and_said_once(outcome: Outcome) -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    world.refuse({"lift": _DENIED})
    if outcome is Outcome.STALLED:
        node.blind, node.condition = "connection refused", "Unknown"
        world.run(process, 920)
    node.blind = None
    world.heal(names[0])
    world.run(process, 300)
    assert world.outcomes() == [outcome]
    assert node.is_tainted
    decision = process.decision(names[0])
    assert decision is not None
    assert (decision.decision, decision.why) == ("blocked", Why.ACCESS_DENIED)
    assert decision.detail == 'its fence is not lifted: nodes "a" is forbidden'
    told = [told for told in world.told("Blocked") if "AccessDenied" in told[1]]
    assert told == [(names[0], 'AccessDenied: its fence is not lifted: nodes "a" is forbidden')]
    assert process.controller.snapshot.blocked_total[Why.ACCESS_DENIED] == 1
    assert world.points[-1]["RecoveryBlocked"] == 1
    world.refuse({})
    world.run(process, 60)
    assert not node.is_tainted
    assert process.decision(names[0]) is None
    assert world.points[-1]["RecoveryBlocked"] == 0


def test_a_node_that_was_written_to_meanwhile_is_nothing_to_tell() -> None:
    world, names, process = fleet()
    world.occupy(names[0])
    world.break_node(names[0], SRAM)
    world.run(process, 30)
    world.refuse({"lift": PortError("409", conflict=True)})
    world.heal(names[0])
    world.run(process, 60)
    assert process.decision(names[0]) is None
    assert world.told("Blocked") == []
