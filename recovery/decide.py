"""What is done about a node: from what is known of it, the policies, the ledger and the time. Pure.

Deciding twice is deciding once: nothing here remembers. Every refusal says who refuses, and until when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from recovery import entries
from recovery.admission import Case, admit, begin
from recovery.confirm import Health, chosen
from recovery.decision import Why
from recovery.guard import doubts_identity, guard, identity, is_enabled, is_opted_out, refused_by_operator
from recovery.model import State
from recovery.moves import Step, Wait
from recovery.remediators import other_remediator
from recovery.sequence import advance
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL, Action

if TYPE_CHECKING:
    from recovery.confirm import Judgement
    from recovery.model import Entry, NodeFacts
    from recovery.moves import Context, Move, View
    from recovery.standing import Found


def decide(entry: Entry | None, view: View, ctx: Context) -> Move:
    """Tell the next move about a node.

    Args:
        entry: its open entry; None = it has none.
        view: what is known of it.
        ctx: of the whole pass.
    """
    if entry is None:
        return _candidate(view, ctx)
    if entries.holds_slot(entry):
        return advance(entry, view, ctx)
    kept = guard(entry, view, ctx)
    if kept is not None:
        return kept
    case = _case(view, entry.instance, ctx)
    return case if isinstance(case, Wait) else _exhausted(case, ctx) or admit(entry, case, view.found, ctx)


def _case(view: View, instance: str | None, ctx: Context) -> Case | Wait:
    """Make the case that a node is, or tell what keeps its fault from being acted on as far as itself goes."""
    facts, fault = view.facts, chosen(view.judgement, ctx.body.tripped)
    if view.judgement.health is not Health.FAULTY:
        return _unready(view.judgement, ctx)
    if facts is None or fault is None:
        return Wait(why=Why.API_UNKNOWN, detail="the Node was not read")
    return Case(view.node, facts, fault, instance or identity(facts) or "")


def _exhausted(case: Case, ctx: Context) -> Wait | None:
    """Tell whether all that may be done about a fault has been done in vain."""
    if case.action(ctx) is not Action.NONE:
        return None
    return Wait(why=Why.NO_ACTION, detail=f"two reboots have not helped, and {case.fault.reason} never replaces")


def _unready(judgement: Judgement, ctx: Context) -> Wait:
    blocked = judgement.health is Health.DISAGREE and judgement.until is not None and ctx.now >= judgement.until
    whys = {
        Health.UNCONFIRMED: Why.CONFIRMING,
        Health.DISAGREE: Why.DISAGREE if blocked else Why.CONFIRMING,
        Health.BLIND: Why.BLIND,
    }
    why = whys.get(judgement.health, Why.NO_ACTION)
    until = None if blocked else judgement.until
    return Wait(why=why, detail=judgement.detail, until=until, blocked=blocked)


def _candidate(view: View, ctx: Context) -> Move:
    """Begin with a node, or say why not."""
    if view.unread is not None:
        return Wait(why=Why.API_UNKNOWN, detail=view.unread)
    case = _case(view, None, ctx)
    if isinstance(case, Wait):
        return case
    refusal = _left_alone(view, case.facts, ctx) or refused_by_operator(case.fault.reason, ctx) or _exhausted(case, ctx)
    if refusal is not None:
        return refusal
    return begin(case, view.found, ctx) if is_enabled(view.seen, ctx.rules) else _would(case, view.found, ctx)


def _left_alone(view: View, facts: NodeFacts, ctx: Context) -> Wait | None:
    """Tell why a node is none of our business."""
    ended = entries.final_of(ctx.body, identity(facts) or "")
    if ended is not None:
        return Wait(why=Why.ALREADY_DONE, detail=f"{ended.instance} was closed: {ended.outcome}")
    if is_opted_out(facts):
        return Wait(why=Why.OPTED_OUT, detail=f"label {RECOVERY_LABEL}={RECOVERY_DISABLED}", blocked=True)
    if view.seen is not None and view.seen.platform_repair:
        detail = "its detector publishes AcceleratedHardwareReady, so that the platform acts"
        return Wait(why=Why.DELEGATED_TO_PLATFORM, detail=detail, blocked=True)
    other = other_remediator(facts)
    if other is not None:
        return Wait(why=Why.OTHER_REMEDIATOR, detail=f"{other} acts on it", blocked=True)
    return doubts_identity(facts, view.seen)


def _would(case: Case, found: Found | None, ctx: Context) -> Move:
    """Decide the same where recovery is not enabled, and only write it down."""
    known = entries.would_of(ctx.body, case.node, case.fault.reason)
    if known is not None and known.state is State.ADMITTED:
        return Wait(why=Why.NOT_ENABLED, detail=f"would {known.action} {known.instance} of {known.group or 'no group'}")
    move = begin(case, found, ctx) if known is None else admit(known, case, found, ctx)
    if isinstance(move, Step):
        if move.blocks_group is not None:
            return Wait(why=Why.RECURS_AFTER_REPLACEMENT, detail=move.blocks_group, blocked=True)
        return Step(entry=replace(move.entry, would=True, added=()), detail=move.detail)
    return move
