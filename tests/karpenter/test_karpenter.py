"""A faulty node of a NodePool: what is in the way of its end, and that Karpenter ends it all the same when we ask."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from recovery.karpenter import KarpenterClaims, _Metadata, _NodeClaim
from recovery.ledger import KubeLedger
from recovery.ports import PortError
from tests.detector.process import until
from tests.karpenter.fleet import POOL, account
from tests.karpenter.jobs import SECONDS, Job
from tests.kubernetes.overlay import NAMESPACE
from tests.kubernetes.recovering import Hands, RunningClock, entry, rest_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recovery.model import NodeFacts
    from tests.karpenter.fleet import Fleet

_TERMINATION = "karpenter.sh/nodeclaim-termination-timestamp"


class Recovery(Hands):
    """Recovery's hands, with its own account."""

    def __init__(self, fleet: Fleet) -> None:
        own = account(fleet)
        super().__init__(fleet, kubeconfig=own)
        self.ledger = KubeLedger(rest_for(fleet, kubeconfig=own), NAMESPACE, RunningClock())
        self.claims = KarpenterClaims(self.rest, self.ledger.now)


@pytest.fixture
def recovery(fleet: Fleet) -> Iterator[Recovery]:
    recovery = Recovery(fleet)
    yield recovery
    recovery.close()


def _pool_nodes(fleet: Fleet) -> list[dict[str, Any]]:
    return list(fleet.get("nodes", "-l", f"karpenter.sh/nodepool={POOL}")["items"])


def _claims(fleet: Fleet, facts: NodeFacts) -> list[dict[str, Any]]:
    found = fleet.get("nodeclaims")["items"]
    return [each for each in found if each.get("status", {}).get("providerID") == facts.provider_id]


def _wait_gone(fleet: Fleet, recovery: Recovery, facts: NodeFacts) -> None:
    until(lambda: recovery.claims.is_gone(facts.name, facts.provider_id), seconds=SECONDS, what="the NodeClaim is gone")
    assert _claims(fleet, facts) == []
    until(
        lambda: not fleet.get("nodes", f"--field-selector=metadata.name={facts.name}")["items"], what="so is its Node"
    )


def test_a_faulty_node_is_replaced_though_pods_hold_on_to_it(fleet: Fleet, recovery: Recovery) -> None:
    guarded = Job(fleet, guarded=True, annotations={"karpenter.sh/do-not-disrupt": "true"})
    name = guarded.node()
    facts = recovery.nodes.read(name)
    assert facts.nodepool == POOL
    until(lambda: recovery.claims.size(POOL) == len(_pool_nodes(fleet)), seconds=SECONDS, what="Karpenter has counted")
    fenced = entry(node=name, uid=facts.uid, group=POOL, instance="", provider_id=facts.provider_id)
    recovery.nodes.fence(facts, fenced)
    progress = recovery.nodes.drain(recovery.nodes.read(name))
    assert set(progress.left) == set(progress.blocked) == {f"default/{pod}" for pod in guarded.pods()}
    assert not recovery.claims.is_gone(name, facts.provider_id)
    recovery.claims.terminate(recovery.nodes.read(name))
    _wait_gone(fleet, recovery, facts)
    guarded.wait_elsewhere(name)
    recovery.claims.terminate(facts)  # done already
    assert recovery.claims.is_gone(name, facts.provider_id)
    guarded.delete()


def test_a_fenced_node_is_drained_to_a_new_one_first(fleet: Fleet, recovery: Recovery) -> None:
    job = Job(fleet)
    name = job.node()
    facts = recovery.nodes.read(name)
    recovery.nodes.fence(facts, entry(node=name, uid=facts.uid))
    until(lambda: not recovery.nodes.drain(recovery.nodes.read(name)).left, seconds=SECONDS, what="drained")
    job.wait_elsewhere(name)
    recovery.claims.terminate(recovery.nodes.read(name))
    _wait_gone(fleet, recovery, facts)
    job.delete()


