"""Which nodes a pass looks at, and in which order. Pure.

Only Nodes that matter are read, and never more than so many in a pass: a storm must not become a storm of requests.
Those whose turn has not come keep what was decided about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from recovery import entries
from recovery.confirm import GRAVITY, Fault, faults_of

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.model import LedgerBody, Sighting
    from recovery.policy import Rules
    from recovery.watch import Watch

MOST_READ: Final = 50
_FIRST_IN_LINE: Final = 10  # the next to be admitted are read in each pass


class Attention(NamedTuple):
    """What a pass looks at.

    Args:
        read: nodes to look at, in this order.
        unread: nodes that matter and whose turn has not come.
        stopped: nodes of which nothing is begun because the breakers of all their reasons have tripped.
        ignored: nodes with faults that have no action.
    """

    read: list[str]
    unread: list[str]
    stopped: dict[str, Fault]
    ignored: list[str]


def attend(sighting: Sighting, body: LedgerBody, rules: Rules, watch: Watch, now: datetime) -> Attention:
    """Choose the nodes of a pass: who holds a slot first, then the gravest, then whoever was read longest ago."""
    held = {entry.node: entry for entry in body.entries if entries.is_open(entry)}
    struck = {name: faults_of(seen, rules, watch, now) for name, seen in sighting.seen.items() if seen.faults}
    stopped = {
        name: faults[0]
        for name, faults in struck.items()
        if faults and name not in held and all(fault.reason in body.tripped for fault in faults)
    }
    ignored = [name for name, faults in struck.items() if not faults and name not in held]
    holders = sorted(name for name, entry in held.items() if entries.holds_slot(entry))
    ranks: dict[str, tuple[int, bool, datetime]] = {}  # gravity; of equals the fenced come first, then the oldest
    for name, entry in held.items():
        ranks[name] = (GRAVITY[entry.class_], False, entry.observed_at or now)
    for name, faults in struck.items():
        if faults:
            ranks[name] = (GRAVITY[faults[0].fault_class], name not in held, faults[0].started)
    line = sorted(ranks.keys() - stopped.keys() - set(holders), key=lambda name: (*ranks[name], name))
    turn = _turn(line, watch, max(0, MOST_READ - len(holders)))
    return Attention(
        read=[*holders, *(name for name in line if name in turn)],
        unread=[name for name in line if name not in turn],
        stopped=stopped,
        ignored=ignored,
    )


def _turn(line: list[str], watch: Watch, most: int) -> set[str]:
    if len(line) <= most:
        return set(line)
    first = line[: min(_FIRST_IN_LINE, most)]
    waiting = line[len(first) :]
    read_at = {name: watch.read_at(name) for name in waiting}
    never = [name for name in waiting if read_at[name] is None]
    longest = sorted((at, name) for name, at in read_at.items() if at is not None)
    return set([*first, *never, *(name for _, name in longest)][:most])
