"""`cleanup`: take everything of ours off the Nodes before an uninstall.

An edge, and the only place that lists the fleet to change it. What others put there stays: a cordon that was there
before ours, an opt-out label, conditions of other programs. It does not run beside what would put it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from recovery import api
from recovery.facts import Node, facts
from recovery.fence import to_lift
from recovery.model import TAINT
from recovery.ports import PortError
from runtime.rest import STRATEGIC_MERGE
from runtime.vocabulary import (
    ACCELERATED_HARDWARE_READY,
    CLEAR_ANNOTATION,
    DETECTOR_ANNOTATION,
    OUR_MARK,
    RECOVERY_ANNOTATION,
    SHIPPED_CONDITIONS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from recovery.model import Entry, LedgerBody, NodeFacts
    from runtime.rest import Rest

_NODES: Final = "/api/v1/nodes"
_PART: Final = 100
_ATTEMPTS: Final = 3


class _Copy(msgspec.Struct):
    added: tuple[str, ...] = ()


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to one Node.

    Args:
        removed: in people's words; () = there was nothing of ours.
        error: why something is left; None = nothing is.
    """

    node: str
    removed: tuple[str, ...]
    error: str | None = None


def clean(
    rest: Rest, ledger: LedgerBody | None, own_types: Iterable[str], progress: Callable[[int], None]
) -> list[Cleaned]:
    """Clean every Node.

    Args:
        rest: the API server.
        ledger: tells what was added where the Node itself does not; None = there is none.
        own_types: condition types of rules that do not ship with us.
        progress: called with the number of Nodes looked at so far.

    Returns:
        The Nodes that something was or is to be removed from.

    Raises:
        PortError: the Nodes cannot be listed.
    """
    types = frozenset((*SHIPPED_CONDITIONS, *own_types))
    entries = {entry.uid: entry for entry in (ledger.entries if ledger else ()) if entry.added}
    done = []
    for count, node in enumerate(api.listed(rest, _NODES, Node, part=_PART), 1):
        cleaned = _clean(rest, facts(node), entries, types)
        if cleaned.removed or cleaned.error:
            done.append(cleaned)
        progress(count)
    return done


def _clean(rest: Rest, node: NodeFacts, entries: dict[str, Entry], types: frozenset[str]) -> Cleaned:
    """Clean one Node, anew if somebody changes it meanwhile."""
    for attempt in range(_ATTEMPTS):
        removed: list[str] = []
        try:
            node = _remove_conditions(rest, node, types, removed)
            _lift(rest, node, entries.get(node.uid), removed)
        except PortError as error:
            if error.gone:
                return Cleaned(node=node.name, removed=())
            if not error.conflict or attempt == _ATTEMPTS - 1:
                return Cleaned(node=node.name, removed=tuple(removed), error=str(error))
            try:
                node = facts(api.get(rest, _path(node.name), Node))
            except PortError as again:
                return Cleaned(node=node.name, removed=tuple(removed), error=str(again))
        else:
            break
    return Cleaned(node=node.name, removed=tuple(removed))


def _remove_conditions(rest: Rest, node: NodeFacts, types: frozenset[str], removed: list[str]) -> NodeFacts:
    """Remove our conditions while the annotation still tells that they are ours.

    Source: Kubernetes API, strategic merge patch, `$patch: delete` in a list merged by `type` (read 2026-11-29).
    """
    ours = [kind for kind, (_, _, message) in node.conditions.items() if _is_ours(node, kind, message, types)]
    if not ours:
        return node
    path = f"{_path(node.name)}/status"
    body = {"status": {"conditions": [{"type": kind, "$patch": "delete"} for kind in ours]}}
    answer = api.ask(rest, "PATCH", path, body=body, content_type=STRATEGIC_MERGE)
    removed += [f"condition {kind}" for kind in ours]
    return facts(api.decode(path, answer, Node))


def _lift(rest: Rest, node: NodeFacts, entry: Entry | None, removed: list[str]) -> None:
    """Take away the fence and the annotations, in one patch that is refused if somebody changed the Node meanwhile."""
    added = {TAINT, *_copied(node), *(entry.added if entry else ())}
    patch = to_lift(node, tuple(added))
    stale = [name for name in (DETECTOR_ANNOTATION, CLEAR_ANNOTATION) if name in node.annotations]
    annotations = patch.get("metadata", {}).get("annotations", {}) | dict.fromkeys(stale)
    spec = patch.get("spec", {})
    if not annotations and not spec:
        return
    metadata = {"resourceVersion": node.resource_version, "annotations": annotations}
    body = {"metadata": metadata} | ({"spec": spec} if spec else {})
    api.ask(rest, "PATCH", _path(node.name), body=body, content_type=STRATEGIC_MERGE)
    removed += ["cordon"] * ("unschedulable" in spec) + ["taint"] * ("taints" in spec)
    removed += [f"annotation {name}" for name in annotations]


def _copied(node: NodeFacts) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(node.annotations.get(RECOVERY_ANNOTATION, ""), type=_Copy).added
    except (msgspec.DecodeError, RecursionError):
        return ()


def _is_ours(node: NodeFacts, kind: str, message: str, types: frozenset[str]) -> bool:
    """Tell whether a condition is ours: where no detector of ours was, another program may use the same type."""
    if kind == ACCELERATED_HARDWARE_READY:
        return message.endswith(OUR_MARK)
    return kind in types and DETECTOR_ANNOTATION in node.annotations


def _path(name: str) -> str:
    return f"{_NODES}/{quote(name, safe='')}"
