"""When not to believe: too many nodes at once, or the same again on a new machine. Pure.

A driver, an image or a job that breaks every node looks like hardware on each of them.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from recovery.confirm import action_of
from recovery.policy import NEVER_REPLACES
from runtime.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recovery.confirm import Fault
    from recovery.model import Entry, LedgerBody, NodeFacts, Sighting
    from recovery.policy import Rules
    from recovery.watch import Watch

NEWCOMER: Final = timedelta(hours=2)
_REMEMBERED: Final = timedelta(hours=24)
_LEAST: Final = 3
_MOST: Final = 50
_FLEET_TENTH: Final = 10
_SERIAL = re.compile(r"\bserial-num=([^\s;,]+)")


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """A reason that began on too many nodes.

    Args:
        node: one of them, to tell it on.
        nodes: how many.
        most: how many are still no storm.
    """

    reason: str
    node: str
    nodes: int
    most: int


def most_at_once(fleet: int | None, rules: Rules) -> int:
    """Tell on how many nodes a reason may begin within the window."""
    tenth = min((fleet or 0) // _FLEET_TENTH, _MOST)
    return rules.budget.storm_nodes or max(_LEAST, tenth)


def storms(sighting: Sighting, body: LedgerBody, rules: Rules, watch: Watch, now: datetime) -> list[Storm]:
    """List the reasons whose breaker trips now; those that have tripped already are left out.

    Any window counts, not only the last one: a storm that came while nobody looked, or before the ledger was lost, is
    one as long as its faults are there.
    """
    begun: dict[str, list[tuple[datetime, str]]] = {}
    for reason, node, began in _begun(sighting, body, rules, watch, now):
        after = body.reset.get(reason)
        if reason not in body.tripped and (after is None or began > after):
            begun.setdefault(reason, []).append((began, node))
    most = most_at_once(sighting.fleet, rules)
    window = timedelta(seconds=rules.budget.storm_window.seconds)
    struck = {reason: _most_within(window, times) for reason, times in sorted(begun.items()) if len(times) > most}
    return [
        Storm(reason=reason, node=min(nodes), nodes=len(nodes), most=most)
        for reason, nodes in struck.items()
        if len(nodes) > most
    ]


def _most_within(window: timedelta, begun: list[tuple[datetime, str]]) -> set[str]:
    """Find the nodes of the window in which it began on most of them; a node may be told of twice."""
    line = sorted(begun)
    inside: Counter[str] = Counter()
    most, best, first = 0, (0, 0), 0
    for last, (began, node) in enumerate(line):
        inside[node] += 1
        while began - line[first][0] > window:
            left = line[first][1]
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
            first += 1
        if len(inside) > most:
            most, best = len(inside), (first, last)
    return {node for _, node in line[best[0] : best[1] + 1]}


def _begun(
    sighting: Sighting, body: LedgerBody, rules: Rules, watch: Watch, now: datetime
) -> Iterator[tuple[str, str, datetime]]:
    """List reason, node and beginning of all faults that count.

    Those that are there, whenever they began; of those that have been dealt with meanwhile only what was begun just
    now: history is no reason to stop, and is measured with the fleet of its time.
    """
    for seen in sighting.seen.values():
        for fault in seen.faults:
            if fault.reason != NEVER_REPLACES and action_of(fault, rules) is not Action.NONE:
                yield fault.reason, seen.node, fault.since or watch.first_seen(seen.node, fault.reason, now)
    recent = now - timedelta(seconds=rules.budget.storm_window.seconds)
    for entry in body.entries:
        counts = not entry.would and entry.reason != NEVER_REPLACES
        if counts and entry.observed_at is not None and entry.observed_at >= recent:
            yield entry.reason, entry.node, entry.observed_at


def serial_of(fault: Fault, facts: NodeFacts) -> str | None:
    """Find a fault's device in the condition's message; None = it is not named.

    The detector lists faults there as `REASON serial-num=1a2b ... (n lines)`, with `; ` between them.
    """
    _, _, message = facts.conditions.get(fault.type, ("", "", ""))
    for part in message.split("; "):
        if part.split(" ", 1)[0] == fault.reason and (found := _SERIAL.search(part)):
            return found.group(1)
    return None


def is_young(body: LedgerBody, group: str, fault: Fault, facts: NodeFacts, instance: str) -> bool:
    """Tell whether a node had joined its group shortly before its fault, or carries a device that was replaced.

    A new machine may find the old Node object: then the ledger knows it as the replacement of another.
    """
    since = fault.started - NEWCOMER
    if facts.created_at > since:
        return True
    serial = serial_of(fault, facts)
    return any(
        _made_way_for(entry, instance, since) or _has_device(entry, serial, instance) for entry in _of(body, group)
    )


def _of(body: LedgerBody, group: str) -> Iterator[Entry]:
    return (entry for entry in body.entries if entry.group == group and not entry.would)


def _made_way_for(entry: Entry, instance: str, since: datetime) -> bool:
    return entry.replacement == instance and entry.ended_at is not None and entry.ended_at > since


def _has_device(entry: Entry, serial: str | None, instance: str) -> bool:
    return serial is not None and entry.serial == serial and entry.instance != instance


def recurrences(body: LedgerBody, group: str, reason: str, instance: str, now: datetime) -> list[Entry]:
    """List the entries of other young nodes of a group with the same reason, of the last 24 h."""
    return [
        entry
        for entry in _of(body, group)
        if entry.young
        and entry.reason == reason
        and entry.instance != instance
        and entry.observed_at is not None
        and now - entry.observed_at < _REMEMBERED
    ]
