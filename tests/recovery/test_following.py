"""What becomes of a machine that was given away: each answer of its group, and what is named or made again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from recovery.confirm import Health, Judgement
from recovery.decision import Kind, Why
from recovery.model import Group, Outcome, State, Way
from recovery.moves import Act, Need, Step, View, Wait
from recovery.policy import Budget, Rules
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL, Action
from tests.recovery.cases import (
    I1,
    I2,
    context,
    decided,
    entry,
    facts,
    faulty,
    found,
    gauge,
    given_away,
    group,
    member,
    outcome,
    seen,
    stepped,
    view,
    waits,
)
from tests.recovery.machines import SRAM, T0

_AGO = T0 - timedelta(minutes=30)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (found(group(member("Terminating", "Unhealthy"))), Why.TERMINATING),
        (found(group(member("InService", "Unhealthy"))), Why.TERMINATING),
        (found(group(member("Terminated", "Unhealthy"))), State.GONE),
        (found(group(desired=0)), State.GONE),
        (found(group(member("Terminating:Retained"))), Outcome.RETAINED),
        (found(group=None, unknown="throttled"), Why.CLOUD_UNKNOWN),
        (found(group=None, unknown="no", denied="autoscaling:X"), Why.ACCESS_DENIED),
        (found(group=None, absent=True), Outcome.GONE),
        (found(group=None, ended=True, way=Way.KARPENTER), Outcome.GONE),
        (found(group=None, ended=True, way=Way.NARROW), State.GONE),
        (found(group=None, way=Way.NARROW), Why.TERMINATING),
        (None, Need.FOLLOW),
    ],
)
def test_after_the_call_the_group_is_watched(answer: Any, expected: object) -> None:
    move = decided(given_away(), view(found=answer))
    entered = getattr(move, "entry", None)
    assert expected in (
        move,
        getattr(move, "why", None),
        getattr(entered, "outcome", None),
        getattr(entered, "state", None),
    )


@pytest.mark.parametrize(
    ("seconds", "looked", "expected"),
    [
        (29, view(), Why.TERMINATING),
        (30, view(), Act.MARK),
        (30, view(found=found(at=_AGO)), Need.GROUP_NOW),
        (30, view(judgement=Judgement(health=Health.HEALTHY)), Act.LIFT),
        (30, view(found=found(group(member("Standby")))), Why.STANDBY),
        (30, view(found=found(group(member("Pending")))), Why.INSTANCE_CHANGING),
    ],
)
def test_a_call_that_did_not_take_is_made_again_if_everything_still_speaks_for_it(
    seconds: int, looked: View, expected: object
) -> None:
    held = given_away(called_at=T0 - timedelta(seconds=seconds))
    move = decided(held, looked)
    assert expected in (move, getattr(move, "why", None), getattr(move, "act", None))


def test_a_newcomer_is_one_that_was_not_there_and_has_not_taken_anothers_place() -> None:
    held = given_away(State.GONE)
    old = group(desired=19)
    short = found(group(*old.members, desired=20, members=old.members))
    assert waits(decided(held, view(found=short)))[0] is Why.REPLACING
    fresh = member("InService", instance="i-new")
    came = found(group(desired=30, members=(*old.members[1:], fresh)))
    move = stepped(decided(held, view(found=came)))
    assert (move.entry.outcome, move.entry.replacement) == (Outcome.REPLACED, "i-new")
    assert (move.entry.state, move.entry.members) == (State.REPLACED, ())
    claimed = entry(State.REPLACED, id="e9", node="n9", outcome=Outcome.REPLACED, replacement="i-new")
    assert waits(decided(held, view(found=came), context(held, claimed)))[0] is Why.REPLACING
    unknown = given_away(State.GONE, members=())
    assert waits(decided(unknown, view(found=came)))[0] is Why.REPLACING
    narrow = found(way=Way.NARROW, group=None, running=frozenset({I2, "i-new"}))
    assert outcome(decided(held, view(found=narrow))) == (Outcome.REPLACED, Act.NONE)


def test_a_replacement_that_takes_too_long_gets_its_kind_once() -> None:
    held = given_away(State.GONE, terminating_at=T0 - timedelta(minutes=20))
    old = group(desired=19)
    answer = found(group(desired=20, members=old.members, failed_activity="no capacity"))
    move = stepped(decided(held, view(found=answer)))
    assert (move.entry.kind, move.entry.outcome) == (Kind.CAPACITY, None)
    assert waits(decided(move.entry, view(found=answer))) == (Why.REPLACEMENT_BLOCKED, True)
    unread = found(group(desired=20, members=old.members, activities_unread="throttled"))
    assert waits(decided(move.entry, view(found=unread))) == (Why.REPLACEMENT_BLOCKED, True)
    for kind in (None, Kind.SUSPENDED):
        changed = stepped(decided(replace(move.entry, kind=kind), view(found=unread)))
        assert changed.entry.kind == Kind.OTHER
        assert "throttled" in changed.detail
    nothing = found(group(desired=20, members=old.members))
    assert stepped(decided(move.entry, view(found=nothing))).entry.kind == Kind.OTHER
    early = given_away(State.GONE, terminating_at=None)
    waiting = decided(early, view(found=answer))
    assert isinstance(waiting, Wait)
    assert waiting.until is None


def test_what_is_forced_is_read_just_before() -> None:
    held = given_away(terminating_at=T0 - timedelta(minutes=21), kind=Kind.LAUNCH_FIRST_NO_SPARE)
    ctx = context(held, rules=Rules(budget=Budget(force_terminate=True)))
    stuck = group(member("InService", "Unhealthy"))
    assert decided(held, view(found=found(stuck, at=_AGO)), ctx) is Need.GROUP_NOW
    move = stepped(decided(held, view(found=found(stuck)), ctx))
    assert (move.act, move.entry.called_at) == (Act.FORCE, T0)
    paused = context(held, rules=ctx.rules, paused="x")
    assert waits(decided(held, view(found=found(stuck)), paused))[0] is Why.REPLACEMENT_BLOCKED


def test_a_mark_is_taken_back_where_a_suspended_process_would_let_it_kill_later() -> None:
    marked = group(member("InService", "Unhealthy"), suspended=("ReplaceUnhealthy",))
    move = stepped(decided(given_away(), view(found=found(marked))))
    assert (move.act, move.entry.unmarked_at) == (Act.UNMARK, T0)
    assert waits(decided(move.entry, view(found=found(marked))))[0] is Why.PROCESS_SUSPENDED
    later = context(now=T0 + timedelta(seconds=30))
    again = stepped(decided(move.entry, view(found=found(marked, at=later.now)), later))
    assert again.act is Act.UNMARK
    assert outcome(decided(move.entry, view(found=found()))) == (Outcome.FAILED, Act.NONE)
    resumed = stepped(decided(move.entry, view(found=found(group(member("InService", "Unhealthy"))))))
    assert (resumed.entry.unmarked_at, resumed.act) == (None, Act.NONE)


# Each at its edge.


def test_in_narrow_mode_the_end_of_the_machine_is_not_yet_a_replacement_with_karpenter_it_is_all() -> None:
    ended = found(group=None, ended=True, way=Way.NARROW)
    narrow = stepped(decided(given_away(way=Way.NARROW), view(found=ended))).entry
    assert (narrow.state, narrow.outcome) == (State.GONE, None)
    claim = stepped(
        decided(given_away(way=Way.KARPENTER), view(found=found(group=None, ended=True, way=Way.KARPENTER)))
    )
    assert (claim.entry.state, claim.entry.outcome) == (State.GONE, Outcome.GONE)
    deleted = stepped(decided(given_away(), view(found=found(group=None, absent=True, way=Way.NARROW))))
    assert deleted.entry.outcome is Outcome.GONE


@pytest.mark.parametrize(
    ("held", "deleting", "again"),
    [
        ({"accepted": False}, False, True),
        ({"accepted": False, "called_at": None}, False, True),
        ({"accepted": False, "called_at": T0 - timedelta(seconds=29)}, False, False),
        ({"accepted": False}, True, False),
        ({"accepted": True}, False, False),
    ],
)
def test_a_nodeclaim_is_asked_for_again_only_if_nobody_has_taken_the_call(
    held: dict[str, Any], deleting: bool, again: bool
) -> None:
    answer = found(group=None, way=Way.KARPENTER)
    move = decided(
        given_away(way=Way.KARPENTER, **held), view(facts=facts(fenced=True, deleting=deleting), found=answer)
    )
    assert (isinstance(move, Step) and move.act is Act.RELEASE_CLAIM) is again


def test_a_mark_is_not_taken_back_from_what_is_leaving_already() -> None:
    leaving = found(group(member("Terminating", "Unhealthy"), suspended=("ReplaceUnhealthy",)))
    assert waits(decided(given_away(), view(found=leaving)))[0] is Why.TERMINATING
    too_late = stepped(decided(given_away(unmarked_at=T0), view(found=leaving)))
    assert (too_late.entry.unmarked_at, too_late.entry.outcome, too_late.act) == (None, None, Act.NONE)


@pytest.mark.parametrize(
    ("held", "forced"),
    [
        ({}, True),
        ({"called_at": None}, False),
        ({"terminating_at": T0 - timedelta(minutes=19)}, False),
        ({"called_at": T0 - timedelta(seconds=29)}, False),
        ({"kind": Kind.CAPACITY}, False),
    ],
)
def test_force_is_used_after_the_time_limit_and_30_s_after_the_last_call(held: dict[str, Any], forced: bool) -> None:
    late: dict[str, Any] = {"terminating_at": T0 - timedelta(minutes=21), "kind": Kind.LAUNCH_FIRST_NO_SPARE}
    given = given_away(**(late | held))
    ctx = context(given, rules=Rules(budget=Budget(force_terminate=True)))
    move = decided(given, view(found=found(group(member("InService", "Unhealthy")))), ctx)
    assert (isinstance(move, Step) and move.act is Act.FORCE) is forced


def test_what_is_not_in_service_is_neither_named_as_launched_first_for_nor_forced() -> None:
    late: dict[str, Any] = {"terminating_at": T0 - timedelta(minutes=21)}
    standby = found(group(member("Standby", "Unhealthy")))
    named = stepped(decided(given_away(**late), view(found=standby)))
    assert named.entry.kind == Kind.OTHER
    assert "is Standby, Unhealthy" in named.detail
    given = given_away(kind=Kind.LAUNCH_FIRST_NO_SPARE, **late)
    ctx = context(given, rules=Rules(budget=Budget(force_terminate=True)))
    assert stepped(decided(given, view(found=standby), ctx)).act is Act.NONE


def test_sight_that_came_back_is_written_down_and_then_forced_and_what_is_unwanted_is_only_followed() -> None:
    given = given_away(kind=Kind.LAUNCH_FIRST_NO_SPARE, terminating_at=T0 - timedelta(minutes=21), blind_at=T0)
    ctx = context(given, rules=Rules(budget=Budget(force_terminate=True)))
    stuck = found(group(member("InService", "Unhealthy")))
    seen_again = stepped(decided(given, view(found=stuck), ctx))
    assert (seen_again.entry.blind_at, seen_again.act) == (None, Act.NONE)
    assert stepped(decided(seen_again.entry, view(found=stuck), ctx)).act is Act.FORCE
    for looked in (
        view(found=stuck, judgement=Judgement(health=Health.HEALTHY)),
        view(found=stuck, facts=facts(fenced=True, labels={RECOVERY_LABEL: RECOVERY_DISABLED})),
        view(found=stuck, seen=seen(faults=(gauge(SRAM),)), judgement=faulty(reason=SRAM)),
    ):
        assert waits(decided(given, looked, ctx)) == (Why.REPLACEMENT_BLOCKED, True)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"boot": None}, (State.DRAINED, None)),
        ({"boot": "b1", "reboots_failed": 1}, (State.TERMINATING, Outcome.FAILED)),
    ],
)
def test_a_reboot_whose_group_does_not_replace_it_after_all_is_no_replacement(
    held: dict[str, Any], expected: tuple[State, Outcome | None]
) -> None:
    going = given_away(action=Action.REBOOT, called_at=None, accepted=False, **held)
    looked = view(judgement=faulty(action=Action.REBOOT))
    step = stepped(decided(going, looked))
    assert (step.entry.state, step.entry.outcome) == expected
    assert (step.act, step.entry.members, step.entry.added) == (Act.NONE, (), going.added)
    if step.entry.outcome is None:
        assert step.entry.terminating_at is None
        assert stepped(decided(step.entry, looked)).act is Act.REBOOT
    narrow = found(group=None, way=Way.NARROW)
    assert stepped(decided(going, view(found=narrow))).act is Act.NONE


@pytest.mark.parametrize(
    ("state", "expected"), [("Standby", (Why.STANDBY, True)), ("Pending", (Why.INSTANCE_CHANGING, False))]
)
def test_a_repeated_call_waits_for_the_group_as_the_first_did(state: str, expected: tuple[Why, bool]) -> None:
    assert waits(decided(given_away(), view(found=found(group(member(state)))))) == expected


@pytest.mark.parametrize(("desired", "closes"), [(18, True), (19, True), (20, False)])
def test_a_group_that_has_all_it_wants_without_a_newcomer_has_replaced_nothing_but_is_done(
    desired: int, closes: bool
) -> None:
    others = tuple(each for each in group().members if each.instance != I1)
    smaller = found(Group(name="g", desired=desired, members=others))
    move = decided(given_away(State.GONE), view(found=smaller))
    assert getattr(getattr(move, "entry", None), "outcome", None) is (Outcome.GONE if closes else None)


@pytest.mark.parametrize("way", [Way.AUTOSCALING, Way.NARROW])
@pytest.mark.parametrize(("minutes", "closes"), [(19, False), (20, True), (None, True)])
def test_where_nobody_knows_whom_the_group_had_it_is_closed_after_the_time_limit(
    way: Way, minutes: int | None, closes: bool
) -> None:
    since = None if minutes is None else T0 - timedelta(minutes=minutes)
    held = given_away(State.GONE, members=(), way=way, terminating_at=since)
    running = frozenset({I2, "i-new"})
    short = found(group(member("Standby"), desired=20))
    answer = found(way=way, group=None, running=running) if way is Way.NARROW else short
    move = decided(held, view(found=answer))
    assert getattr(getattr(move, "entry", None), "outcome", None) is (Outcome.GONE if closes else None)
