"""What `plan` and `ledger` print: decisions and entries for people, or as JSON for programs; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from recovery.table import clock, shown, table, when

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from recovery.decision import Decision, Snapshot
    from recovery.model import Entry, LedgerBody

_PLAN: Final = ("NODE", "GROUP", "REASON", "CLASS", "ACTION", "STATE", "NOW", "BECAUSE", "UNTIL", "DETAIL")
_LEDGER: Final = ("NODE", "INSTANCE", "GROUP", "REASON", "STATE", "OUTCOME", "KIND", "FENCE", "ADMITTED", "UPDATED")
_MOST_BLIND: Final = 20  # that are named; JSON has all of them
_WAITING: Final = frozenset(("wait", "blocked", "none"))


def plan_text(snapshot: Snapshot) -> str:
    """Write a plan for a terminal."""
    now = snapshot.at
    parts = [f"{line}\n" for line in _state(snapshot)]
    if snapshot.decisions and now is not None:
        parts.append(table(_PLAN, (_row(decision, now) for decision in snapshot.decisions)))
    elif snapshot.source is None and snapshot.trouble is None:
        whose = "no node that can be seen" if snapshot.blind else "no node"
        parts.append(f"{whose} has a fault that something would be done about\n")
    parts.append(_budget_text(snapshot))
    return "".join(parts)


def is_complete(snapshot: Snapshot) -> bool:
    """Tell whether everything could be seen that a plan is about."""
    return snapshot.source is None and snapshot.trouble is None and not snapshot.blind


def plan_json(snapshot: Snapshot) -> str:
    """Write a plan as one JSON object."""
    body: dict[str, Any] = {
        "at": snapshot.at,
        "source": snapshot.source,
        "trouble": snapshot.trouble,
        "paused": snapshot.paused,
        "observations": snapshot.observations,
        "blind": snapshot.blind,
        "nodes": [_plain(decision) for decision in snapshot.decisions],
        "budgetRemaining": {name: count for name, count in snapshot.budget_remaining.items() if name},
        "budgetRemainingInAll": snapshot.budget_remaining.get(""),
        "breakers": snapshot.breaker_tripped,
        "blockedGroups": snapshot.ledger.blocked_groups,
    }
    return _json(body)


def ledger_text(body: LedgerBody | None, paused: str | None, now: datetime) -> str:
    """Write the ledger for a terminal.

    Args:
        body: None = there is none.
        paused: why; None = not paused.
        now: aware UTC.
    """
    lines = [f"paused: {paused}\n"] if paused is not None else []
    if body is None:
        return "".join([*lines, "there is no ledger yet: nothing was ever done or planned here\n"])
    lines += [f"breaker of {reason} tripped {when(at, now)} ({clock(at)})\n" for reason, at in body.tripped.items()]
    lines += [f"group {group} is blocked: {why}\n" for group, why in body.blocked_groups.items()]
    if not body.entries:
        return "".join([*lines, "the ledger has no entries\n"])
    return "".join([*lines, table(_LEDGER, (_entry(entry, now) for entry in body.entries))])


def ledger_json(body: LedgerBody | None, paused: str | None) -> str:
    """Write the ledger as one JSON object; `ledger` is what is stored, or null."""
    return _json({"paused": paused, "ledger": body})


def _state(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.source is not None:
        yield f"blind: {snapshot.source}"
    for node, why in sorted(snapshot.blind.items())[:_MOST_BLIND]:
        yield f"blind: {shown(node)}: {shown(why)}"
    if len(snapshot.blind) > _MOST_BLIND:
        yield f"blind: {len(snapshot.blind) - _MOST_BLIND} more"
    if snapshot.trouble is not None:
        yield f"incomplete: {snapshot.trouble}"
    if snapshot.paused is not None:
        yield f"paused: {snapshot.paused}"
    for reason in sorted(reason for reason, tripped in snapshot.breaker_tripped.items() if tripped):
        yield f"breaker of {reason} is tripped: chipwarden-recovery reset-breaker {reason}"
    for group, why in snapshot.ledger.blocked_groups.items():
        yield f"group {group} is blocked ({why}): chipwarden-recovery resume --group {group}"
    seen = ", ".join(f"{count} {state}" for state, count in snapshot.observations.items() if count)
    if seen:
        yield f"nodes: {seen}"


def _row(decision: Decision, now: datetime) -> tuple[str, ...]:
    step = decision.decision
    if decision.would and step not in _WAITING:
        step = f"would {step}"
    return (
        decision.node,
        decision.group,
        decision.reason,
        decision.fault_class,
        decision.action,
        f"would be {decision.state}" if decision.would and decision.state else decision.state or "",
        step,
        decision.why,
        when(decision.until, now),
        decision.detail,
    )


def _budget_text(snapshot: Snapshot) -> str:
    """Tell what is left, the whole first."""
    left = dict(snapshot.budget_remaining)
    whole = left.pop("", None)
    lines = [] if whole is None else [f"budget: {whole} more in all\n"]
    return "".join([*lines, *(f"budget: {count} more of {group}\n" for group, count in sorted(left.items()))])


def _entry(entry: Entry, now: datetime) -> tuple[str, ...]:
    return (
        entry.node,
        entry.instance,
        entry.group,
        entry.reason,
        f"would be {entry.state}" if entry.would else entry.state,
        entry.outcome or ("" if entry.would else "open"),
        entry.kind or "",
        ", ".join(entry.added),
        when(entry.admitted_at, now),
        when(entry.updated_at, now),
    )


def _plain(decision: Decision) -> dict[str, Any]:
    names = {"fault_class": "faultClass"}
    return {names.get(name, name): getattr(decision, name) for name in decision.__struct_fields__}


def _json(body: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"
