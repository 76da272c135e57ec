"""How much may be taken away at once. Pure.

AWS puts no brake on instances that are marked Unhealthy: this is the only one. What is not known counts as the worst
case.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from recovery import entries
from recovery.decision import Why
from recovery.ledger_text import FULL_BYTES
from recovery.model import Way
from recovery.standing import not_serving, present

if TYPE_CHECKING:
    from recovery.model import Entry, LedgerBody
    from recovery.policy import Budget
    from recovery.standing import Found

_HOUR: Final = timedelta(hours=1)
_LEAST_PER_HOUR: Final = 3
_FLEET_TENTH: Final = 10


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that does not allow one more.

    Args:
        until: when it allows one if nothing else happens; None = when an entry closes or somebody acts.
    """

    why: Why
    detail: str
    until: datetime | None = None


def most_unhealthy(size: int | None, budget: Budget) -> int:
    """Tell how many of a group may be out of service at once: at least one, and just one if its size is unknown."""
    return max(1, (size or 0) * budget.max_unhealthy_percent // 100)


def most_per_hour(fleet: int | None, budget: Budget) -> int:
    """Tell how many may be admitted in an hour."""
    return budget.max_per_hour or max(_LEAST_PER_HOUR, (fleet or 0) // _FLEET_TENTH)


def refuses_any(body: LedgerBody, budget: Budget, fleet: int | None, now: datetime) -> Refusal | None:
    """Tell what keeps the whole fleet from one more; no group has to be asked for it."""
    open_now = _open(body)
    if len(open_now) >= budget.max_concurrent:
        return Refusal(why=Why.MAX_CONCURRENT, detail=f"{_named(open_now)} open, at most {budget.max_concurrent}")
    admitted = _admitted_at(body, now)
    most = most_per_hour(fleet, budget)
    if len(admitted) >= most:
        detail = f"{len(admitted)} admitted within the hour, at most {most}"
        return Refusal(why=Why.MAX_PER_HOUR, detail=detail, until=admitted[len(admitted) - most] + _HOUR)
    return refuses_more_entries(body)


def refuses_more_entries(body: LedgerBody) -> Refusal | None:
    """Tell whether the ledger has become too large to begin anything: what is open must be able to end."""
    size = len(msgspec.json.encode(body))
    if size > FULL_BYTES:
        return Refusal(why=Why.LEDGER_FULL, detail=f"the ledger has {size} bytes, at most {FULL_BYTES}")
    return None


def refuses_in(body: LedgerBody, found: Found, instance: str, budget: Budget) -> Refusal | None:
    """Tell what keeps a group from one more.

    Args:
        body: the ledger.
        found: the group.
        instance: the one more.
        budget: the limits.
    """
    group = found.name or ""
    open_now = _open(body)
    if open_now and (found.way is Way.NARROW or any(entry.way is Way.NARROW for entry in open_now)):
        detail = f"{_named(open_now)} open, at most 1 in all while groups cannot be described"
        return Refusal(why=Why.NARROW_MODE, detail=detail)
    in_group = [entry for entry in open_now if entry.group == group]
    if len(in_group) >= budget.max_per_group:
        detail = f"{_named(in_group)} open in {group or 'unknown group'}, at most {budget.max_per_group}"
        return Refusal(why=Why.MAX_PER_GROUP, detail=detail)
    size = _size(body, found)
    most = most_unhealthy(size, budget)
    out = _out_of_service(body, found) | {instance}
    if len(out) > most:
        detail = f"{len(out)} of {size or 'unknown'} in {group or 'unknown group'} would be out, at most {most}"
        return Refusal(why=Why.MAX_UNHEALTHY_PERCENT, detail=detail)
    return None


def refuses_fence(body: LedgerBody, found: Found, node: str, budget: Budget) -> Refusal | None:
    """Tell what keeps a group from one more fenced node."""
    group = found.name or ""
    most = most_unhealthy(_size(body, found), budget)
    fenced = entries.fenced_in(body, group) | {node}
    if len(fenced) > most:
        detail = f"{len(fenced)} nodes of {group or 'unknown group'} would be fenced, at most {most}"
        return Refusal(why=Why.MAX_UNHEALTHY_PERCENT, detail=detail)
    return None


def remaining(body: LedgerBody, budget: Budget, fleet: int | None, now: datetime) -> int:
    """Tell how many more may be admitted in all, as far as the ledger tells."""
    this_hour = most_per_hour(fleet, budget) - len(_admitted_at(body, now))
    return max(0, min(budget.max_concurrent - len(_open(body)), this_hour))


def remaining_in(body: LedgerBody, found: Found, budget: Budget) -> int:
    """Tell how many more a group may lose, as far as itself and the ledger tell."""
    in_group = sum(entry.group == (found.name or "") for entry in _open(body))
    left = most_unhealthy(_size(body, found), budget) - len(_out_of_service(body, found))
    return max(0, min(budget.max_per_group - in_group, left))


def _open(body: LedgerBody) -> list[Entry]:
    return [entry for entry in body.entries if entries.holds_slot(entry)]


def _admitted_at(body: LedgerBody, now: datetime) -> list[datetime]:
    """List the admissions of the last hour, the oldest first."""
    times = (entry.admitted_at for entry in body.entries if not entry.would)
    return sorted(at for at in times if at is not None and now - at < _HOUR)


def _out_of_service(body: LedgerBody, found: Found) -> frozenset[str]:
    """List the instances of a group that are out or being taken out, each once."""
    being = _being_taken(body, found)
    return being if found.group is None else being | not_serving(found.group)


def _being_taken(body: LedgerBody, found: Found) -> frozenset[str]:
    return frozenset(entry.instance for entry in _open(body) if entry.group == (found.name or ""))


def _size(body: LedgerBody, found: Found) -> int | None:
    """Tell how many machines a group has or should have, whichever is less, with those that are being replaced.

    With weights its desired capacity counts no machines, and a group that never got what it wants is no larger for it.
    """
    if found.group is None or found.size is None:
        return found.size
    return min(found.size, len(present(found) | _being_taken(body, found)))


def _named(some: list[Entry]) -> str:
    return f"{len(some)} ({', '.join(sorted(entry.node for entry in some))})"
