"""What of a Node object goes into a support archive. Pure.

Conditions and our own annotations in full, what the machine is, and only the names of everybody else's annotations and
labels: they may hold anything. No addresses, no images, no machine id.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_OURS: Final = "chipwarden.io/"
_SAID: Final = frozenset(  # labels that say what and where the machine is
    {
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "eks.amazonaws.com/capacityType",
        "eks.amazonaws.com/nodegroup",
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_NODE_INFO: Final = ("architecture", "containerRuntimeVersion", "kernelVersion", "kubeletVersion", "osImage")


def excerpt(node: bytes) -> dict[str, Any]:
    """Pick it out of the API server's answer.

    Raises:
        ValueError: the answer is not JSON.
    """
    try:
        whole = _part({"node": msgspec.json.decode(node)}, "node")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the API server's answer is not a Node: {error}") from error
    metadata, spec, status = (_part(whole, name) for name in ("metadata", "spec", "status"))
    annotations, labels, info = _part(metadata, "annotations"), _part(metadata, "labels"), _part(status, "nodeInfo")
    return {
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "creationTimestamp": metadata.get("creationTimestamp"),
        "annotations": {name: value for name, value in annotations.items() if _is_told(name)},
        "other_annotations": sorted(name for name in annotations if not _is_told(name)),
        "labels": {name: value for name, value in labels.items() if _is_told(name)},
        "other_labels": sorted(name for name in labels if not _is_told(name)),
        "providerID": spec.get("providerID"),
        "unschedulable": spec.get("unschedulable", False),
        "taints": spec.get("taints", []),
        "conditions": status.get("conditions", []),
        "nodeInfo": {name: info[name] for name in _NODE_INFO if name in info},
    }


def _part(whole: dict[str, Any], name: str) -> dict[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def _is_told(name: str) -> bool:
    return name.startswith(_OURS) or name in _SAID
