"""Which pods a drain asks to go, which it leaves alone, and what it makes of each answer.

Without a kubelet a Pod that is told to end stays, so that what was asked of it can be seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from recovery.ports import DrainProgress
from tests.kubernetes.recovering import Hands, OnNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.asks import Answer
    from tests.kubernetes.controlplane import ControlPlane

_PODS = "/api/v1/namespaces/default/pods"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_CONTAINER = {"name": "none", "image": "none.invalid/none"}
_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
_EVERYTHING = [{"operator": "Exists"}]


class Busy(OnNode):
    """A Node with pods."""

    def add(
        self, name: str, *, namespace: str = "default", status: dict[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Put a pod on it.

        Args:
            name: made unique with the Node's.
            namespace: it has to exist.
            status: of the pod.
            fields: of metadata; `spec` = more of the spec.
        """
        spec = {
            "nodeName": self.name,
            "containers": [_CONTAINER],
            "serviceAccountName": "busy",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 600,
            **fields.pop("spec", {}),
        }
        body = {"metadata": {"name": f"{self.name}-{name}", **fields}, "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/pods"
        made = self.admin.ask("POST", path, body)
        assert made.code == 201, made.text
        done = self.admin.patch(f"{path}/{self.name}-{name}/status", {"status": status or _READY})
        assert done.code == 200, done.text
        found: dict[str, Any] = done.body
        return found

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod."""
        found: dict[str, Any] = self.admin.ask("GET", f"{_PODS}/{self.name}-{name}").body
        return found

    def is_told_to_end(self, name: str) -> bool:
        """Tell whether a pod is being deleted."""
        return "deletionTimestamp" in self.pod(name)["metadata"]

    def budget(self, name: str, labels: dict[str, str], **status: int) -> None:
        """Make a PodDisruptionBudget as its controller would leave it."""
        body = {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}
        made = self.admin.ask("POST", _BUDGETS, body)
        assert made.code == 201, made.text
        counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, **status}
        done = self.merge(f"{_BUDGETS}/{name}/status", {"status": {"observedGeneration": 1, **counts}})
        assert done.code == 200, done.text

    def merge(self, path: str, body: Any) -> Answer:
        """Change an object as somebody else would."""
        return self.admin.ask("PATCH", path, body, content_type="application/merge-patch+json")

    def clear(self) -> None:
        """Delete it with its pods."""
        for name in self._names():
            self.admin.ask("DELETE", name, {"gracePeriodSeconds": 0})
        self.delete()

    def _names(self) -> list[str]:
        found = self.admin.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}").body["items"]
        each = (pod["metadata"] for pod in found)
        return [f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}" for pod in each]


@pytest.fixture(scope="module")
def hands(apiserver: ControlPlane) -> Iterator[Hands]:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "busy", "namespace": "default"}}
    apiserver.apply(account)
    hands = Hands(apiserver)
    yield hands
    hands.close()


@pytest.fixture
def node(apiserver: ControlPlane) -> Iterator[Busy]:
    node = Busy(apiserver, spec={"unschedulable": True, "taints": [_taint()]})
    yield node
    node.admin.ask("DELETE", _BUDGETS)
    node.clear()


def _taint() -> dict[str, str]:
    return {"key": "chipwarden.io/unhealthy", "value": "dead", "effect": "NoSchedule"}


def _owner(kind: str, group: str = "apps/v1") -> list[dict[str, Any]]:
    return [{"apiVersion": group, "kind": kind, "name": "owner", "uid": "0", "controller": True}]


def _drain(hands: Hands, node: OnNode) -> DrainProgress:
    return hands.nodes.drain(hands.nodes.read(node.name))


def _left(node: OnNode, *names: str) -> tuple[str, ...]:
    return tuple(f"default/{node.name}-{name}" for name in names)


def test_all_pods_are_asked_to_go_at_once_whatever_they_hold(hands: Hands, node: Busy) -> None:
    node.add("bare")
    node.add("owned", ownerReferences=_owner("ReplicaSet"))
    node.add("scratch", spec={"volumes": [{"name": "v", "emptyDir": {}}]})
    node.add("waiting", status={"phase": "Pending"})
    progress = _drain(hands, node)
    assert set(progress.left) == set(_left(node, "bare", "owned", "scratch", "waiting"))
    assert progress.blocked == {}
    for name in ("bare", "owned", "scratch", "waiting"):
        assert node.is_told_to_end(name), name
        grace = node.pod(name)["metadata"]["deletionGracePeriodSeconds"]
        assert grace == 600, "a pod has all the time that it wants for its checkpoint"


def test_nothing_is_left_of_an_empty_node(hands: Hands, node: Busy) -> None:
    assert _drain(hands, node) == DrainProgress(left=(), blocked={})


def test_pods_that_would_come_back_or_use_nothing_are_left_alone(hands: Hands, node: Busy) -> None:
    mirror = {"kubernetes.io/config.mirror": "h", "kubernetes.io/config.source": "file"}
    node.add("daemon", ownerReferences=_owner("DaemonSet"))
    node.add("kruise", ownerReferences=_owner("DaemonSet", "apps.kruise.io/v1alpha1"))
    node.add("static", annotations=mirror, ownerReferences=_node_owner(node), spec={"serviceAccountName": None})
    node.add("done", status={"phase": "Succeeded"})
    node.add("failed", status={"phase": "Failed"})
    node.add("tolerant", spec={"tolerations": _EVERYTHING})
    assert _drain(hands, node) == DrainProgress(left=(), blocked={})
    names = ("daemon", "kruise", "static", "done", "failed", "tolerant")
    assert not [name for name in names if node.is_told_to_end(name)]


def _node_owner(node: OnNode) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}]


def test_a_pod_that_only_used_to_be_a_daemon_has_to_go(hands: Hands, node: Busy) -> None:
    owner = {**_owner("DaemonSet")[0], "controller": False}
    node.add("orphan", ownerReferences=[owner])
    node.add("half", spec={"tolerations": [{"key": "chipwarden.io/unhealthy", "operator": "Exists"}]})
    assert set(_drain(hands, node).left) == set(_left(node, "orphan", "half"))


def test_a_pod_that_is_ending_is_waited_for_and_not_asked_again(hands: Hands, node: Busy) -> None:
    node.add("slow")
    _drain(hands, node)
    since = hands.plane.audit_offset()
    assert _drain(hands, node).left == _left(node, "slow")
    assert [each.verb for each in hands.plane.requests(since=since) if "pods" in each.uri] == ["list"]
    node.admin.ask("DELETE", f"{_PODS}/{node.name}-slow", {"gracePeriodSeconds": 0})
    assert _drain(hands, node).left == ()


def test_pods_of_other_nodes_and_of_other_namespaces(hands: Hands, node: Busy, apiserver: ControlPlane) -> None:
    apiserver.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "busy", "namespace": "team"}},
    )
    neighbour = Busy(apiserver)
    neighbour.add("theirs")
    node.add("job", namespace="team")
    assert _drain(hands, node).left == (f"team/{node.name}-job",)
    assert not neighbour.is_told_to_end("theirs")
    neighbour.clear()


def test_a_budget_refuses_with_its_words_and_is_asked_again_in_a_while(hands: Hands, node: Busy) -> None:
    labels = {"app": node.name}
    node.budget(node.name, labels)
    node.add("guarded", labels=labels)
    node.add("free")
    progress = _drain(hands, node)
    (guarded,) = _left(node, "guarded")
    assert set(progress.left) == set(_left(node, "guarded", "free"))
    assert progress.blocked == {guarded: f"The disruption budget {node.name} needs 1 healthy pods and has 1 currently"}
    assert not node.is_told_to_end("guarded")
    assert node.is_told_to_end("free")
    since = hands.plane.audit_offset()
    assert _drain(hands, node).blocked == progress.blocked
    assert not [each for each in hands.plane.requests(since=since) if "eviction" in each.uri]
    counts = {"disruptionsAllowed": 1, "currentHealthy": 2}
    node.merge(f"{_BUDGETS}/{node.name}/status", {"status": counts})
    hands.clock.passed += 5
    assert _drain(hands, node).blocked == {}
    assert node.is_told_to_end("guarded")


def test_two_budgets_for_one_pod_are_a_refusal_though_the_server_says_201(hands: Hands, node: Busy) -> None:
    labels = {"app": node.name}
    node.budget(f"{node.name}-a", labels, disruptionsAllowed=1, currentHealthy=2)
    node.budget(f"{node.name}-b", labels, disruptionsAllowed=1, currentHealthy=2)
    node.add("guarded", labels=labels)
    (words,) = _drain(hands, node).blocked.values()
    assert "more than one PodDisruptionBudget" in words
    assert not node.is_told_to_end("guarded")


def test_a_pod_of_a_namespace_that_ends_is_waited_for(hands: Hands, node: Busy, apiserver: ControlPlane) -> None:
    name = f"ending-{node.name}"
    apiserver.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "busy", "namespace": name}},
    )
    node.add("job", namespace=name)
    node.admin.ask("DELETE", f"/api/v1/namespaces/{name}")
    assert _drain(hands, node) == DrainProgress(left=(f"{name}/{node.name}-job",), blocked={})
