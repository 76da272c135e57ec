"""A lost ledger, made anew of the copies that fenced Nodes carry. Pure.

A copy that cannot be read still stands for a machine that was taken out of service: its fence is kept until the node is
healthy, and only our taint is lifted then, since nobody knows any more who had cordoned it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from recovery import entries
from recovery.guard import identity
from recovery.model import TAINT, Entry, LedgerBody, Outcome, State
from runtime.vocabulary import RECOVERY_ANNOTATION, UNHEALTHY_TAINT, Action, FaultClass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from recovery.model import NodeFacts

UNKNOWN_REASON: Final = "LedgerLost"


def rebuilt(nodes: Iterable[NodeFacts], now: datetime) -> LedgerBody:
    """Make a ledger of fenced Nodes.

    Args:
        nodes: all Nodes that carry our annotation or taint.
        now: the time.
    """
    found: dict[str, Entry] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        entry = _copied(node) or _guessed(node, now)
        while entry.id in found:
            entry = replace(entry, id=f"{entry.id}-{node.name}")
        found[entry.id] = entry
    return LedgerBody(entries=tuple(found.values()))


def _copied(node: NodeFacts) -> Entry | None:
    """Read the copy; None = there is none, or it is not one of this Node object."""
    text = node.annotations.get(RECOVERY_ANNOTATION)
    if text is None:
        return None
    try:
        entry = msgspec.json.decode(text, type=Entry)
    except (msgspec.DecodeError, RecursionError):
        return None
    times = (value for value in msgspec.structs.astuple(entry) if hasattr(value, "tzinfo"))
    if any(at.tzinfo is None for at in times):
        return None
    return entry if (entry.node, entry.uid) == (node.name, node.uid) and not entry.would else None


def _guessed(node: NodeFacts, now: datetime) -> Entry:
    taint = next((taint for taint in node.taints if taint.key == UNHEALTHY_TAINT), None)
    classes = {each.value: each for each in FaultClass}
    entry = Entry(
        id=f"{node.name}-{node.uid}",
        node=node.name,
        uid=node.uid,
        instance=identity(node) or "",
        group="",
        reason=UNKNOWN_REASON,
        class_=FaultClass.SUSPECT if taint is None else classes.get(taint.value, FaultClass.SUSPECT),
        action=Action.NONE,
        state=State.FENCED,
        added=() if taint is None else (TAINT,),
        provider_id=node.provider_id,
        fenced_at=now,
    )
    return entries.close(entry, Outcome.STALLED, now)
