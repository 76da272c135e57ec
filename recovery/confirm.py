"""Whether a node is faulty: its detector's metrics, its Node's conditions and the time they have lasted. Pure.

Only both together make a fault, and only both together end one. What cannot be seen is neither healthy nor faulty.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from runtime.vocabulary import Action, FaultClass, Status

if TYPE_CHECKING:
    from collections.abc import Container

    from recovery.model import FaultSeen, NodeFacts, Seen
    from recovery.policy import Rules
    from recovery.watch import Watch

POLLS_TO_AGREE: Final = 2
DISAGREE_AFTER: Final = timedelta(seconds=60)
GRAVITY: Final = {fault_class: fault_class.gravity for fault_class in FaultClass}  # asked for a thousand times a pass
_SEVERAL: Final = 2


class Health(enum.StrEnum):
    """What is known of a node: the `state` of chipwarden_recovery_observations."""

    HEALTHY = "healthy"
    IGNORED = "ignored"  # faults with no action
    UNCONFIRMED = "unconfirmed"
    FAULTY = "faulty"
    DISAGREE = "disagree"
    BLIND = "blind"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that something may be done about.

    Args:
        type: the condition type.
        action: after the policies; never none.
        started: when it began, at the latest when it was first seen: a node's clock may be ahead.
        confirmed_at: when it has lasted long enough.
    """

    reason: str
    type: str
    fault_class: FaultClass
    action: Action
    started: datetime
    confirmed_at: datetime


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a node now.

    Args:
        fault: the one that counts; None unless unconfirmed, faulty or in disagreement.
        confirmed: all that are, the one that counts first.
        detail: one sentence.
        until: when it may be known otherwise; None = that depends on somebody.
    """

    health: Health
    fault: Fault | None = None
    confirmed: tuple[Fault, ...] = ()
    detail: str = ""
    until: datetime | None = None


def chosen(judgement: Judgement, tripped: Container[str]) -> Fault | None:
    """Choose the fault that something is done about: the first of which the breaker has not tripped.

    A reboot is no choice beside a replacement that is stopped: it does not end that fault, and when it has failed twice
    the machine would be replaced all the same.

    Args:
        judgement: what is known of the node.
        tripped: reasons whose breakers have tripped.

    Returns:
        None = there is no fault; one of a tripped breaker = all have.
    """
    first = judgement.fault
    free = next((fault for fault in judgement.confirmed if fault.reason not in tripped), first)
    if first is None or free is None or (first.action is Action.REPLACE and free.action is Action.REBOOT):
        return first
    return free


def faults_of(seen: Seen, rules: Rules, watch: Watch, now: datetime) -> list[Fault]:
    """List the faults that something may be done about, the one that counts most first.

    A fault whose replacement is asked for comes before one that a reboot may end; then the gravest, then the oldest.
    """
    faults = [_fault(seen.node, fault, rules, watch, now) for fault in seen.faults]
    known = [fault for fault in faults if fault is not None]
    return known if len(known) < _SEVERAL else sorted(known, key=_rank)


def _rank(fault: Fault) -> tuple[bool, int, datetime]:
    return fault.action is not Action.REPLACE, GRAVITY[fault.fault_class], fault.started


def action_of(fault: FaultSeen, rules: Rules) -> Action:
    """Tell what is to be done about a fault; without its rule's word nothing is, unless a policy names it."""
    return rules.action(fault.reason, fault.action if fault.fault_class is not None else None)


def _fault(node: str, fault: FaultSeen, rules: Rules, watch: Watch, now: datetime) -> Fault | None:
    action = action_of(fault, rules)
    if action is Action.NONE:
        return None
    fault_class = fault.fault_class or FaultClass.SUSPECT
    first_seen = watch.first_seen(node, fault.reason, now)
    started = first_seen if fault.since is None else min(fault.since, first_seen)
    lasts = timedelta(seconds=rules.confirm_for(fault.reason, fault_class).seconds)
    return Fault(
        reason=fault.reason,
        type=fault.type,
        fault_class=fault_class,
        action=action,
        started=started,
        confirmed_at=started + lasts,
    )


def is_condition_true(facts: NodeFacts, kind: str) -> bool:
    """Tell whether a Node's condition of a type is True; Unknown and absent are not."""
    return kind in facts.conditions and facts.conditions[kind][0] == Status.TRUE


def agreeing(faults: list[Fault], facts: NodeFacts) -> list[Fault]:
    """List the faults that the Node's conditions confirm."""
    return [fault for fault in faults if is_condition_true(facts, fault.type)]


def disagrees(seen: Seen, faults: list[Fault], facts: NodeFacts, type_held: str) -> bool:
    """Tell whether metrics and conditions contradict each other.

    Args:
        seen: the detector's word.
        faults: of it, those that something may be done about.
        facts: the Node.
        type_held: the condition type of the node's ledger entry, looked at though no metric speaks of it; "" = none.
    """
    if faults:
        return not agreeing(faults, facts)
    return is_unexplained(seen, facts, type_held)


def is_unexplained(seen: Seen, facts: NodeFacts, kind: str) -> bool:
    """Tell whether a Node's condition of a type is True though no metric speaks of that type."""
    return is_condition_true(facts, kind) and all(fault.type != kind for fault in seen.faults)


def stands(seen: Seen, facts: NodeFacts, kind: str, reason: str) -> bool:
    """Tell whether metric and condition both still speak of a fault."""
    return is_condition_true(facts, kind) and any(fault.reason == reason for fault in seen.faults)


def judge(seen: Seen, facts: NodeFacts, *, type_held: str, rules: Rules, watch: Watch, now: datetime) -> Judgement:
    """Tell what is known of a node whose detector answered and whose Node was read."""
    faults = faults_of(seen, rules, watch, now)
    if disagrees(seen, faults, facts, type_held):
        return _disagreement(seen.node, faults, type_held, watch, now)
    if not faults:
        return Judgement(health=Health.IGNORED if seen.faults else Health.HEALTHY)
    both = agreeing(faults, facts)
    confirmed = [fault for fault in both if _is_confirmed(seen.node, fault, watch, now)]
    if confirmed:
        return Judgement(health=Health.FAULTY, fault=confirmed[0], confirmed=tuple(confirmed))
    soonest = min(both, key=lambda fault: fault.confirmed_at)
    return Judgement(
        health=Health.UNCONFIRMED,
        fault=both[0],
        detail=f"{soonest.reason} has to last until then, in at least {POLLS_TO_AGREE} polls",
        until=max(soonest.confirmed_at, now),
    )


def _is_confirmed(node: str, fault: Fault, watch: Watch, now: datetime) -> bool:
    return now >= fault.confirmed_at and watch.polls_agreed(node, fault.reason) >= POLLS_TO_AGREE


def _disagreement(node: str, faults: list[Fault], type_held: str, watch: Watch, now: datetime) -> Judgement:
    since = watch.disagree_since(node) or now
    if faults:
        detail = f"the metric of {faults[0].reason} is 1, the condition {faults[0].type} is not True"
    else:
        detail = f"the condition {type_held} is True, no metric is 1"
    return Judgement(
        health=Health.DISAGREE,
        fault=faults[0] if faults else None,
        detail=detail,
        until=since + DISAGREE_AFTER,
    )
