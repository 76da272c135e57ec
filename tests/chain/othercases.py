"""Other ways to end a fault than a group: a reboot, a NodeClaim; and what an uninstall finds on a Node."""

from __future__ import annotations

import contextlib
import functools
import json
from typing import TYPE_CHECKING, Any

from recovery.pods import DetectorPods
from recovery.policy import Policy, Rules
from recovery.prometheus import PrometheusFleet
from recovery.roster import FleetCount
from runtime.durations import Duration
from runtime.rest import Rest
from runtime.vocabulary import Action
from tests.chain import aged
from tests.chain.brain import TurnedClock
from tests.chain.case import KIND, WHOLE, brain, passes_of
from tests.chain.place import DMA
from tests.detector.process import until
from tests.recovery import detector_page
from tests.recovery.prometheus_api import PrometheusApi, Scraped
from tests.recovery.servers import Server, answers, http

if TYPE_CHECKING:
    from tests.chain.place import Place
    from tests.kubernetes.faults import FaultProxy

REBOOT = "ec2:RebootInstances"
DONE = ("pass", "done:rst", "drip", "truncate", "slow:0.3")  # after these AWS has done what it was asked for
POOL = "pool"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_PROVIDER = "aws:///us-east-1a/"
_POLICY = Policy(confirm_for=Duration(0), drain_timeout=Duration(0))


class RebootCase:
    """A machine that is to be rebooted, seen through a Prometheus server; its kubelet is played.

    Args:
        place: its cluster.
        proxy: recovery's way to the API server; None = without any trouble.
        prometheus: has its detector.
    """

    def __init__(self, place: Place, proxy: FaultProxy | None, prometheus: PrometheusApi) -> None:
        self.place, self.node, self.longest = place, f"{place.namespace}-node", 0.0
        instance = place.aws.player.instances(place.aws.player.make_group(5))[2]
        said = {"chipwarden.io/detector": json.dumps({"instance": instance, "boot": "b"})}
        place.plant([aged.node(self.node, instance, conditions={KIND: DMA}, annotations=said)])
        place.set_fleet(1)
        self._clock = TurnedClock()
        self._scraped = prometheus.nodes[self.node] = Scraped(instance=instance)
        self._scraped.faults[KIND, DMA] = self._clock.now().timestamp() - 1
        prometheus.clock = lambda: self._clock.now().timestamp()
        environ = {"KUBECONFIG": str(place.kubeconfig_at(proxy.url if proxy else None))}
        rest = Rest(counted=lambda _verb, _code: None, environ=environ, whole_seconds=WHOLE)
        fleet = PrometheusFleet(
            prometheus.url,
            selector="",
            stale_after=Duration(60),
            clock=self._clock,
            fleet=FleetCount(DetectorPods(rest, place.namespace), self._clock),
        )
        rules = Rules(policies={DMA: Policy(action=Action.REBOOT, confirm_for=Duration(0), drain_timeout=Duration(0))})
        self._brain = brain(place, rules, self._clock, proxy, fleet=fleet)

    def run(self) -> None:
        """Do passes until the entry is closed and the fence lifted; the machine comes back once it was rebooted."""
        self.longest = passes_of(self._brain, self._clock, self._is_over, most=250)

    def _is_over(self) -> bool:
        if self._scraped.faults and any(call.fault in DONE for call in self.place.aws.proxy.of(REBOOT)):
            self._come_back()
        done = ("failed", "rebooted") if self._scraped.faults else ("rebooted",)
        return any(entry["outcome"] in done for entry in self.place.entries()) and not self._is_to_be_lifted()

    def _is_to_be_lifted(self) -> bool:
        return any(entry["outcome"] == "rebooted" and entry["added"] for entry in self.place.entries())

    def _come_back(self) -> None:
        self._scraped.faults.clear()
        healthy = {"type": KIND, "status": "False", "reason": "NeuronHasNoError", "message": ""}
        status = {"nodeInfo": {"bootID": "b2"}, "conditions": [healthy]}
        done = self.place.admin.patch(f"/api/v1/nodes/{self.node}/status", {"status": status})
        assert done.code == 200, done.text


