"""One node's way after its machine was given away: watched until it is over, or what holds it up has a name. Pure.

Both orders are right: terminate first, or launch first. A call is repeated only if a later answer shows that it did not
take, and then only if everything still speaks for it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from recovery import entries
from recovery.decision import Kind, Why
from recovery.guard import guard
from recovery.hindrance import hindrance
from recovery.model import Outcome, State, Way
from recovery.moves import CALL_AGAIN, Act, Need, Step, Wait
from recovery.rebooting import follow_reboot
from recovery.standing import (
    RETAINED,
    Standing,
    blocks_mark,
    has_ended,
    is_leaving,
    is_marked,
    is_serving,
    member_of,
    stand,
)
from runtime.vocabulary import Action

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.model import Entry, Group, Member
    from recovery.moves import Context, Move, View
    from recovery.policy import Rules
    from recovery.standing import Found


def follow(entry: Entry, view: View, ctx: Context) -> Move:
    """Tell the next move of an entry whose machine was given away."""
    if entry.state in (State.REBOOTING, State.RETURNED):
        return follow_reboot(entry, view, ctx)
    found = view.found
    if found is None:
        return Need.FOLLOW
    if found.unknown is not None:
        why = Why.ACCESS_DENIED if found.denied else Why.CLOUD_UNKNOWN
        return Wait(why=why, detail=found.unknown, blocked=True)
    if entry.state is State.GONE:
        return _replaced(entry, found, ctx)
    if found.group is None:
        return _unlisted(entry, view, found, ctx)
    return _listed(entry, view, found, found.group, ctx)


def is_overdue(entry: Entry, rules: Rules, now: datetime) -> bool:
    """Tell whether a replacement has taken longer than it may."""
    limit = timedelta(seconds=rules.budget.replacement_timeout.seconds)
    return entry.terminating_at is not None and now - entry.terminating_at >= limit


def _gone(entry: Entry, ctx: Context, detail: str) -> Step:
    return Step(entry=entries.enter(entry, State.GONE, ctx.now), detail=detail)


def _unlisted(entry: Entry, view: View, found: Found, ctx: Context) -> Move:
    """Follow where no group lists the machine: Karpenter, narrow mode, or a group that was deleted."""
    if found.ended or found.absent:
        if found.way is Way.NARROW and not found.absent:
            return _gone(entry, ctx, f"{entry.instance} is terminated")
        detail = f"the NodeClaim of {entry.node} is gone" if found.ended else f"group {entry.group} is gone"
        gone = entries.enter(entry, State.GONE, ctx.now)
        return Step(entry=entries.close(gone, Outcome.GONE, ctx.now), detail=detail)
    is_going = view.facts is not None and view.facts.deleting
    if not entry.accepted and not is_going and _may_call_again(entry, ctx.now):
        return _call_again(entry, view, found, ctx)
    return _waiting(entry, found, ctx, f"{entry.instance} is not gone yet")


def _listed(entry: Entry, view: View, found: Found, group: Group, ctx: Context) -> Move:
    """Follow a member of a group."""
    member = member_of(group, entry.instance)
    if member is None or has_ended(member):
        return _gone(entry, ctx, f"{group.name} answers without {entry.instance}")
    if member.state.lower() == RETAINED:
        detail = (
            f"{member.instance} is {member.state}: it left {group.name}, is billed and has to be ended by whoever set "
            "the group's InstanceLifecyclePolicy to retain"
        )
        return Step(entry=entries.close(entry, Outcome.RETAINED, ctx.now), detail=detail)
    if entry.unmarked_at is not None:
        return _unmarked(entry, entry.unmarked_at, member, group, ctx)
    if is_leaving(member) or is_marked(member):
        return _going(entry, view, found, member, ctx)
    if not _may_call_again(entry, ctx.now):
        return _waiting(entry, found, ctx, f"{member.instance} is {member.state}, {member.health}")
    return _call_again(entry, view, found, ctx)


def _may_call_again(entry: Entry, now: datetime) -> bool:
    return entry.called_at is None or now >= entry.called_at + CALL_AGAIN


def _going(entry: Entry, view: View, found: Found, member: Member, ctx: Context) -> Move:
    """Follow a member that is marked, or on its way out."""
    suspended = [] if found.group is None else blocks_mark(found.group)
    if suspended and entry.called_at is not None and not is_leaving(member):
        unmarked = replace(entry, unmarked_at=ctx.now, updated_at=ctx.now)
        detail = f"{', '.join(suspended)} suspended in {entry.group}: the mark would kill it when that is resumed"
        return Step(entry=unmarked, act=Act.UNMARK, detail=detail)
    return _forced(entry, view, found, ctx) or _waiting(
        entry, found, ctx, f"{member.instance} is {member.state}, {member.health}"
    )


def _forced(entry: Entry, view: View, found: Found, ctx: Context) -> Move | None:
    """Terminate what a group launches first for without a spare, if an operator has allowed that.

    Only what was marked here: another's mark is another's business. What the guard would undo is followed all the
    same, since the group is about to replace it; what it wants written down comes first.
    """
    stuck = entry.kind == Kind.LAUNCH_FIRST_NO_SPARE == hindrance(entry, found)[0]
    stuck = stuck and entry.called_at is not None and is_overdue(entry, ctx.rules, ctx.now)
    if not (stuck and ctx.rules.budget.force_terminate and _may_call_again(entry, ctx.now)):
        return None
    kept = guard(entry, view, ctx)
    if kept is not None:
        goes_on = isinstance(kept, Step) and (kept.entry.state, kept.entry.outcome) == (entry.state, None)
        return kept if goes_on else None
    if found.at != ctx.now:
        return Need.GROUP_NOW
    forced = replace(entry, called_at=ctx.now, updated_at=ctx.now)
    return Step(entry=forced, act=Act.FORCE, detail=f"terminating {entry.instance} in {entry.group} without decrement")


def _unmarked(entry: Entry, since: datetime, member: Member, group: Group, ctx: Context) -> Move:
    """See a mark taken back through."""
    if not is_marked(member):
        failed = entries.close(entry, Outcome.FAILED, ctx.now)
        return Step(entry=failed, detail=f"{group.name} cannot replace now; {member.instance} is {member.health} again")
    if not blocks_mark(group) or is_leaving(member):
        resumed = replace(entry, unmarked_at=None, updated_at=ctx.now)
        return Step(entry=resumed, detail=f"{group.name} replaces again")
    if ctx.now < since + CALL_AGAIN:
        return Wait(why=Why.PROCESS_SUSPENDED, detail="taking the mark back", until=since + CALL_AGAIN)
    again = replace(entry, unmarked_at=ctx.now, updated_at=ctx.now)
    return Step(entry=again, act=Act.UNMARK, detail=f"{member.instance} is still {member.health}")


def _call_again(entry: Entry, view: View, found: Found, ctx: Context) -> Move:
    """Repeat a call that did not take, if everything still speaks for it."""
    kept = guard(entry, view, ctx)
    if kept is not None:
        return kept
    if entry.action is Action.REBOOT:
        return _not_replaced_after_all(entry, ctx)
    respects = ctx.rules.budget.respect_scale_in_protection
    placed = stand(found, entry.instance, action=entry.action, respects_protection=respects)
    if placed.standing is not Standing.GO:
        return Wait(why=placed.why, detail=placed.detail, blocked=placed.standing is Standing.BLOCKED)
    if found.at != ctx.now:
        return Need.GROUP_NOW
    again = replace(entry, called_at=ctx.now, accepted=False, updated_at=ctx.now)
    act = Act.RELEASE_CLAIM if entry.way is Way.KARPENTER else Act.MARK
    return Step(entry=again, act=act, detail="called again: the last call did not take")


def _not_replaced_after_all(entry: Entry, ctx: Context) -> Step:
    """Go on with a reboot: a group that had seemed to replace the machine does not."""
    detail = f"{entry.group or 'its group'} does not replace it after all"
    if entry.boot is not None:
        return Step(entry=entries.close(entry, Outcome.FAILED, ctx.now), detail=f"rebooted, not back, and {detail}")
    back = entries.enter(entry, State.DRAINED, ctx.now, terminating_at=None, members=(), kind=None)
    return Step(entry=back, detail=detail)


def _replaced(entry: Entry, found: Found, ctx: Context) -> Move:
    """Look for the newcomer."""
    if found.group is None and found.way is not Way.NARROW:
        return Step(entry=entries.close(entry, Outcome.GONE, ctx.now), detail=f"group {entry.group} is gone")
    newcomers = _newcomers(entry, found, ctx)
    if newcomers:
        closed = entries.close(entry, Outcome.REPLACED, ctx.now, replacement=newcomers[0], kind=None)
        return Step(entry=closed, detail=f"{newcomers[0]} is in service")
    if found.group is not None and _serving(found.group) >= found.group.desired:
        closed = entries.close(entry, Outcome.GONE, ctx.now, kind=None)
        return Step(entry=closed, detail=f"{found.group.name} has its {found.group.desired} instances without it")
    if not entry.members and (entry.terminating_at is None or is_overdue(entry, ctx.rules, ctx.now)):
        closed = entries.close(entry, Outcome.GONE, ctx.now, kind=None)
        return Step(entry=closed, detail=f"nobody knows any more which instance of {entry.group} is new")
    return _waiting(entry, found, ctx, f"no new instance in {entry.group} yet")


def _newcomers(entry: Entry, found: Found, ctx: Context) -> list[str]:
    """List who is in service that was not there before and has not taken another's place."""
    if not entry.members:
        return []  # a copy of the entry on its Node leaves them out if they are many
    if found.group is None:
        serving = set(found.running)
    else:
        serving = {member.instance for member in found.group.members if is_serving(member)}
    claimed = {other.replacement for other in ctx.body.entries if other.id != entry.id}
    return sorted(serving - set(entry.members) - claimed - {entry.instance})


def _serving(group: Group) -> int:
    return sum(is_serving(member) for member in group.members)


def _waiting(entry: Entry, found: Found, ctx: Context, detail: str) -> Step | Wait:
    """Wait, or give what holds it up a name once it has taken too long."""
    if not is_overdue(entry, ctx.rules, ctx.now):
        limit = timedelta(seconds=ctx.rules.budget.replacement_timeout.seconds)
        until = None if entry.terminating_at is None else entry.terminating_at + limit
        why = Why.REPLACING if entry.state is State.GONE else Why.TERMINATING
        return Wait(why=why, detail=detail, until=until)
    kind, words = hindrance(entry, found)
    text = f"{kind}: {words or detail}"
    if entry.kind != kind:
        return Step(entry=replace(entry, kind=kind, updated_at=ctx.now), detail=text)
    return Wait(why=Why.REPLACEMENT_BLOCKED, detail=text, blocked=True)
