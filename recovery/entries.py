"""The ledger's entries: find, put, close, forget. Pure: a ledger is never changed, a new one is made.

It is also where an operator's words `resume --group` and `reset-breaker` are written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from recovery.model import Entry, Outcome, State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from recovery.model import LedgerBody

# Outcomes after which the same instance is never begun with again.
FINAL: Final = frozenset({Outcome.REPLACED, Outcome.GONE, Outcome.RETAINED, Outcome.REFUSED})
# Outcomes after which the fence is lifted at once. After the others it stays while the node is faulty.
LIFTED_AT_ONCE: Final = frozenset({Outcome.CLEARED, Outcome.RELEASED, Outcome.REBOOTED})
# Outcomes after which a fence is no part of its group: the machine has gone, or was in none.
_OF_NO_GROUP: Final = frozenset({Outcome.REPLACED, Outcome.GONE, Outcome.REFUSED})
_HOLDS_NO_SLOT: Final = frozenset({State.OBSERVED, State.FENCED})
_FOLLOWED_ONLY: Final = frozenset({State.TERMINATING, State.REBOOTING, State.GONE, State.RETURNED, State.REPLACED})


def is_open(entry: Entry) -> bool:
    """Tell whether an entry is real and not closed."""
    return entry.outcome is None and not entry.would


def holds_slot(entry: Entry) -> bool:
    """Tell whether an entry is open in the budget's sense: from `admitted` until closed."""
    return is_open(entry) and entry.state not in _HOLDS_NO_SLOT


def is_followed_only(entry: Entry) -> bool:
    """Tell whether the machine was given to others: it cannot be undone any more."""
    return entry.state in _FOLLOWED_ONLY


def would_of(body: LedgerBody, node: str, reason: str) -> Entry | None:
    """Find what would be done about a node's fault if recovery were enabled there."""
    for entry in body.entries:
        if entry.would and entry.outcome is None and (entry.node, entry.reason) == (node, reason):
            return entry
    return None


def final_of(body: LedgerBody, instance: str) -> Entry | None:
    """Find the entry that ended an instance for good."""
    entries = [entry for entry in body.entries if entry.instance == instance and entry.outcome in FINAL]
    return entries[-1] if entries else None


def residues(body: LedgerBody) -> list[Entry]:
    """List the closed entries whose fence is not lifted yet."""
    return [entry for entry in body.entries if entry.outcome is not None and entry.added]


def fenced_in(body: LedgerBody, group: str) -> frozenset[str]:
    """List the nodes of a group that stand fenced, whether something goes on with them or not."""
    return frozenset(
        entry.node for entry in body.entries if entry.group == group and not entry.would and _is_fence_there(entry)
    )


def _is_fence_there(entry: Entry) -> bool:
    if entry.outcome is None:
        return True
    return bool(entry.added) and entry.outcome not in LIFTED_AT_ONCE | _OF_NO_GROUP


def put(body: LedgerBody, entry: Entry) -> LedgerBody:
    """Write an entry in the place of the one with its id, or as a new one.

    A new entry of a node takes over the fence that an older one left there; what an entry would have done is dropped
    when it really begins.
    """
    entries = list(body.entries)
    for place, old in enumerate(entries):
        if old.id == entry.id:
            entries[place] = entry
            return replace(body, entries=tuple(entries))
    if not entry.would:
        entries = [_handed_over(old, entry) for old in entries if not (old.would and old.node == entry.node)]
    return replace(body, entries=(*entries, entry))


def _handed_over(old: Entry, new: Entry) -> Entry:
    is_left = old.node == new.node and old.outcome is not None and bool(old.added)
    return replace(old, added=()) if is_left else old


def inherited(body: LedgerBody, node: str) -> tuple[str, ...]:
    """Tell what older entries have left on a node."""
    return tuple(sorted({part for entry in residues(body) if entry.node == node for part in entry.added}))


def new_id(body: LedgerBody, instance: str, now: datetime) -> str:
    """Make an id that no entry has."""
    stem = f"{instance}-{now:%Y%m%dT%H%M%SZ}"
    taken = {entry.id for entry in body.entries}
    number = 1
    while (name := stem if number == 1 else f"{stem}-{number}") in taken:
        number += 1
    return name


def enter(entry: Entry, state: State, now: datetime, **changes: Any) -> Entry:
    """Bring an entry into a state."""
    return replace(entry, state=state, entered_at=now, updated_at=now, **changes)


def give_away(
    entry: Entry, members: Iterable[str], now: datetime, *, called_at: datetime | None, **changes: Any
) -> Entry:
    """Bring an entry to `terminating`, and remember whom the group has now, to know the newcomer.

    Args:
        entry: open.
        members: of the group.
        now: the time.
        called_at: when the call that replaces is made; None = somebody else has it replaced.
        changes: what else is known.
    """
    known = replace(entry, terminating_at=now, members=tuple(sorted({*members, entry.instance})), **changes)
    return enter(known, State.TERMINATING, now, called_at=called_at, accepted=False, kind=None)


def close(entry: Entry, outcome: Outcome, now: datetime, **changes: Any) -> Entry:
    """Close an entry; lists that only an open one needs are dropped."""
    closed = replace(entry, outcome=outcome, ended_at=now, updated_at=now, members=(), blind_at=None, **changes)
    return replace(closed, state=State.REPLACED) if outcome is Outcome.REPLACED else closed


def tidy(body: LedgerBody, now: datetime, *, healed: Iterable[tuple[str, str]], enabled: Iterable[str]) -> LedgerBody:
    """Drop what would be done where recovery was switched on, and close it where the fault has gone.

    Old entries are dropped by whoever writes the ledger down, when it has become large.

    Args:
        body: the ledger.
        now: the time.
        healed: node and reason of faults that are no longer there, as far as `would` entries are about them.
        enabled: nodes where recovery is enabled.
    """
    gone, on = frozenset(healed), frozenset(enabled)
    entries = tuple(
        close(entry, Outcome.CLEARED, now) if _is_would(entry) and (entry.node, entry.reason) in gone else entry
        for entry in body.entries
        if not (entry.would and entry.node in on)
    )
    return body if entries == body.entries else replace(body, entries=entries)


def _is_would(entry: Entry) -> bool:
    return entry.would and entry.outcome is None


def resume_group(body: LedgerBody, group: str) -> LedgerBody:
    """Take a group's block away, and with it the memory of the recurrences that led to it."""
    blocked = {name: why for name, why in body.blocked_groups.items() if name != group}
    entries = tuple(replace(entry, young=False) if entry.group == group else entry for entry in body.entries)
    return replace(body, blocked_groups=blocked, entries=entries)


def reset_breaker(body: LedgerBody, reason: str, now: datetime) -> LedgerBody:
    """Let a reason be acted on again; what began before now is no reason to trip once more."""
    tripped = {name: since for name, since in body.tripped.items() if name != reason}
    return replace(body, tripped=tripped, reset={**body.reset, reason: now})
