"""One node's way from `admitted` until its machine is given away. Pure.

`admitted -> notified -> drained -> terminating` or `rebooting`; what comes after is in following.py. Each step is asked
for with the entry to write first, and taking it again after a crash does no harm.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from recovery import entries
from recovery.confirm import Health
from recovery.decision import Why
from recovery.following import follow
from recovery.guard import guard
from recovery.model import Outcome, State, Way
from recovery.moves import CALL_AGAIN, Act, Need, Step, Wait
from recovery.standing import Standing, is_unlisted, present, stand
from runtime.vocabulary import Action

if TYPE_CHECKING:
    from recovery.model import Entry
    from recovery.moves import Context, Move, View
    from recovery.standing import Found, Stand

_NAMED = 3  # pods in a sentence


def advance(entry: Entry, view: View, ctx: Context) -> Move:
    """Tell the next move of an open entry that holds a slot."""
    if entries.is_followed_only(entry):
        return follow(entry, view, ctx)
    if view.is_gone and (move := _gone_before(entry, view, ctx)) is not None:
        return move
    kept = guard(entry, view, ctx)
    if kept is not None:
        return kept
    if entry.state is State.ADMITTED:
        return Step(entry=entries.enter(entry, State.NOTIFIED, ctx.now), detail=_drain_announced(entry, ctx))
    if entry.state is State.NOTIFIED:
        return _drain(entry, view, ctx)
    return _graver(entry, view, ctx) or _give_away(entry, view, ctx)


def _gone_before(entry: Entry, view: View, ctx: Context) -> Move | None:
    """Look whether somebody else is taking a machine away whose Node is gone already."""
    if view.found is None:
        return Need.FOLLOW
    is_done = _stand(entry, view.found, ctx).standing is Standing.DOING
    if is_done or is_unlisted(view.found, entry.instance):
        return _followed(entry, view.found, ctx, "the Node is gone, its machine is going or gone")
    return None


def _graver(entry: Entry, view: View, ctx: Context) -> Step | None:
    """Replace what was to be rebooted if a fault has come that no reboot ends."""
    fault = view.judgement.fault
    if fault is None or view.judgement.health is not Health.FAULTY or entry.action is not Action.REBOOT:
        return None
    if fault.action is not Action.REPLACE:
        return None
    graver = replace(
        entry, reason=fault.reason, type=fault.type, class_=fault.fault_class, action=fault.action, updated_at=ctx.now
    )
    return Step(entry=graver, detail=f"{fault.reason} has come: no reboot ends that")


def _drain_announced(entry: Entry, ctx: Context) -> str:
    timeout = ctx.rules.drain_timeout(entry.reason, entry.class_)
    return f"evicting pods for at most {timeout}" if timeout.seconds else "not drained: no time is given to it"


def _drain(entry: Entry, view: View, ctx: Context) -> Move:
    timeout = timedelta(seconds=ctx.rules.drain_timeout(entry.reason, entry.class_).seconds)
    until = (entry.entered_at or ctx.now) + timeout
    if ctx.now >= until:
        detail = "drain timeout is over" if timeout else "no time is given to a drain"
        return Step(entry=entries.enter(entry, State.DRAINED, ctx.now), detail=detail)
    if view.drain_trouble is not None:
        return Wait(why=Why.DRAINING, detail=view.drain_trouble, until=until)
    if view.progress is None:
        return Need.DRAIN
    if not view.progress.left:
        return Step(entry=entries.enter(entry, State.DRAINED, ctx.now), detail="no pod is left that has to go")
    return Wait(why=Why.DRAINING, detail=_pods_left(view.progress.left, view.progress.blocked), until=until)


def _pods_left(left: tuple[str, ...], blocked: dict[str, str]) -> str:
    named = ", ".join(left[:_NAMED]) + (", ..." if len(left) > _NAMED else "")
    refused = "".join(f"; {pod}: {words}" for pod, words in list(blocked.items())[:_NAMED])
    return f"{len(left)} pods left: {named}{refused}"


def _give_away(entry: Entry, view: View, ctx: Context) -> Move:
    """Let others have the machine, if its group stands so that this is right now."""
    if entry.called_at is not None and ctx.now < entry.called_at + CALL_AGAIN:
        until = entry.called_at + CALL_AGAIN
        detail = "the last call was not made"
        return Wait(why=Why.CLOUD_UNKNOWN, detail=detail, until=until, blocked=True, unmade=True)
    if view.found is None:
        return Need.GROUP
    return _moved(entry, view.found, ctx) or _as_it_stands(entry, view, view.found, ctx)


def _moved(entry: Entry, found: Found, ctx: Context) -> Step | None:
    """Go back to the fence if the machine belongs to another group now: that one's budget has not been asked."""
    if found.unknown is not None or found.name in (None, entry.group):
        return None
    moved = entries.enter(replace(entry, group=found.name or ""), State.FENCED, ctx.now)
    return Step(entry=moved, detail=f"it belongs to {found.name} now")


def _as_it_stands(entry: Entry, view: View, found: Found, ctx: Context) -> Move:
    placed = _stand(entry, found, ctx)
    if placed.standing is Standing.DOING:
        return _followed(entry, found, ctx, f"already being done: {placed.detail}")
    if placed.standing is Standing.ABSENT and entry.action is not Action.REBOOT:
        return Step(entry=entries.close(entry, Outcome.REFUSED, ctx.now), detail=placed.detail)
    if placed.standing not in (Standing.GO, Standing.ABSENT):
        return refused(placed)
    is_fresh = found.at == ctx.now
    return _handed_over(entry, view, found, ctx, placed.detail) if is_fresh else Need.GROUP_NOW


def refused(placed: Stand) -> Wait:
    """Say why a group does not let an instance go."""
    unknown = (Why.CLOUD_UNKNOWN, Why.ACCESS_DENIED)
    is_blocked = placed.standing is Standing.BLOCKED or placed.why in unknown
    return Wait(why=placed.why, detail=placed.detail, blocked=is_blocked)


def _stand(entry: Entry, found: Found, ctx: Context) -> Stand:
    respects = ctx.rules.budget.respect_scale_in_protection
    return stand(found, entry.instance, action=entry.action, respects_protection=respects)


def _handed_over(entry: Entry, view: View, found: Found, ctx: Context, said: str) -> Step:
    """Make the call that replaces or reboots, the time of it written first so that a crash cannot make two.

    Whom the group has is remembered for a reboot, too: when it turns out that the group replaces the machine instead,
    the newcomer is there already.
    """
    if entry.action is Action.REBOOT:
        boot = None if view.facts is None else view.facts.boot
        known = replace(entry, boot=boot, members=tuple(sorted({*present(found), entry.instance})), way=found.way)
        rebooting = entries.enter(known, State.REBOOTING, ctx.now, called_at=ctx.now, accepted=False, kind=None)
        return Step(entry=rebooting, act=Act.REBOOT, detail=said or f"reboot of {entry.instance}")
    going = entries.give_away(entry, present(found), ctx.now, called_at=ctx.now, way=found.way)
    act = Act.RELEASE_CLAIM if found.way is Way.KARPENTER else Act.MARK
    return Step(entry=going, act=act, detail=said or f"replacement of {entry.instance} in {entry.group}")


def _followed(entry: Entry, found: Found, ctx: Context, detail: str) -> Step:
    going = entries.give_away(entry, present(found), ctx.now, called_at=None, way=found.way)
    return Step(entry=going, detail=detail)
