"""A Node with a NodePool's label and without a NodeClaim is nobody's to end: that is said, and nothing is closed."""

from __future__ import annotations

from recovery.decision import Why
from recovery.model import Outcome, State
from tests.recovery.world import fleet


def test_a_node_of_a_pool_without_a_nodeclaim_is_never_taken_for_replaced() -> None:
    world, names, process = fleet()
    node = world.nodes[names[0]]
    node.labels["karpenter.sh/nodepool"] = "pool"
    world.pool_sizes["pool"] = 20
    world.break_node(node.name)
    world.run(process, 300)
    assert world.acts() == []
    entry = world.entry(node.name)
    assert (entry.state, entry.outcome) == (State.DRAINED, None)
    decision = process.decision(node.name)
    assert decision is not None
    assert (decision.decision, decision.why) == ("blocked", Why.CLOUD_UNKNOWN)
    assert "no NodeClaim has the providerID" in decision.detail
    world.heal(node.name)
    world.run(process, 10)
    assert world.outcomes() == [Outcome.CLEARED]
