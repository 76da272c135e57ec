"""What a fence changes on a Node, as a strategic merge patch; pure.

Each patch carries metadata.resourceVersion: spec.taints is an atomic list that is always written whole, so that a patch
of a Node that has changed since it was read would take other controllers' taints away. It is refused with 409.

Source: Kubernetes API, NodeSpec.Taints (`listType=atomic`) and "Concurrency control and consistency" (read 2026-11-29).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from recovery.model import CORDON, SCALE_DOWN_DISABLED, TAINT, Entry, NodeFacts, Taint
from runtime.vocabulary import RECOVERY_ANNOTATION, SCALE_DOWN_ANNOTATION, UNHEALTHY_TAINT

if TYPE_CHECKING:
    from collections.abc import Mapping

Patch = dict[str, Any]
NO_SCHEDULE: Final = "NoSchedule"
_TRUE: Final = "true"
_LARGEST_COPY_BYTES: Final = 16 << 10  # all annotations of an object together may have 256 KiB


class _Copy(msgspec.Struct):
    uid: str
    added: tuple[str, ...] = ()


def to_fence(node: NodeFacts, entry: Entry) -> tuple[Patch, tuple[str, ...]]:
    """Tell how to cordon, taint and annotate a Node, and which parts of that are ours to take away again.

    The Node's copy of the entry records what was added in the same patch, so that a repetition after a crash, or a
    later entry of the same Node, knows its own cordon from an operator's.

    Returns:
        The patch, {} = nothing to change; and all that we have added, now or before.
    """
    before = _added_before(node)
    place = _place(node)
    added = {
        CORDON: not node.unschedulable or CORDON in before,
        TAINT: True,  # nobody else uses the key
        SCALE_DOWN_DISABLED: not is_scale_down_disabled(node) or SCALE_DOWN_DISABLED in before,
    }
    ours = tuple(part for part, is_ours in added.items() if is_ours)
    wanted = {SCALE_DOWN_ANNOTATION: _TRUE, RECOVERY_ANNOTATION: copy_of(msgspec.structs.replace(entry, added=ours))}
    annotations = {name: value for name, value in wanted.items() if node.annotations.get(name) != value}
    spec: Patch = {} if node.unschedulable else {"unschedulable": True}
    taint = Taint(key=UNHEALTHY_TAINT, value=entry.class_, effect=NO_SCHEDULE)
    if place is None:
        spec["taints"] = [*node.taints, taint]
    elif node.taints[place].value != taint.value:
        spec["taints"] = [*node.taints[:place], taint, *node.taints[place + 1 :]]
    return _guarded(node, annotations, spec), ours


def to_lift(node: NodeFacts, added: tuple[str, ...]) -> Patch:
    """Tell how to take away what was added, and the copy of the entry; {} = nothing is left of it."""
    place = _place(node)
    spec: Patch = {"unschedulable": False} if CORDON in added and node.unschedulable else {}
    if TAINT in added and place is not None:
        spec["taints"] = [*node.taints[:place], *node.taints[place + 1 :]]
    annotations: dict[str, str | None] = {}
    if SCALE_DOWN_DISABLED in added and is_scale_down_disabled(node):
        annotations[SCALE_DOWN_ANNOTATION] = None
    if RECOVERY_ANNOTATION in node.annotations:
        annotations[RECOVERY_ANNOTATION] = None
    return _guarded(node, annotations, spec)


def is_fenced(node: NodeFacts) -> bool:
    """Tell whether a Node carries our taint or a copy of an entry."""
    return RECOVERY_ANNOTATION in node.annotations or _place(node) is not None


def is_scale_down_disabled(node: NodeFacts) -> bool:
    """Tell whether the cluster autoscaler leaves a Node alone; any other value than true is as none."""
    return node.annotations.get(SCALE_DOWN_ANNOTATION) == _TRUE


def copy_of(entry: Entry) -> str:
    """Write the copy of an entry that its Node carries; the ids of a very large group are left out."""
    text = msgspec.json.encode(entry)
    if len(text) > _LARGEST_COPY_BYTES:
        text = msgspec.json.encode(msgspec.structs.replace(entry, members=()))
    return text.decode()


def _added_before(node: NodeFacts) -> tuple[str, ...]:
    """Read from the Node's copy what we added and did not take away; a copy of another Node object says nothing."""
    try:
        copied = msgspec.json.decode(node.annotations.get(RECOVERY_ANNOTATION, ""), type=_Copy)
    except (msgspec.DecodeError, RecursionError):
        return ()
    return copied.added if copied.uid == node.uid else ()


def _place(node: NodeFacts) -> int | None:
    """Find our taint in the Node's list."""
    ours = (UNHEALTHY_TAINT, NO_SCHEDULE)
    return next((at for at, taint in enumerate(node.taints) if (taint.key, taint.effect) == ours), None)


def _guarded(node: NodeFacts, annotations: Mapping[str, str | None], spec: Patch) -> Patch:
    if not annotations and not spec:
        return {}
    metadata: Patch = {"resourceVersion": node.resource_version}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, **({"spec": spec} if spec else {})}