class PoolCase:
    """A machine of a NodePool; Karpenter is played: the Node goes with its NodeClaim.

    Args:
        place: its cluster.
        proxy: recovery's way to the API server.
        page: serves the detector's page.
    """

    def __init__(self, place: Place, proxy: FaultProxy, page: Server) -> None:
        self.place, self.longest = place, 0.0
        node, self.other = f"{place.namespace}-node", f"{place.namespace}-other"
        self._node = node
        _define(place)
        instance = place.aws.player.instances(place.aws.player.make_group(1))[0]
        for name, provider in ((node, _PROVIDER + instance), (self.other, "another")):
            _make(place, "NodeClaim", name, {"providerID": provider}, {"karpenter.sh/nodepool": POOL})
        said = {"chipwarden.io/detector": json.dumps({"instance": instance, "boot": "b"})}
        labels = {"karpenter.sh/nodepool": POOL}
        place.plant([aged.node(node, instance, conditions={KIND: DMA}, annotations=said, labels=labels)])
        page.way = answers(http(detector_page.page(detector_page.DMA, instance=instance, enabled=True)))
        place.add_pod(node, page.port)
        place.set_fleet(1)
        self._clock = TurnedClock()
        self._brain = brain(place, Rules(policies={DMA: _POLICY}), self._clock, proxy)

    def run(self) -> None:
        """Do passes until the entry is closed."""
        self.longest = passes_of(self._brain, self._clock, self._is_over)

    def _is_over(self) -> bool:
        if self._node not in self.claims():
            self.place.admin.ask("DELETE", f"/api/v1/nodes/{self._node}")  # 404 = it went before
        return any(entry["outcome"] for entry in self.place.entries())

    def claims(self) -> set[str]:
        """List the NodeClaims of this test that are left."""
        items = self.place.admin.ask("GET", CLAIMS).body["items"]
        names = {item["metadata"]["name"] for item in items}
        return {name for name in names if name.startswith(f"{self.place.namespace}-")}


def fenced(name: str) -> dict[str, Any]:
    """Write a Node with all that is ours on it, and a taint of somebody else's."""
    ours = json.dumps({"uid": "", "added": ["cordon", "taint", "scaleDownDisabled"]})
    annotations = {
        "chipwarden.io/detector": "{}",
        "chipwarden.io/recovery": ours,
        "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    }
    made = aged.node(name, "i-0123456789abcdef0", conditions={KIND: DMA}, annotations=annotations)
    taints = [{"key": "somebody/else"}, {"key": "chipwarden.io/unhealthy", "value": "dead"}]
    made["spec"] |= {"unschedulable": True, "taints": [taint | {"effect": "NoSchedule"} for taint in taints]}
    return made


def _define(place: Place) -> None:
    """Have NodeClaims and a NodePool on the API server, of which only what recovery reads matters."""
    for kind in ("NodeClaim", "NodePool"):
        plural = kind.lower() + "s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        spec = {"group": "karpenter.sh", "scope": "Cluster", "names": names, "versions": [version]}
        body = {"metadata": {"name": f"{plural}.karpenter.sh"}, "spec": spec}
        place.admin.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)  # 409 = there already
    until(functools.partial(_are_served, place), seconds=20, what="both are served")
    _make(place, "NodePool", POOL, {"nodes": 10}, {})


def _are_served(place: Place) -> bool:
    with contextlib.suppress(ValueError):  # plain text, as long as the API server does not know them
        return all(
            place.admin.ask("GET", f"/apis/karpenter.sh/v1/{of}").code == 200 for of in ("nodeclaims", "nodepools")
        )
    return False


def _make(place: Place, kind: str, name: str, status: dict[str, Any], labels: dict[str, str]) -> None:
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }
    done = place.admin.ask("POST", f"/apis/karpenter.sh/v1/{kind.lower()}s", body)
    assert done.code in (201, 409), done.text
