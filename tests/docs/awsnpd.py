"""What AWS's Neuron node problem detector leaves in a cluster: names and shape of its objects, nothing of its text.

Source: aws-neuron/neuron-helm-charts charts/neuron-helm-chart/templates/npd, aws-neuron/aws-neuron-sdk
src/k8/neuron-problem-detector (read 2026-11-29).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.docs.kubelet import NAMESPACE

if TYPE_CHECKING:
    from tests.kubernetes.controlplane import ControlPlane

_NAME = "node-problem-detector"
_ROLE = f"system:{_NAME}"
_RBAC = "rbac.authorization.k8s.io"


def install(plane: ControlPlane, node: str) -> None:
    """Install it as its chart does, and have it called a node healthy a while ago."""
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.apply(*_objects())
    condition = (
        '{"status":{"conditions":[{"type":"NeuronHealth","status":"False","reason":"NeuronHasNoError",'
        '"lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}'
    )
    plane.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", condition)


def _objects() -> list[dict[str, Any]]:
    labels = {"app": _NAME, "app.kubernetes.io/name": "neuron-helm-chart", "role": "npd"}
    containers = [{"name": name, "image": "none.invalid/none"} for name in (_NAME, "node-recovery")]
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": _NAME, "containers": containers}}
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": NAMESPACE}
    return [
        _object("v1", "ServiceAccount", _NAME),
        _object("v1", "ConfigMap", "node-problem-detector-config", data={"kernel-monitor.json": "{}"}),
        _object("apps/v1", "DaemonSet", _NAME, spec={"selector": {"matchLabels": labels}, "template": template}),
        _object(f"{_RBAC}/v1", "ClusterRole", _ROLE, rules=rules),
        _object(
            f"{_RBAC}/v1",
            "ClusterRoleBinding",
            "npd-binding",
            roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": _ROLE},
            subjects=[subject],
        ),
    ]


def _object(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name} if kind.startswith("Cluster") else {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}
