"""What a Node object says that concerns recovery; pure.

Only the few fields needed are decoded: typed models fail on real Node objects, and images alone make up half of one.

Source: Kubernetes API, Node v1 (k8s.io/api/core/v1/types.go v0.36.3, read 2026-11-29).
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from recovery.model import NodeFacts, Taint
from runtime.identity import is_instance_id
from runtime.vocabulary import DETECTOR_ANNOTATION, Status


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    creation_timestamp: datetime
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename={"provider_id": "providerID"}):
    provider_id: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Info(msgspec.Struct, rename={"boot_id": "bootID"}):
    boot_id: str = ""


class _Status(msgspec.Struct, rename="camel"):
    conditions: tuple[_Condition, ...] | None = None
    node_info: _Info | None = None


class Node(msgspec.Struct):
    """A Node as the API server writes it; all fields but these, however odd, are passed over."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Detector(msgspec.Struct):
    instance: str | None = None


def facts(node: Node) -> NodeFacts:
    """Take over what concerns recovery."""
    metadata, spec, status = node.metadata, node.spec, node.status
    conditions = {each.type: (each.status, each.reason, each.message) for each in status.conditions or ()}
    return NodeFacts(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        created_at=metadata.creation_timestamp,
        instance=_instance((metadata.annotations or {}).get(DETECTOR_ANNOTATION, "")),
        provider_instance=_well_formed(spec.provider_id.rpartition("/")[2]),
        provider_id=spec.provider_id,
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        taints=spec.taints or (),
        unschedulable=spec.unschedulable,
        conditions=conditions,
        boot=status.node_info.boot_id if status.node_info else "",
        ready=conditions.get("Ready", ("",))[0] == Status.TRUE,
        deleting=metadata.deletion_timestamp is not None,
    )


def _instance(annotation: str) -> str | None:
    """Read the detector's annotation; what is no instance id must never reach a call that ends one."""
    try:
        instance = msgspec.json.decode(annotation, type=_Detector).instance
    except (msgspec.DecodeError, RecursionError):
        return None
    return _well_formed(instance or "")


def _well_formed(instance: str) -> str | None:
    return instance if is_instance_id(instance) else None
