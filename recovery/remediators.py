"""Who else is already acting on a node: two remediators on one machine make it worse than none. Pure.

Source: taint keys of Karpenter v1 (`karpenter.sh/disrupted`) and v1beta1, Cluster Autoscaler (ToBeDeleted..., not the
soft DeletionCandidate...), aws-node-termination-handler, medik8s Self Node Remediation, Kubernetes' out-of-service and
cloud provider shutdown taints; each project's source and documentation (read 2026-11-29).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from recovery.model import NodeFacts

_TAINTS: Final = {
    "karpenter.sh/disrupted": "Karpenter",
    "karpenter.sh/disruption": "Karpenter",
    "ToBeDeletedByClusterAutoscaler": "Cluster Autoscaler",
    "medik8s.io/remediation": "medik8s",
    "node.kubernetes.io/out-of-service": "whoever declared it out of service",
    "node.cloudprovider.kubernetes.io/shutdown": "the cloud provider: the instance is shut down",
}
_TAINT_PREFIXES: Final = {"aws-node-termination-handler/": "aws-node-termination-handler"}
# Cluster API and Karpenter wait for finalizers while they delete; their Nodes show it as any other does.
_ANNOTATIONS: Final = {"cluster.x-k8s.io/delete-machine": "Cluster API"}


def other_remediator(node: NodeFacts) -> str | None:
    """Tell who is acting on a node and by which sign; None = nobody whom we know."""
    if node.deleting:
        return "the Node is being deleted"
    for taint in node.taints:
        who = _TAINTS.get(taint.key) or _by_prefix(taint.key)
        if who is not None:
            return f"{who} (taint {taint.key})"
    for key, who in _ANNOTATIONS.items():
        if key in node.annotations:
            return f"{who} (annotation {key})"
    return None


def _by_prefix(key: str) -> str | None:
    return next((who for prefix, who in _TAINT_PREFIXES.items() if key.startswith(prefix)), None)
