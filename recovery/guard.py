"""What must hold before a machine is given away, looked at again before each step until then. Pure.

The order is that of the contract: what is no longer wanted is undone at once, what may be wanted again is held.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from recovery import entries
from recovery.confirm import Health, action_of, chosen, is_condition_true, is_unexplained, stands
from recovery.decision import Why
from recovery.fence import is_scale_down_disabled
from recovery.model import CORDON, SCALE_DOWN_DISABLED, TAINT, Outcome, State
from recovery.moves import Act, Step, Wait
from recovery.remediators import other_remediator
from recovery.storm import is_young, serial_of
from runtime.vocabulary import (
    RECOVERY_DISABLED,
    RECOVERY_LABEL,
    UNHEALTHY_TAINT,
    Action,
    FaultClass,
)

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.model import Entry, NodeFacts, Seen
    from recovery.moves import Context, View
    from recovery.policy import Rules

BLIND_LIMIT: Final = timedelta(minutes=15)
FENCED_AT_ONCE: Final = (FaultClass.DEAD, FaultClass.POISONED)


def is_opted_out(facts: NodeFacts) -> bool:
    """Tell whether the Node says that it must never be touched."""
    return facts.labels.get(RECOVERY_LABEL) == RECOVERY_DISABLED


def is_enabled(seen: Seen | None, rules: Rules) -> bool | None:
    """Tell whether recovery is enabled on a node; None = only its detector could say."""
    if rules.enabled is not None:
        return rules.enabled
    return None if seen is None else seen.enabled


def identity(facts: NodeFacts) -> str | None:
    """Tell whose Node it is; None = unknown. A NodeClaim's machine needs no id that a detector knows."""
    if facts.instance is not None or facts.nodepool is None:
        return facts.instance
    return facts.provider_instance or facts.provider_id or None


def doubts_identity(facts: NodeFacts, seen: Seen | None) -> Wait | None:
    """Tell what is unclear about the machine behind a Node."""
    instance = identity(facts)
    if instance is None:
        detail = "neither its detector nor the annotation chipwarden.io/detector names the instance"
        return Wait(why=Why.INSTANCE_UNKNOWN, detail=detail, blocked=True)
    said = {"spec.providerID": facts.provider_instance, "its detector": None if seen is None else seen.instance}
    for who, other in said.items():
        if other not in (None, instance):
            detail = f"the annotation says {instance}, {who} says {other}"
            return Wait(why=Why.IDENTITY_MISMATCH, detail=detail, blocked=True)
    return None


def missing_of_fence(facts: NodeFacts) -> tuple[str, ...]:
    """List what a fence would add to a Node."""
    parts = {
        CORDON: facts.unschedulable,
        TAINT: is_tainted(facts),
        SCALE_DOWN_DISABLED: is_scale_down_disabled(facts),
    }
    return tuple(part for part, is_there in parts.items() if not is_there)


def is_tainted(facts: NodeFacts) -> bool:
    """Tell whether our taint is there: cordon, taint and annotation come in one PATCH, so the others were set too."""
    return any(taint.key == UNHEALTHY_TAINT for taint in facts.taints)


def guard(entry: Entry, view: View, ctx: Context) -> Step | Wait | None:
    """Tell what keeps an entry from its next step; None = nothing does.

    Args:
        entry: open, its machine not given away, or so that the call has to be made again.
        view: what is known of its node.
        ctx: of the whole pass.
    """
    if view.unread is not None:
        return Wait(why=Why.API_UNKNOWN, detail=view.unread)
    move: Step | Wait | None = None
    if view.facts is not None:
        move = _unwanted(entry, view, view.facts, ctx)
    elif not entries.holds_slot(entry):
        move = _superseded(entry, ctx.now, "the Node is gone", is_fence_there=False)
    refused = move or refused_by_operator(_reason_now(entry, view, ctx), ctx)
    return refused or _sight(entry, view, ctx) or _fence(entry, view, ctx)


def _reason_now(entry: Entry, view: View, ctx: Context) -> str:
    """Tell what the next step is taken for: a slot is given for what is known then."""
    if entries.holds_slot(entry) or view.judgement.health is not Health.FAULTY:
        return entry.reason
    fault = chosen(view.judgement, ctx.body.tripped)
    return entry.reason if fault is None else fault.reason


def _unwanted(entry: Entry, view: View, facts: NodeFacts, ctx: Context) -> Step | None:
    """Undo what is no longer wanted."""
    if facts.uid != entry.uid:
        return _superseded(entry, ctx.now, "the Node was made anew", is_fence_there=False)
    instance = identity(facts)
    if instance not in (None, entry.instance):
        return _superseded(entry, ctx.now, f"the Node is now {instance}'s", is_fence_there=True)
    release = _released(view, facts, ctx.rules)
    if release is not None:
        return undo(entry, Outcome.RELEASED, ctx.now, release)
    other = other_remediator(facts)
    if other is not None:
        return Step(entry=entries.close(entry, Outcome.SUPERSEDED, ctx.now), detail=f"{other} acts on it")
    return _healed(entry, view, facts, ctx)


def _released(view: View, facts: NodeFacts, rules: Rules) -> str | None:
    if is_opted_out(facts):
        return f"label {RECOVERY_LABEL}={RECOVERY_DISABLED}"
    if is_enabled(view.seen, rules) is False:
        return "recovery was switched off"
    if view.seen is not None and view.seen.platform_repair:
        return "the platform repairs this node (AcceleratedHardwareReady)"
    return None


