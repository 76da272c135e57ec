"""The way of a reboot: the boot id proves it, Ready and the condition tell whether it helped. Pure.

RebootInstances is not idempotent, a second call is a second reboot: it is made once. Whether it was made is known from
its answer or the boot id; what was perhaps never made is not held against the machine. One that its group replaces
meanwhile is a success, too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from recovery import entries
from recovery.decision import Why
from recovery.guard import identity
from recovery.model import Outcome, State
from recovery.moves import Act, Need, Step, Wait
from recovery.policy import NEVER_REPLACES
from recovery.standing import Standing, is_unlisted, present, stand
from runtime.vocabulary import Action, Status

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.confirm import Fault
    from recovery.model import Entry, LedgerBody, NodeFacts
    from recovery.moves import Context, Move, View

REBOOT_LIMIT: Final = timedelta(minutes=15)
_FAILURES: Final = 2
_FAILURES_WITHIN: Final = timedelta(hours=24)


def action_now(fault: Fault, body: LedgerBody, instance: str, now: datetime) -> Action:
    """Tell what is to be done when reboots have failed before: after two in 24 h the machine is replaced.

    What is never replaced is left to people then.
    """
    action = fault.action
    if action is not Action.REBOOT:
        return action
    failed = sum(
        entry.reboots_failed
        for entry in body.entries
        if entry.instance == instance and entry.ended_at is not None and now - entry.ended_at < _FAILURES_WITHIN
    )
    if failed < _FAILURES:
        return action
    return Action.NONE if fault.reason == NEVER_REPLACES else Action.REPLACE


def follow_reboot(entry: Entry, view: View, ctx: Context) -> Move:
    """Tell the next move of an entry in `rebooting` or `returned`."""
    if entry.state is State.RETURNED:
        closed = entries.close(entry, Outcome.REBOOTED, ctx.now)
        return Step(entry=closed, act=Act.LIFT if entry.added else Act.NONE, detail="rebooted, ready, healthy")
    if view.facts is not None and (done := _is_back(entry, view.facts, ctx.now)) is not None:
        return done
    until = (entry.entered_at or ctx.now) + REBOOT_LIMIT
    is_over = ctx.now >= until or view.is_gone
    replaced = _replaced(entry, view, ctx) if is_over and view.unread is None else None
    return replaced or _awaited(entry, view, until, ctx)


def _awaited(entry: Entry, view: View, until: datetime, ctx: Context) -> Step | Wait:
    if ctx.now < until:
        return Wait(why=Why.REBOOTING, detail=_seen(entry, view), until=until)
    if view.unread is not None:
        return Wait(why=Why.API_UNKNOWN, detail=view.unread)
    failed = entries.close(entry, Outcome.FAILED, ctx.now, reboots_failed=int(_was_made(entry, view)))
    return Step(entry=failed, detail=f"not back within {REBOOT_LIMIT.seconds // 60} min: {_seen(entry, view)}")


def _was_made(entry: Entry, view: View) -> bool:
    """Tell whether the machine was rebooted: the call was accepted, or what its answer was the boot id has changed."""
    return entry.accepted or (view.facts is not None and view.facts.boot != entry.boot)


def _replaced(entry: Entry, view: View, ctx: Context) -> Step | Need | None:
    """Look whether its group replaces the machine."""
    found = view.found
    if found is None:
        return Need.FOLLOW
    placed = stand(found, entry.instance, action=Action.REBOOT, respects_protection=False)
    was_in_group = found.group is not None or view.is_gone  # what was never in one is just not back
    if placed.standing is not Standing.DOING and not (was_in_group and is_unlisted(found, entry.instance)):
        return None
    members = entry.members or present(found)
    made = int(_was_made(entry, view))
    going = entries.give_away(entry, members, ctx.now, called_at=None, reboots_failed=made)
    return Step(entry=going, detail="its group replaces it")


def _is_back(entry: Entry, facts: NodeFacts, now: datetime) -> Step | None:
    instance = identity(facts)
    if instance not in (None, entry.instance):
        closed = entries.close(entry, Outcome.REPLACED, now, replacement=instance)
        return Step(entry=closed, act=Act.LIFT if entry.added else Act.NONE, detail=f"the Node is now {instance}'s")
    if facts.boot != entry.boot and facts.ready and _condition(entry, facts) == Status.FALSE:
        return Step(entry=entries.enter(entry, State.RETURNED, now), detail=f"boot {facts.boot}")
    return None


def _condition(entry: Entry, facts: NodeFacts) -> str:
    return facts.conditions.get(entry.type, ("absent", "", ""))[0]


def _seen(entry: Entry, view: View) -> str:
    if view.facts is None:
        return view.unread or "the Node is gone"
    boot = "still the old boot" if view.facts.boot == entry.boot else "new boot"
    ready = "ready" if view.facts.ready else "not ready"
    return f"{boot}, {ready}, condition {entry.type} is {_condition(entry, view.facts)}"
