"""The view of a whole pass: gauges for pages, counts for alarms. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from recovery import entries
from recovery.budget import remaining, remaining_in
from recovery.confirm import GRAVITY, Health
from recovery.decision import Decision, Why
from recovery.guard import is_enabled
from recovery.model import Way
from recovery.points import NEURON_REASONS
from recovery.standing import Found
from runtime.vocabulary import Action, FaultClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from recovery.confirm import Fault
    from recovery.model import LedgerBody, Sighting
    from recovery.policy import Rules


def fault_points(sighting: Sighting) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """Count the nodes with each reason that detectors know, 0 included; and name them.

    It is the detectors' word alone, so that an alarm does not wait for anything else.
    """
    known = {NEURON_REASONS, *(seen.reasons for seen in sighting.seen.values())}  # few: detectors know the same reasons
    nodes: dict[str, list[str]] = {reason: [] for reasons in known for reason in reasons}
    for name, seen in sighting.seen.items():
        for reason in {fault.reason for fault in seen.faults}:
            nodes.setdefault(reason, []).append(name)
    return {reason: len(names) for reason, names in nodes.items()}, {
        reason: tuple(sorted(names)) for reason, names in nodes.items() if names
    }


def blocked_points(decisions: Iterable[Decision], body: LedgerBody, *, is_all_blocked: bool = False) -> dict[str, int]:
    """Count what an operator should look at: nodes that are blocked, replacements that do not come.

    Args:
        decisions: of the last pass.
        body: the ledger.
        is_all_blocked: nothing can be done about any node: counts as one more.
    """
    blocked = sum(decision.decision == "blocked" and not decision.would for decision in decisions)
    return {
        "RecoveryBlocked": blocked + is_all_blocked,
        "ReplacementBlocked": sum(entries.is_open(entry) and entry.kind is not None for entry in body.entries),
    }


def observations(sighting: Sighting, looked: Mapping[str, Health], ignored: Iterable[str]) -> dict[str, int]:
    """Count nodes by what is known of them; a fault that nobody has looked into yet is unconfirmed.

    If nothing can be seen, all that should have a detector are blind.
    """
    counts = {health.value: 0 for health in Health}
    aside = frozenset(ignored)
    for name, seen in sighting.seen.items():
        known = Health.HEALTHY
        if seen.faults:
            known = Health.IGNORED if name in aside else looked.get(name, Health.UNCONFIRMED)
        elif name in looked:
            known = looked[name]
        counts[known] += 1
    all_blind = 0 if sighting.why_blind is None else sighting.fleet or 0
    counts[Health.BLIND] += max(len(sighting.blind), all_blind)
    return counts


def set_aside(stopped: Mapping[str, Fault], ignored: Iterable[str], sighting: Sighting, rules: Rules) -> list[Decision]:
    """Say why some nodes are not even looked at.

    Args:
        stopped: nodes and their gravest faults whose breakers have tripped.
        ignored: nodes whose faults have no action.
        sighting: the poll.
        rules: for whether recovery is enabled on them.
    """
    blank = Decision(
        node="",
        group="",
        reason="",
        fault_class=FaultClass.SUSPECT,
        action=Action.NONE,
        state=None,
        decision="none",
        why=Why.NO_ACTION,
        detail="nothing is to be done about it",
        until=None,
        would=False,
    )
    decisions = []
    for name in ignored:
        fault = sighting.seen[name].faults[0]
        fault_class = fault.fault_class or FaultClass.SUSPECT
        decisions.append(replace(blank, node=name, reason=fault.reason, fault_class=fault_class))
    tripped = replace(blank, decision="blocked", why=Why.BREAKER_TRIPPED)
    for name, each in stopped.items():
        detail = f"the breaker of {each.reason} tripped, until reset-breaker"
        would = is_enabled(sighting.seen[name], rules) is False
        about = replace(tripped, reason=each.reason, fault_class=each.fault_class, action=each.action)
        decisions.append(replace(about, node=name, detail=detail, would=would))
    return decisions


def healed(body: LedgerBody, sighting: Sighting) -> list[tuple[str, str]]:
    """List node and reason of what would be done and whose fault has gone, or whose node has."""
    if sighting.why_blind is not None:
        return []
    gone = []
    for entry in body.entries:
        if entry.would and entry.outcome is None and entry.node not in sighting.blind:
            seen = sighting.seen.get(entry.node)
            if seen is None or all(fault.reason != entry.reason for fault in seen.faults):
                gone.append((entry.node, entry.reason))
    return gone


def gravest_first(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Sort decisions for people."""
    return tuple(sorted(decisions, key=lambda each: (GRAVITY[each.fault_class], each.node)))


def open_entries(body: LedgerBody) -> dict[str, int]:
    """Count the entries that hold a slot, by group."""
    counts: dict[str, int] = {}
    for entry in body.entries:
        if entries.holds_slot(entry):
            counts[entry.group] = counts.get(entry.group, 0) + 1
    return counts


def budget_remaining(
    body: LedgerBody, known: Mapping[str, Found | None], rules: Rules, fleet: int | None, now: datetime
) -> dict[str, int]:
    """Tell how many more may be admitted now: in all (""), and of each group.

    Args:
        body: the ledger.
        known: what was last answered about each group; None = nothing yet.
        rules: the budget.
        fleet: how many nodes have a detector; None = unknown.
        now: the time.
    """
    in_all = remaining(body, rules.budget, fleet, now)
    left = {"": in_all}
    for group, answer in known.items():
        found = answer or Found(way=Way.AUTOSCALING, at=now, name=group)
        left[group] = min(in_all, remaining_in(body, found, rules.budget))
    return left


def breakers(sighting: Sighting, body: LedgerBody, rules: Rules) -> dict[str, bool]:
    """Tell for each reason with an action whether its breaker is tripped."""
    seen = {
        fault.reason
        for each in sighting.seen.values()
        for fault in each.faults
        if rules.action(fault.reason, fault.action if fault.fault_class is not None else None) is not Action.NONE
    }
    return {reason: reason in body.tripped for reason in sorted(seen | set(body.tripped))}


def replacements_blocked(body: LedgerBody) -> dict[str, dict[str, int]]:
    """Count the replacements that do not come, by group and kind."""
    counts: dict[str, dict[str, int]] = {}
    for entry in body.entries:
        if entries.is_open(entry) and entry.kind is not None:
            kinds = counts.setdefault(entry.group, {})
            kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
    return counts


def oldest_open(body: LedgerBody) -> dict[str, datetime]:
    """Tell when the oldest open entry of each state came into it."""
    oldest: dict[str, datetime] = {}
    for entry in body.entries:
        if entries.is_open(entry) and entry.entered_at is not None:
            oldest[entry.state] = min(oldest.get(entry.state, entry.entered_at), entry.entered_at)
    return oldest
