"""Jobs for nodes that come and go: pods that keep together, and keep off each other's nodes.

It must not end a node but when a job is deleted.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tests.detector.process import until

if TYPE_CHECKING:
    from tests.karpenter.fleet import Fleet

SECONDS = 60.0
_numbers = itertools.count()


class Job:
    """Pods that share one node, and keep off those of other jobs.

    Args:
        fleet: where they run.
        replicas: how many pods of a ReplicaSet.
        guarded: a PodDisruptionBudget lets none of them go.
        annotations: of each pod.
        beside: another job, whose node it shares.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        replicas: int = 2,
        guarded: bool = False,
        annotations: dict[str, str] | None = None,
        beside: Job | None = None,
    ) -> None:
        self.name = f"job-{next(_numbers)}"
        self._fleet = fleet
        self.place: str = beside.place if beside else self.name
        labels = {"job": self.name, "place": self.place}
        other_jobs = [
            {"key": "place", "operator": "Exists"},
            {"key": "place", "operator": "NotIn", "values": [self.place]},
        ]
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": other_jobs}}
        own = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"place": self.place}}}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if beside is not None:
            affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [own]}
        spec = {
            "affinity": affinity,
            "containers": [
                {"name": "x", "image": "none.invalid/x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
            ],
        }
        template = {"metadata": {"labels": labels, "annotations": annotations or {}}, "spec": spec}
        selector = {"matchLabels": labels}
        objects: list[dict[str, Any]] = [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": self.name},
                "spec": {"replicas": replicas, "selector": selector, "template": template},
            }
        ]
        if guarded:
            budget = {"maxUnavailable": 0, "selector": selector}
            metadata = {"name": self.name}
            objects.append(
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget}
            )
        fleet.apply(*objects)
        self.replicas = replicas
        until(lambda: len(self.pods()) == replicas, seconds=SECONDS, what="the job runs")

    def pods(self) -> dict[str, str]:
        """Return its running pods and their nodes."""
        found = self._fleet.get("pods", "-l", f"job={self.name}")["items"]
        alive = (each for each in found if "deletionTimestamp" not in each["metadata"])
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"] for each in alive if each["status"]["phase"] == "Running"
        }

    def node(self) -> str:
        """Return the node that all of it is on."""
        (node,) = set(self.pods().values())
        return node

    def wait_elsewhere(self, node: str) -> None:
        """Return when all of it runs on another node."""

        def is_elsewhere() -> bool:
            nodes = list(self.pods().values())
            return len(nodes) == self.replicas and node not in nodes

        until(is_elsewhere, seconds=SECONDS, what=f"{self.name} is not on {node}")

    def delete(self) -> None:
        """Delete it and give its node back."""
        nodes = set(self.pods().values())
        self._fleet.kubectl("delete", "deployment,pdb", self.name, "--ignore-not-found", "--wait=false")
        if nodes:
            self._fleet.kubectl("delete", "nodes", *nodes, "--ignore-not-found", "--wait=false")
