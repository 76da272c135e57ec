"""A leader that is held up before a request to the API server sends it no more once another leads; reads are free."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from recovery.drain import Drain
from recovery.events import Events
from recovery.fence import copy_of
from recovery.karpenter import KarpenterClaims
from recovery.kube import KubeNodes
from recovery.led import LedRest
from recovery.ledger import KubeLedger, ledger_path
from recovery.model import TAINT, LedgerBody
from recovery.ports import PortError
from tests.kubernetes.faults import FaultProxy, whole
from tests.kubernetes.recovering import NOW, PROVIDER, TurnedClock, entry, rest_to
from tests.recovery.held_up import Leading, NameServer, named

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from recovery.model import NodeFacts

NAMESPACE = "n"
ENTRY = entry(uid="u")
ANSWERS: dict[str, Any] = {
    "/api/v1/nodes/n": {
        "metadata": {
            "name": "n",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-29T10:00:00Z",
            "annotations": {"chipwarden.io/recovery": copy_of(ENTRY)},
            "labels": {"karpenter.sh/nodepool": "p"},
        },
        "spec": {"providerID": PROVIDER, "taints": [{"key": "chipwarden.io/unhealthy", "effect": "NoSchedule"}]},
    },
    "/api/v1/pods": {
        "items": [
            {
                "metadata": {"name": "job", "namespace": "d", "uid": "j"},
                "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
                "status": {"phase": "Running"},
            }
        ]
    },
    "/apis/karpenter.sh/v1/nodeclaims": {
        "items": [{"metadata": {"name": "c", "uid": "c"}, "status": {"providerID": PROVIDER}}]
    },
    "/api/v1/namespaces/n/configmaps/recovery-ledger": {"metadata": {"resourceVersion": "1"}, "data": {}},
}


class Site:
    """An API server that takes everything, whose address has to be asked for again after each answer."""

    def __init__(self, server: FaultProxy, folder: Path, names: NameServer) -> None:
        self.server, self.names, self.leading = server, names, Leading()
        rest_to(named(server.url), folder)
        environ = {"KUBECONFIG": str(folder / "kubeconfig")}
        self.rest = LedRest(self.leading.permit, swapped=ledger_path(NAMESPACE), environ=environ)
        clock = TurnedClock()
        self.nodes = KubeNodes(self.rest, drain=Drain(self.rest, clock), events=Events(self.rest, clock))
        self.claims = KarpenterClaims(self.rest, lambda: NOW)
        self.ledger = KubeLedger(self.rest, NAMESPACE, clock)
        self.holds_after_reading = False
        server.always(self._answer)

    def _answer(self, client: socket.socket, _: Callable[[], bytes]) -> bool:
        seen = self.server.seen[-1]
        answer = ANSWERS.get(seen.path.partition("?")[0], {"metadata": {"resourceVersion": "2"}})
        if seen.verb == "GET" and self.holds_after_reading:
            self.names.close()
        client.sendall(whole(200, json.dumps(answer).encode(), Connection="close"))
        return False

    def writes(self) -> list[tuple[str, str]]:
        return [(seen.verb, seen.path) for seen in self.server.seen if seen.verb != "GET"]

    def save(self) -> None:
        self.ledger.load()
        self.ledger.save(LedgerBody())


ACTS: dict[str, Callable[[Site, NodeFacts], object]] = {
    "fence": lambda site, node: site.nodes.fence(node, ENTRY),
    "lift": lambda site, node: site.nodes.lift(node, (TAINT,)),
    "copy": lambda site, node: site.nodes.annotate(node, entry(uid="u")),
    "evict": lambda site, node: site.nodes.drain(node),
    "end a NodeClaim": lambda site, node: site.claims.terminate(node),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with FaultProxy() as server:
        yield Site(server, tmp_path, NameServer(monkeypatch))


@pytest.mark.parametrize("act", ACTS)
def test_what_changes_the_cluster_is_not_sent_for_a_lead_that_was_lost(site: Site, act: str) -> None:
    node = site.nodes.read("n")
    site.names.close()
    if act in ("evict", "end a NodeClaim"):  # they read first
        site.holds_after_reading = True
        site.names.open()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(ACTS[act], site, node)
        assert site.names.asked.wait(10)
        site.leading.lose()
        site.names.open()
        with pytest.raises(PortError, match="somebody else has led meanwhile"):
            done.result()
    assert site.writes() == []

    site.holds_after_reading = False
    ACTS[act](site, node)
    assert site.writes()


def test_a_step_is_written_by_compare_and_swap_whoever_leads(site: Site) -> None:
    site.holds_after_reading = True
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(site.save)
        assert site.names.asked.wait(10)
        site.leading.lose()
        site.names.open()
        done.result()
    ((verb, path),) = site.writes()
    assert (verb, path) == ("PATCH", f"{ledger_path(NAMESPACE)}/recovery-ledger")
    assert json.loads(site.server.requests("PATCH")[0].body)["metadata"]["resourceVersion"] == "1"