def test_an_end_that_somebody_else_began_and_that_stalls_is_helped_on(fleet: Fleet, recovery: Recovery) -> None:
    guarded = Job(fleet, guarded=True)
    name = guarded.node()
    facts = recovery.nodes.read(name)
    (claim,) = _claims(fleet, facts)
    fleet.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
    until(lambda: recovery.nodes.read(name).deleting, seconds=SECONDS, what="Karpenter has begun")
    stalls_until = time.monotonic() + 3
    until(lambda: time.monotonic() > stalls_until or not _claims(fleet, facts))
    assert _claims(fleet, facts), "without the annotation it waits for the budget"
    recovery.claims.terminate(facts)
    _wait_gone(fleet, recovery, facts)
    guarded.wait_elsewhere(name)
    guarded.delete()


def test_the_annotation_is_written_once_and_never_later(fleet: Fleet, recovery: Recovery) -> None:
    job = Job(fleet, replicas=1)
    facts = recovery.nodes.read(job.node())
    (claim,) = _claims(fleet, facts)
    name = claim["metadata"]["name"]
    fleet.kubectl("annotate", "nodeclaim", name, f"{_TERMINATION}=2020-01-01T00:00:00Z")
    found = recovery.claims._find(facts.provider_id, POOL)
    assert found is not None
    recovery.claims._let_go(found)
    assert _claims(fleet, facts)[0]["metadata"]["annotations"][_TERMINATION] == "2020-01-01T00:00:00Z"
    for wrong in ("2100-01-01T00:00:00Z", "soon"):
        fleet.kubectl("annotate", "--overwrite", "nodeclaim", name, f"{_TERMINATION}={wrong}")
        found = recovery.claims._find(facts.provider_id, POOL)
        assert found is not None
        recovery.claims._let_go(found)
        assert _claims(fleet, facts)[0]["metadata"]["annotations"][_TERMINATION].startswith("20")
        assert wrong not in json.dumps(_claims(fleet, facts))
    job.delete()


def test_another_node_claim_of_that_name_is_never_touched(fleet: Fleet, recovery: Recovery) -> None:
    job = Job(fleet, replicas=1)
    facts = recovery.nodes.read(job.node())
    (claim,) = _claims(fleet, facts)
    stale = _NodeClaim(metadata=_Metadata(name=claim["metadata"]["name"], uid="another"))
    for attempt in (recovery.claims._let_go, recovery.claims._delete):
        with pytest.raises(PortError) as caught:
            attempt(stale)
        assert caught.value.conflict
    (after,) = _claims(fleet, facts)
    assert _TERMINATION not in after["metadata"].get("annotations", {})
    assert "deletionTimestamp" not in after["metadata"]
    gone = _NodeClaim(metadata=_Metadata(name="no-such-claim", uid="another"))
    recovery.claims._let_go(gone)
    recovery.claims._delete(gone)
    job.delete()


def test_what_is_no_node_of_karpenters_has_no_claim(fleet: Fleet, recovery: Recovery) -> None:
    fleet.create_node("of-a-group", provider_id="aws:///us-east-2b/i-0123456789abcdef0")
    facts = recovery.nodes.read("of-a-group")
    with pytest.raises(PortError, match="no NodeClaim has the providerID") as unmade:
        recovery.claims.terminate(facts)
    assert unmade.value.unsent
    with pytest.raises(PortError, match="no NodeClaim has the providerID"):
        recovery.claims.is_gone("of-a-group", facts.provider_id)
    fleet.kubectl("delete", "node", "of-a-group")
    assert recovery.claims.is_gone("of-a-group", facts.provider_id)
    with pytest.raises(PortError) as caught:
        recovery.claims.size("no-such-pool")
    assert caught.value.gone
    fleet.create_node("without-provider")
    with pytest.raises(PortError, match="providerID"):
        recovery.claims.terminate(recovery.nodes.read("without-provider"))
    with pytest.raises(PortError, match="providerID"):
        recovery.claims.is_gone("without-provider", "")