def _healed(entry: Entry, view: View, facts: NodeFacts, ctx: Context) -> Step | None:
    """Undo what is about a fault that has ended, whatever else the node has: that is begun with anew."""
    if view.judgement.health is Health.HEALTHY:
        return undo(entry, Outcome.CLEARED, ctx.now, f"{entry.reason} has gone from metrics and condition")
    if view.seen is None:
        return None
    held = next((fault for fault in view.seen.faults if fault.reason == entry.reason), None)
    if held is None and is_unexplained(view.seen, facts, entry.type):
        return None
    if held is not None and action_of(held, ctx.rules) is not Action.NONE:
        return None
    what = "has gone" if held is None else "is to be left alone"
    outcome = Outcome.CLEARED if held is None else Outcome.RELEASED
    return _begun_anew(entry, view, facts, ctx, what) or undo(entry, outcome, ctx.now, f"{entry.reason} {what}")


def _begun_anew(entry: Entry, view: View, facts: NodeFacts, ctx: Context, what: str) -> Step | None:
    """Go back to the fence for another fault that would be fenced at once: no pod may land there in between."""
    fault = chosen(view.judgement, ctx.body.tripped)
    if view.judgement.health is not Health.FAULTY or fault is None:
        return None
    if fault.fault_class not in FENCED_AT_ONCE or fault.reason in ctx.body.tripped:
        return None
    known = replace(
        entry,
        reason=fault.reason,
        class_=fault.fault_class,
        type=fault.type,
        action=fault.action,
        observed_at=fault.started,
        serial=serial_of(fault, facts),
        young=is_young(ctx.body, entry.group, fault, facts, entry.instance),
    )
    anew = entries.enter(
        known, State.FENCED, ctx.now, members=(), terminating_at=None, accepted=False, kind=None, blind_at=None
    )
    return Step(entry=anew, act=Act.FENCE, detail=f"{entry.reason} {what}, {fault.reason} is begun with anew")


def undo(entry: Entry, outcome: Outcome, now: datetime, detail: str) -> Step:
    """Close an entry and lift what it had put on the Node."""
    closed = entries.close(entry, outcome, now)
    return Step(entry=closed, act=Act.LIFT if entry.added else Act.NONE, detail=detail)


def _superseded(entry: Entry, now: datetime, detail: str, *, is_fence_there: bool) -> Step:
    if is_fence_there:
        return undo(entry, Outcome.SUPERSEDED, now, detail)
    return Step(entry=entries.close(entry, Outcome.SUPERSEDED, now, added=()), detail=detail)


def refused_by_operator(reason: str, ctx: Context) -> Wait | None:
    """Tell whether everything, or everything about a reason, is stopped."""
    if ctx.paused is not None:
        return Wait(why=Why.PAUSED, detail=ctx.paused, blocked=True)
    since = ctx.body.tripped.get(reason)
    if since is not None:
        detail = f"the breaker of {reason} tripped at {since:%Y-%m-%d %H:%M:%SZ}, until reset-breaker"
        return Wait(why=Why.BREAKER_TRIPPED, detail=detail, blocked=True)
    return None


def _sight(entry: Entry, view: View, ctx: Context) -> Step | Wait | None:
    """Hold what cannot be seen; what holds a slot needs only the Node's condition, and is not waited for for ever."""
    facts, judgement = view.facts, view.judgement
    if facts is not None and (doubt := doubts_identity(facts, view.seen)) is not None:
        return _unconfirmed(entry, doubt, ctx.now) if entries.holds_slot(entry) else doubt
    if _is_confirmed(entry, view):
        return _sees_again(entry, ctx.now)
    is_blind = view.seen is None or facts is None
    is_told = not is_blind and judgement.until is not None and ctx.now >= judgement.until
    why = Why.BLIND if is_blind else Why.DISAGREE
    detail = judgement.detail or f"metric and condition do not agree about {entry.reason}"
    doubt = Wait(why=why, detail=detail, until=judgement.until, blocked=is_told)
    return _unconfirmed(entry, doubt, ctx.now) if entries.holds_slot(entry) else doubt


def _is_confirmed(entry: Entry, view: View) -> bool:
    """Tell whether an entry may go on: with a slot for its own fault, without one for whatever is known then."""
    if not entries.holds_slot(entry):
        return view.seen is not None and view.facts is not None and view.judgement.health is not Health.DISAGREE
    if view.facts is None:
        return False
    if view.seen is None:
        return is_condition_true(view.facts, entry.type)
    return view.judgement.health is not Health.DISAGREE and stands(view.seen, view.facts, entry.type, entry.reason)


def _sees_again(entry: Entry, now: datetime) -> Step | None:
    if entry.blind_at is None:
        return None
    return Step(entry=replace(entry, blind_at=None, updated_at=now), detail="the fault is confirmed again")


def _unconfirmed(entry: Entry, doubt: Wait, now: datetime) -> Step | Wait:
    if entry.blind_at is None:
        return Step(entry=replace(entry, blind_at=now, updated_at=now), detail=doubt.detail)
    until = entry.blind_at + BLIND_LIMIT
    if now < until:
        return replace(doubt, until=until)
    text = f"not confirmed for {BLIND_LIMIT.seconds // 60} min ({doubt.detail}); the slot is free, the fence stays"
    return Step(entry=entries.close(entry, Outcome.STALLED, now), detail=text)


def _fence(entry: Entry, view: View, ctx: Context) -> Step | None:
    """Put the fence where it is not, or no more: a crash or somebody else came between ledger and Node."""
    if view.facts is None or entries.is_followed_only(entry) or is_tainted(view.facts):
        return None
    added = tuple(sorted({*entry.added, *missing_of_fence(view.facts)}))
    known = entry if set(added) == set(entry.added) else replace(entry, added=added, updated_at=ctx.now)
    return Step(entry=known, act=Act.FENCE, detail="the fence is not there")
