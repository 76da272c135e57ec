"""Which pods have to leave a fenced node, and which would only come back; pure.

Judged as `kubectl drain --force --ignore-daemonsets --delete-emptydir-data` does, but that finished pods may stay.

Source: k8s.io/kubectl v0.36.3, pkg/drain/filters.go; k8s.io/api/core/v1/toleration.go (read 2026-11-29).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from recovery.model import Taint
from runtime.vocabulary import UNHEALTHY_TAINT

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIRROR: Final = "kubernetes.io/config.mirror"  # a static pod: only its kubelet can end it
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class _Owner(msgspec.Struct):
    kind: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None


class Toleration(msgspec.Struct):
    """A toleration of a pod; "" matches every key or effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _Spec(msgspec.Struct):
    tolerations: tuple[Toleration, ...] | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class Pod(msgspec.Struct):
    """The few fields of a pod that matter."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_ending(self) -> bool:
        """Tell whether it is being deleted: nobody needs to evict it, but it is still there."""
        return self.metadata.deletion_timestamp is not None


def has_to_go(pod: Pod, taints: Iterable[Taint]) -> bool:
    """Tell whether a drain has to wait for a pod.

    Pods of a DaemonSet, of whatever API group, and static pods come back at once; so does one that tolerates all that
    keeps pods off the node. Finished pods use nothing.

    Args:
        pod: on the node.
        taints: of the node.
    """
    metadata = pod.metadata
    if pod.status.phase in _FINISHED or _MIRROR in (metadata.annotations or {}):
        return False
    if any(owner.kind in ("DaemonSet", "Node") and owner.controller for owner in metadata.owner_references or ()):
        return False
    return not _would_come_back(pod.spec.tolerations or (), taints)


def _would_come_back(tolerations: tuple[Toleration, ...], taints: Iterable[Taint]) -> bool:
    if not tolerations:
        return False
    keeping_off = [taint for taint in taints if taint.effect in _REPELLING]
    if all(taint.key != UNHEALTHY_TAINT for taint in keeping_off):  # the Node was read before it was fenced
        keeping_off.append(Taint(key=UNHEALTHY_TAINT, effect="NoSchedule"))
    return all(any(_matches(each, taint) for each in tolerations) for taint in (*keeping_off, _CORDON))


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.key != "" and toleration.value == taint.value
