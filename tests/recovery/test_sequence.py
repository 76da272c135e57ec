"""One node's way, step by step: what each state asks for, what undoes it, what holds it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from recovery.confirm import Health, Judgement
from recovery.decision import Why
from recovery.model import CORDON, SCALE_DOWN_DISABLED, TAINT, FaultSeen, LedgerBody, Outcome, State, Way
from recovery.moves import Act, Context, Need, Step, View, Wait
from recovery.ports import DrainProgress
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL, Action, FaultClass
from tests.recovery.cases import (
    BLIND,
    I1,
    I2,
    I3,
    context,
    decided,
    entry,
    facts,
    faulty,
    found,
    given_away,
    group,
    member,
    outcome,
    seen,
    stepped,
    view,
    waits,
)
from tests.recovery.machines import DMA, HANG, SRAM, T0, TYPE

_BEFORE = [State.FENCED, State.ADMITTED, State.NOTIFIED, State.DRAINED]
_HOLDING = _BEFORE[1:]
_AFTER = [State.TERMINATING, State.GONE, State.REBOOTING]
_AGO = T0 - timedelta(minutes=30)
_REBOOT = faulty(action=Action.REBOOT)


# Before the machine is given away.


@pytest.mark.parametrize("state", _BEFORE)
@pytest.mark.parametrize(
    ("looked", "expected"),
    [
        (view(facts=facts(fenced=True, labels={RECOVERY_LABEL: RECOVERY_DISABLED})), (Outcome.RELEASED, Act.LIFT)),
        (view(seen=seen(enabled=False)), (Outcome.RELEASED, Act.LIFT)),
        (view(seen=seen(platform_repair=True)), (Outcome.RELEASED, Act.LIFT)),
        (view(judgement=Judgement(health=Health.HEALTHY)), (Outcome.CLEARED, Act.LIFT)),
        (view(facts=facts(fenced=True, uid="u2")), (Outcome.SUPERSEDED, Act.NONE)),
        (view(facts=facts(fenced=True, instance=I2)), (Outcome.SUPERSEDED, Act.LIFT)),
        (view(facts=facts(fenced=True, deleting=True)), (Outcome.SUPERSEDED, Act.NONE)),
    ],
)
def test_what_is_no_longer_wanted_is_undone_at_once_also_while_paused(
    state: State, looked: View, expected: tuple[Outcome, Act]
) -> None:
    for ctx in (context(), context(paused="x"), context(body=LedgerBody(tripped={DMA: T0}))):
        assert outcome(decided(entry(state), looked, ctx)) == expected


@pytest.mark.parametrize("state", _BEFORE)
@pytest.mark.parametrize(
    ("looked", "ctx", "why"),
    [
        (view(), context(paused="x"), Why.PAUSED),
        (view(), context(body=LedgerBody(tripped={DMA: T0})), Why.BREAKER_TRIPPED),
    ],
)
def test_what_may_be_wanted_again_is_held_where_it_is(state: State, looked: View, ctx: Context, why: Why) -> None:
    assert waits(decided(entry(state), looked, ctx)) == (why, True)


@pytest.mark.parametrize("state", _BEFORE)
@pytest.mark.parametrize(
    ("looked", "why"),
    [
        (view(facts=facts(fenced=True, provider_instance=I2)), Why.IDENTITY_MISMATCH),
        (view(facts=facts(fenced=True, instance=None)), Why.INSTANCE_UNKNOWN),
        (view(seen=seen(instance=I2)), Why.IDENTITY_MISMATCH),
    ],
)
def test_a_machine_in_doubt_is_held_and_keeps_a_slot_for_15_minutes(state: State, looked: View, why: Why) -> None:
    held = entry(state) if state is State.FENCED else entry(state, blind_at=T0)
    assert waits(decided(held, looked)) == (why, True)
    if state is State.FENCED:
        return
    assert stepped(decided(entry(state), looked)).entry.blind_at == T0
    over = stepped(decided(held, looked, context(now=T0 + timedelta(minutes=15))))
    assert (over.entry.outcome, over.act, over.entry.added) == (Outcome.STALLED, Act.NONE, held.added)


@pytest.mark.parametrize("state", [*_AFTER[:2], State.REBOOTING])
def test_what_was_given_away_is_only_followed(state: State) -> None:
    held = given_away(state, entered_at=T0)
    for looked in (
        view(judgement=Judgement(health=Health.HEALTHY)),
        view(facts=facts(fenced=True, labels={RECOVERY_LABEL: RECOVERY_DISABLED})),
        view(seen=seen(enabled=False)),
    ):
        gone = found(group(member("Terminating", "Unhealthy"), desired=20))
        move = decided(held, view(facts=looked.facts, seen=looked.seen, found=gone), context(held, paused="x"))
        assert isinstance(move, Wait)
        assert move.why in (Why.TERMINATING, Why.REPLACING, Why.REBOOTING)


def test_faults_that_nothing_is_to_be_done_about_clear_or_release() -> None:
    def looked(reason: str) -> View:
        left = FaultSeen(type=TYPE, reason=reason, fault_class=FaultClass.SUSPECT, action=Action.NONE, since=T0)
        return view(seen=seen(faults=(left,)), judgement=Judgement(health=Health.IGNORED))

    assert outcome(decided(entry(), looked(HANG))) == (Outcome.CLEARED, Act.LIFT)
    assert outcome(decided(entry(), looked(DMA))) == (Outcome.RELEASED, Act.LIFT)


def test_an_entry_that_added_nothing_has_nothing_to_lift() -> None:
    assert outcome(decided(entry(added=()), view(seen=seen(enabled=False)))) == (Outcome.RELEASED, Act.NONE)


@pytest.mark.parametrize("state", _BEFORE)
def test_a_fence_that_is_not_there_is_put_there_and_the_ledger_says_what_that_adds(state: State) -> None:
    held = entry(state, added=(TAINT,))
    move = stepped(decided(held, view(facts=facts(unschedulable=True))))
    assert (move.act, move.entry.state, move.entry.added) == (Act.FENCE, state, (SCALE_DOWN_DISABLED, TAINT))
    assert CORDON not in move.entry.added


def test_a_fenced_node_that_has_gone_is_let_go() -> None:
    move = decided(entry(), view(facts=None, is_gone=True, judgement=BLIND))
    assert outcome(move) == (Outcome.SUPERSEDED, Act.NONE)
    assert isinstance(move, Step)
    assert move.entry.added == ()


# Blind.


def test_what_has_no_slot_just_waits_for_sight() -> None:
    assert waits(decided(entry(), view(seen=None, judgement=BLIND))) == (Why.BLIND, False)
    doubt = Judgement(health=Health.DISAGREE, detail="x", until=T0)
    assert waits(decided(entry(), view(judgement=doubt))) == (Why.DISAGREE, True)
    soon = Judgement(health=Health.DISAGREE, detail="x", until=T0 + timedelta(seconds=1))
    assert waits(decided(entry(), view(judgement=soon))) == (Why.DISAGREE, False)


@pytest.mark.parametrize("state", _HOLDING)
def test_what_holds_a_slot_goes_on_with_the_condition_alone(state: State) -> None:
    move = decided(entry(state), view(seen=None, judgement=BLIND))
    assert isinstance(move, Step | Need) or move.why is Why.DRAINING


@pytest.mark.parametrize("state", _HOLDING)
@pytest.mark.parametrize(
    "looked",
    [
        view(seen=None, judgement=BLIND, facts=facts(fenced=True, conditions={TYPE: ("Unknown", "", "")})),
        view(judgement=Judgement(health=Health.DISAGREE, detail="x", until=T0)),
        view(is_gone=True, facts=None, judgement=BLIND),
    ],
)
def test_without_it_the_slot_is_free_after_15_minutes_and_the_fence_stays(state: State, looked: View) -> None:
    first = stepped(decided(entry(state), looked))
    assert (first.entry.blind_at, first.entry.state, first.act) == (T0, state, Act.NONE)
    waiting = decided(first.entry, looked, context(now=T0 + timedelta(minutes=14)))
    assert isinstance(waiting, Wait)
    assert waiting.until == T0 + timedelta(minutes=15)
    over = decided(first.entry, looked, context(now=T0 + timedelta(minutes=15)))
    assert outcome(over) == (Outcome.STALLED, Act.NONE)
    assert isinstance(over, Step)
    assert over.entry.added == entry().added
    again = stepped(decided(first.entry, view()))
    assert again.entry.blind_at is None


def test_a_machine_whose_node_has_gone_is_followed_if_its_group_says_it_is_going() -> None:
    looked = view(is_gone=True, facts=None, judgement=BLIND)
    assert decided(entry(State.NOTIFIED), view(is_gone=True, facts=None, found=None)) is Need.FOLLOW
    for answer in (
        found(group(member("Terminating"))),
        found(group(desired=0)),
        found(group=None, absent=True),
        found(group=None, ended=True, way=Way.KARPENTER),
    ):
        move = decided(entry(State.NOTIFIED), view(is_gone=True, facts=None, judgement=BLIND, found=answer))
        assert isinstance(move, Step)
        assert (move.entry.state, move.act, move.entry.called_at) == (State.TERMINATING, Act.NONE, None)
    throttled = found(group=None, unknown="throttled")
    move = stepped(decided(entry(State.NOTIFIED), view(is_gone=True, facts=None, judgement=BLIND, found=throttled)))
    assert move.entry.blind_at == T0
    assert looked.facts is None


# Admitted, drained, given away.


@pytest.mark.parametrize(
    ("looked", "expected"),
    [
        (view(progress=None), Need.DRAIN),
        (view(progress=DrainProgress(left=("a/b",), blocked={"a/b": "budget"})), Why.DRAINING),
        (view(progress=DrainProgress(left=("a/1", "a/2", "a/3", "a/4"), blocked={})), Why.DRAINING),
        (view(drain_trouble="no answer"), Why.DRAINING),
        (view(progress=DrainProgress(left=(), blocked={})), State.DRAINED),
    ],
)
def test_a_drain_goes_on_until_no_pod_is_left_or_its_time_is_over(looked: View, expected: object) -> None:
    held = entry(State.NOTIFIED, class_=FaultClass.POISONED)
    move = decided(held, looked)
    assert expected in (move, getattr(move, "why", None), getattr(getattr(move, "entry", None), "state", None))
    over = stepped(decided(held, looked, context(now=T0 + timedelta(minutes=5))))
    assert over.entry.state is State.DRAINED


def test_a_dead_node_is_not_drained() -> None:
    admitted = stepped(decided(entry(State.ADMITTED), view()))
    assert "no time is given" in admitted.detail
    move = stepped(decided(entry(State.NOTIFIED), view(progress=None)))
    assert move.entry.state is State.DRAINED
    poisoned = stepped(decided(entry(State.ADMITTED, class_=FaultClass.POISONED), view()))
    assert "at most 5m" in poisoned.detail


@pytest.mark.parametrize(
    ("way", "answer", "act"),
    [
        (Way.AUTOSCALING, found(), Act.MARK),
        (Way.NARROW, found(way=Way.NARROW, group=None, running=frozenset({I1, I3})), Act.MARK),
        (Way.KARPENTER, found(way=Way.KARPENTER, group=None), Act.RELEASE_CLAIM),
    ],
)
def test_the_call_is_written_down_with_whom_the_group_has_before_it_is_made(way: Way, answer: Any, act: Act) -> None:
    move = stepped(decided(entry(State.DRAINED, way=way), view(found=answer)))
    assert (move.act, move.entry.state, move.entry.way) == (act, State.TERMINATING, way)
    assert (move.entry.called_at, move.entry.terminating_at, move.entry.accepted) == (T0, T0, False)
    assert I1 in move.entry.members
    assert len(move.entry.members) == {Way.AUTOSCALING: 20, Way.NARROW: 2, Way.KARPENTER: 1}[way]


def test_a_drained_node_waits_for_its_group_as_a_fenced_one_does() -> None:
    held = entry(State.DRAINED)
    assert decided(held, view(found=None)) is Need.GROUP
    assert decided(held, view(found=found(at=_AGO))) is Need.GROUP_NOW
    assert waits(decided(held, view(found=found(group(member("Standby")))))) == (Why.STANDBY, True)
    assert waits(decided(held, view(found=found(group(member("Pending")))))) == (Why.INSTANCE_CHANGING, False)
    nowhere = found(group=None, absent=True)
    assert outcome(decided(held, view(found=nowhere))) == (Outcome.REFUSED, Act.NONE)
    denied = entry(State.DRAINED, called_at=T0 - timedelta(seconds=29))
    assert waits(decided(denied, view())) == (Why.CLOUD_UNKNOWN, True)
    assert isinstance(decided(entry(State.DRAINED, called_at=T0 - timedelta(seconds=30)), view()), Step)


def test_a_reboot_is_written_down_with_the_boot_it_ends() -> None:
    held = entry(State.DRAINED, action=Action.REBOOT)
    for answer in (found(), found(group=None, absent=True)):
        move = decided(held, view(found=answer, judgement=faulty(action=Action.REBOOT)))
        assert isinstance(move, Step)
        assert (move.act, move.entry.state, move.entry.boot) == (Act.REBOOT, State.REBOOTING, "b1")
    graver = stepped(decided(held, view(judgement=faulty(reason=SRAM, fault_class=FaultClass.POISONED))))
    assert (graver.entry.action, graver.entry.reason, graver.act) == (Action.REPLACE, SRAM, Act.NONE)
    assert isinstance(decided(held, view(seen=None, judgement=BLIND)), Step)


def test_whom_the_group_has_before_a_reboot_is_remembered_and_it_counts_as_made_when_that_is_known() -> None:
    step = stepped(decided(entry(State.DRAINED, action=Action.REBOOT, accepted=True), view(judgement=_REBOOT)))
    assert len(step.entry.members) == 20
    assert step.entry.accepted is False


@pytest.mark.parametrize("action", [Action.REPLACE, Action.REBOOT])
def test_a_machine_that_belongs_to_another_group_now_asks_for_a_slot_of_that_one(action: Action) -> None:
    other_group = found(replace(group(), name="h"))
    step = stepped(decided(entry(State.DRAINED, action=action), view(found=other_group, judgement=_REBOOT)))
    assert (step.entry.group, step.entry.state, step.act) == ("h", State.FENCED, Act.NONE)
    unsure = found(group=None, unknown="h does not list it, so far", name="h")
    assert waits(decided(entry(State.DRAINED), view(found=unsure))) == (Why.CLOUD_UNKNOWN, True)
    assert waits(decided(entry(), view(found=unsure))) == (Why.CLOUD_UNKNOWN, True)
    named = stepped(decided(entry(), view(found=other_group)))
    assert (named.entry.group, named.entry.state) == ("h", State.FENCED)
