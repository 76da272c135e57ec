"""How a node is begun with: fenced at once or when its turn comes, and given a slot. Pure.

Limits that the ledger knows come first, so that the cloud is not asked about what must wait anyway.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from recovery import entries
from recovery.budget import Refusal, refuses_any, refuses_fence, refuses_in, refuses_more_entries
from recovery.decision import Why
from recovery.guard import FENCED_AT_ONCE, missing_of_fence
from recovery.model import Entry, Outcome, State
from recovery.moves import Act, Need, Step, Wait
from recovery.rebooting import action_now
from recovery.sequence import refused
from recovery.standing import Found, Standing, stand
from recovery.storm import is_young, recurrences, serial_of
from runtime.vocabulary import Action

if TYPE_CHECKING:
    from recovery.confirm import Fault
    from recovery.model import NodeFacts
    from recovery.moves import Context, Move

_NAMED: Final = 3  # nodes in a sentence


class Case(NamedTuple):
    """A node with a confirmed fault, and whose machine it is."""

    node: str
    facts: NodeFacts
    fault: Fault
    instance: str

    def action(self, ctx: Context) -> Action:
        """Tell what is to be done now: reboots may have failed before."""
        return action_now(self.fault, ctx.body, self.instance, ctx.now)


def begin(case: Case, found: Found | None, ctx: Context) -> Move:
    """Begin with a node that has no entry: keep pods away from it if its fault is grave, else wait for a slot first."""
    fault = case.fault
    if fault.fault_class not in FENCED_AT_ONCE:
        return admit(None, case, found, ctx)
    if found is None:
        return Need.GROUP
    full = refuses_more_entries(ctx.body) or refuses_fence(ctx.body, found, case.node, ctx.rules.budget)
    if full is not None and (final := _in_no_group(None, case, found, ctx)) is not None:
        return final
    detail = f"{fault.fault_class}: {fault.reason} since {fault.started:%H:%M:%SZ}"
    fenced = Step(entry=_new_entry(case, found, ctx), act=Act.FENCE, detail=detail)
    return _recurs(None, case, found, ctx) or _blocked(full) or fenced


def admit(entry: Entry | None, case: Case, found: Found | None, ctx: Context) -> Move:
    """Give a slot to a node, if all limits and its group allow it.

    Args:
        entry: fenced already; None = it is fenced when its turn has come.
        case: the node and its fault.
        found: its group; None = not asked yet.
        ctx: of the whole pass.
    """
    refusal = _blocked(refuses_any(ctx.body, ctx.rules.budget, ctx.fleet, ctx.now))
    if refusal is not None or found is None:
        return refusal or Need.GROUP
    return (
        _recurs(entry, case, found, ctx)
        or _group_named(entry, found, ctx)
        or _group_keeps(entry, case, found, ctx)
        or _turn(case.fault, found, ctx)
        or _take(entry, case, found, ctx)
    )


def _blocked(refusal: Refusal | None) -> Wait | None:
    if refusal is None:
        return None
    return Wait(why=refusal.why, detail=refusal.detail, until=refusal.until, blocked=True)


def _recurs(entry: Entry | None, case: Case, found: Found, ctx: Context) -> Step | Wait | None:
    """Stop a group whose new machines break as the old ones did."""
    group, fault = found.name or "", case.fault
    if group in ctx.body.blocked_groups:
        return Wait(why=Why.RECURS_AFTER_REPLACEMENT, detail=ctx.body.blocked_groups[group], blocked=True)
    is_new = is_young(ctx.body, group, fault, case.facts, case.instance) if entry is None else entry.young
    before = recurrences(ctx.body, group, fault.reason, case.instance, ctx.now)
    if not (group and is_new and before):
        return None
    others = ", ".join(other.node for other in before[:_NAMED])
    why = (
        f"{Why.RECURS_AFTER_REPLACEMENT}: {fault.reason} on {case.node}, which is new, as on {others}: a job, an image "
        f"or a driver may do that to every new node. Until `resume --group {group}`"
    )
    held = entry or _new_entry(case, found, ctx)
    return Step(entry=held, detail=why, blocks_group=why)


def _group_named(entry: Entry | None, found: Found, ctx: Context) -> Step | None:
    """Write down a group that was not known when the node was fenced, or that it did not belong to then."""
    if entry is None or found.name in (None, entry.group) or (found.unknown is not None and entry.group):
        return None
    return Step(entry=replace(entry, group=found.name or "", updated_at=ctx.now), detail=f"it belongs to {found.name}")


def _group_keeps(entry: Entry | None, case: Case, found: Found, ctx: Context) -> Step | Wait | None:
    """Tell what the group says against it, or against one more."""
    budget, action = ctx.rules.budget, case.action(ctx)
    placed = stand(found, case.instance, action=action, respects_protection=budget.respect_scale_in_protection)
    if placed.standing in (Standing.WAIT, Standing.BLOCKED):
        return refused(placed)
    final = _in_no_group(entry, case, found, ctx)
    if final is not None:
        return final
    refusal = refuses_in(ctx.body, found, case.instance, budget)
    if refusal is None and entry is None:
        refusal = refuses_fence(ctx.body, found, case.node, budget)
    return _blocked(refusal)


def _in_no_group(entry: Entry | None, case: Case, found: Found, ctx: Context) -> Step | None:
    """Refuse for good what nobody would replace; a reboot needs no group."""
    if not found.absent or case.action(ctx) is Action.REBOOT:
        return None
    held = entry or replace(_new_entry(case, found, ctx), state=State.OBSERVED, fenced_at=None, added=())
    detail = f"{case.instance} is in no Auto Scaling group"
    return Step(entry=entries.close(held, Outcome.REFUSED, ctx.now), detail=detail)


def _turn(fault: Fault, found: Found, ctx: Context) -> Wait | Need | None:
    hold = fault.confirmed_at + timedelta(seconds=ctx.rules.hold_seconds)
    if ctx.now < hold:
        return Wait(why=Why.CONFIRMING, detail="waiting a random time, so that not all act at once", until=hold)
    return Need.GROUP_NOW if found.at != ctx.now else None


def _take(entry: Entry | None, case: Case, found: Found, ctx: Context) -> Step:
    """Fence, then admit with what is known now: a graver fault may have come since."""
    if entry is None:
        return Step(entry=_new_entry(case, found, ctx), act=Act.FENCE, detail="its turn has come")
    fault = case.fault
    known = replace(
        entry,
        way=found.way,
        reason=fault.reason,
        class_=fault.fault_class,
        type=fault.type,
        action=case.action(ctx),
        serial=serial_of(fault, case.facts) or entry.serial,
    )
    admitted = entries.enter(known, State.ADMITTED, ctx.now, admitted_at=ctx.now)
    return Step(entry=admitted, detail=f"{known.reason}, {known.class_}: {known.action} {known.instance}")


def _new_entry(case: Case, found: Found, ctx: Context) -> Entry:
    """Make the entry of a node that is about to be fenced."""
    fault, facts, instance, group = case.fault, case.facts, case.instance, found.name or ""
    entry = Entry(
        id=entries.new_id(ctx.body, instance, ctx.now),
        node=case.node,
        uid=facts.uid,
        instance=instance,
        group=group,
        reason=fault.reason,
        class_=fault.fault_class,
        action=case.action(ctx),
        state=State.OBSERVED,
        added=tuple(sorted({*entries.inherited(ctx.body, case.node), *missing_of_fence(facts)})),
        observed_at=fault.started,
        type=fault.type,
        way=found.way,
        provider_id=facts.provider_id,
        serial=serial_of(fault, facts),
        young=is_young(ctx.body, group, fault, facts, instance),
    )
    return entries.enter(entry, State.FENCED, ctx.now, fenced_at=ctx.now)
