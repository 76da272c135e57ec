"""What is decided about a node: each thing that speaks against it, in the order in which it is looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery import entries
from recovery.confirm import Health, Judgement
from recovery.decision import Why
from recovery.model import CORDON, SCALE_DOWN_DISABLED, TAINT, Entry, LedgerBody, Member, Outcome, State, Taint, Way
from recovery.moves import Act, Context, Need, View, Wait
from recovery.policy import Rules
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL, Action, FaultClass
from tests.recovery.cases import (
    I1,
    I2,
    context,
    decided,
    entry,
    facts,
    fault,
    faulty,
    found,
    group,
    other,
    seen,
    stepped,
    view,
    waits,
)
from tests.recovery.machines import DMA, HANG, SLOW, SRAM, T0

_SOON = T0 + timedelta(seconds=5)
_DEGRADED = faulty(reason=SLOW, fault_class=FaultClass.DEGRADED)


def fresh(**changes: Any) -> View:
    return view(**({"facts": facts()} | changes))


# A node that nothing was begun with.


@pytest.mark.parametrize(
    ("judgement", "why", "blocked"),
    [
        (Judgement(health=Health.HEALTHY), Why.NO_ACTION, False),
        (Judgement(health=Health.IGNORED), Why.NO_ACTION, False),
        (Judgement(health=Health.BLIND), Why.BLIND, False),
        (Judgement(health=Health.UNCONFIRMED, fault=fault(), until=_SOON), Why.CONFIRMING, False),
        (Judgement(health=Health.DISAGREE, fault=fault(), until=_SOON), Why.CONFIRMING, False),
        (Judgement(health=Health.DISAGREE, fault=fault(), until=T0), Why.DISAGREE, True),
    ],
)
def test_nothing_begins_unless_a_fault_is_confirmed(judgement: Judgement, why: Why, blocked: bool) -> None:
    for held in (None, entry()):
        if held is not None and judgement.health in (Health.HEALTHY, Health.IGNORED, Health.DISAGREE):
            continue  # undone or held: see the sequence
        looked = fresh(judgement=judgement) if held is None else view(judgement=judgement)
        assert waits(decided(held, looked, context())) == (why, blocked)


def test_the_time_at_which_it_may_be_decided_otherwise_is_told() -> None:
    unconfirmed = Judgement(health=Health.UNCONFIRMED, fault=fault(), until=_SOON)
    move = decided(None, fresh(judgement=unconfirmed), context())
    assert isinstance(move, Wait)
    assert move.until == _SOON


@pytest.mark.parametrize("looked", [fresh(unread="no answer", facts=None), fresh(facts=None)])
def test_a_node_that_was_not_read_is_not_acted_on(looked: View) -> None:
    assert waits(decided(None, looked, context())) == (Why.API_UNKNOWN, False)
    assert waits(decided(entry(), view(unread="no answer", facts=None), context())) == (Why.API_UNKNOWN, False)


@pytest.mark.parametrize(
    ("looked", "ctx", "why", "blocked"),
    [
        (fresh(facts=facts(labels={RECOVERY_LABEL: RECOVERY_DISABLED})), context(), Why.OPTED_OUT, True),
        (fresh(seen=seen(platform_repair=True)), context(), Why.DELEGATED_TO_PLATFORM, True),
        (fresh(facts=facts(deleting=True)), context(), Why.OTHER_REMEDIATOR, True),
        (
            fresh(facts=facts(annotations={"cluster.x-k8s.io/delete-machine": ""})),
            context(),
            Why.OTHER_REMEDIATOR,
            True,
        ),
        (
            fresh(facts=facts(taints=(Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule"),))),
            context(),
            Why.OTHER_REMEDIATOR,
            True,
        ),
        (fresh(facts=facts(instance=None)), context(), Why.INSTANCE_UNKNOWN, True),
        (fresh(facts=facts(provider_instance=I2)), context(), Why.IDENTITY_MISMATCH, True),
        (fresh(seen=seen(instance=I2)), context(), Why.IDENTITY_MISMATCH, True),
        (fresh(), context(paused="a deployment"), Why.PAUSED, True),
        (fresh(), context(body=LedgerBody(tripped={DMA: T0})), Why.BREAKER_TRIPPED, True),
        (
            fresh(),
            context(body=LedgerBody(blocked_groups={"g": "RecursAfterReplacement: x"})),
            Why.RECURS_AFTER_REPLACEMENT,
            True,
        ),
        (fresh(), context(other(1, State.FENCED, outcome=Outcome.REFUSED, instance=I1)), Why.ALREADY_DONE, False),
        (fresh(), context(other(1, State.GONE, outcome=Outcome.REPLACED, instance=I1)), Why.ALREADY_DONE, False),
    ],
)
def test_each_thing_that_speaks_against_it_is_told_by_its_name(
    looked: View, ctx: Context, why: Why, blocked: bool
) -> None:
    assert waits(decided(None, looked, ctx)) == (why, blocked)


@pytest.mark.parametrize(
    "held", [Outcome.STALLED, Outcome.FAILED, Outcome.CLEARED, Outcome.RELEASED, Outcome.SUPERSEDED]
)
def test_what_was_closed_without_an_end_is_begun_with_again(held: Outcome) -> None:
    ctx = context(other(1, State.FENCED, outcome=held, instance=I1, added=()))
    assert stepped(decided(None, fresh(), ctx)).entry.state is State.FENCED


def test_unknown_ids_are_no_contradiction() -> None:
    looked = fresh(facts=facts(provider_instance=None), seen=seen(instance=None))
    assert stepped(decided(None, looked, context())).act is Act.FENCE


def test_a_node_of_a_nodepool_needs_no_instance_id() -> None:
    pool = {"karpenter.sh/nodepool": "pool"}
    looked = fresh(facts=facts(labels=pool, instance=None, provider_instance=None, provider_id="kwok://n1"))
    looked = view(facts=looked.facts, seen=seen(instance=None), found=found(way=Way.KARPENTER, group=None, name="pool"))
    step = stepped(decided(None, looked, context()))
    assert (step.entry.instance, step.entry.group, step.entry.way) == ("kwok://n1", "pool", Way.KARPENTER)


@pytest.mark.parametrize("fault_class", [FaultClass.DEAD, FaultClass.POISONED])
def test_a_grave_fault_is_fenced_without_a_slot(fault_class: FaultClass) -> None:
    full = context(*(other(number, group=f"h{number}") for number in range(3)))
    step = stepped(decided(None, fresh(judgement=faulty(fault_class=fault_class)), full))
    assert (step.act, step.entry.state, step.entry.fenced_at) == (Act.FENCE, State.FENCED, T0)
    assert step.entry.added == (CORDON, SCALE_DOWN_DISABLED, TAINT)
    assert step.entry.admitted_at is None


@pytest.mark.parametrize("fault_class", [FaultClass.DEGRADED, FaultClass.SUSPECT])
def test_a_light_fault_is_fenced_when_its_turn_has_come(fault_class: FaultClass) -> None:
    looked = fresh(judgement=faulty(reason=SLOW, fault_class=fault_class))
    full = context(*(other(number, group=f"h{number}") for number in range(3)))
    assert waits(decided(None, looked, full)) == (Why.MAX_CONCURRENT, True)
    assert stepped(decided(None, looked, context())).act is Act.FENCE
    fenced = context(other(1, State.FENCED))
    small = view(facts=facts(), judgement=looked.judgement, found=found(group(desired=5)))
    assert waits(decided(None, small, fenced)) == (Why.MAX_UNHEALTHY_PERCENT, True)


def test_a_grave_fault_is_not_fenced_beyond_what_its_group_can_bear_nor_in_a_full_ledger() -> None:
    small = fresh(found=found(group(desired=5)))
    assert waits(decided(None, small, context(other(1, State.FENCED)))) == (Why.MAX_UNHEALTHY_PERCENT, True)
    full = context(other(1, State.FENCED, outcome=Outcome.REPLACED, serial="x" * 700_000))
    assert waits(decided(None, fresh(), full)) == (Why.LEDGER_FULL, True)


def test_what_an_operator_had_cordoned_is_not_ours_and_what_an_older_entry_left_is() -> None:
    cordoned = fresh(facts=facts(unschedulable=True))
    assert stepped(decided(None, cordoned, context())).entry.added == (SCALE_DOWN_DISABLED, TAINT)
    left = other(1, State.FENCED, node="n1", outcome=Outcome.STALLED, added=(CORDON, TAINT))
    step = stepped(decided(None, view(), context(left)))
    assert step.entry.added == (CORDON, TAINT)
    after = entries.put(context(left).body, step.entry)
    assert [held.added for held in after.entries] == [(), (CORDON, TAINT)]


def test_the_group_is_asked_for_before_a_fence_and_no_sooner() -> None:
    assert decided(None, fresh(found=None), context()) is Need.GROUP
    assert waits(decided(None, fresh(found=None), context(paused="x"))) == (Why.PAUSED, True)
    full = context(*(other(number, group=f"h{number}") for number in range(3)))
    assert waits(decided(None, fresh(found=None, judgement=_DEGRADED), full)) == (Why.MAX_CONCURRENT, True)
    assert decided(None, fresh(found=None, judgement=_DEGRADED), context()) is Need.GROUP


def test_a_group_that_is_not_known_lets_one_node_be_fenced() -> None:
    unknown = found(name=None, group=None, size=None, unknown="throttled")
    step = stepped(decided(None, fresh(found=unknown), context()))
    assert (step.entry.group, step.act) == ("", Act.FENCE)
    fenced = context(other(1, State.FENCED, group=""))
    assert waits(decided(None, fresh(found=unknown), fenced)) == (Why.MAX_UNHEALTHY_PERCENT, True)


# A fenced node that waits for a slot.


@pytest.mark.parametrize(
    ("looked", "ctx", "why", "blocked"),
    [
        (view(), context(paused="x"), Why.PAUSED, True),
        (view(), context(body=LedgerBody(tripped={DMA: T0})), Why.BREAKER_TRIPPED, True),
        (view(), context(*(other(number, group=f"h{number}") for number in range(3))), Why.MAX_CONCURRENT, True),
        (view(), context(other(1)), Why.MAX_PER_GROUP, True),
        (
            view(found=found(group(Member(instance=I2, state="Standby", health="Healthy"), desired=5))),
            context(),
            Why.MAX_UNHEALTHY_PERCENT,
            True,
        ),
        (view(), context(other(1, group="h", way=Way.NARROW)), Why.NARROW_MODE, True),
        (view(found=found(unknown="throttled")), context(), Why.CLOUD_UNKNOWN, True),
        (view(found=found(unknown="no", denied="autoscaling:DescribeX")), context(), Why.ACCESS_DENIED, True),
        (
            view(found=found(group(Member(instance=I1, state="Pending", health="Healthy")))),
            context(),
            Why.INSTANCE_CHANGING,
            False,
        ),
        (
            view(found=found(group(Member(instance=I1, state="Standby", health="Healthy")))),
            context(),
            Why.STANDBY,
            True,
        ),
        (view(found=found(group(suspended=("Launch",)))), context(), Why.PROCESS_SUSPENDED, True),
        (view(found=found(group(operator="x"))), context(), Why.OPERATOR_GROUP, True),
        (view(), context(body=LedgerBody(blocked_groups={"g": "why"})), Why.RECURS_AFTER_REPLACEMENT, True),
        (view(facts=facts(fenced=True, provider_instance=I2)), context(), Why.IDENTITY_MISMATCH, True),
    ],
)
def test_a_fenced_node_is_told_what_its_slot_waits_for(looked: View, ctx: Context, why: Why, blocked: bool) -> None:
    assert waits(decided(entry(), looked, ctx)) == (why, blocked)


def test_a_fenced_node_is_admitted_when_all_allow_it_and_the_group_was_read_just_now() -> None:
    step = stepped(decided(entry(), view(), context()))
    assert (step.entry.state, step.entry.admitted_at, step.act) == (State.ADMITTED, T0, Act.NONE)
    old = view(found=found(at=T0 - timedelta(seconds=3)))
    assert decided(entry(), old, context()) is Need.GROUP_NOW
    assert decided(entry(), view(found=None), context()) is Need.GROUP


def test_a_fenced_node_of_a_group_that_was_not_known_is_given_its_name_first() -> None:
    step = stepped(decided(entry(group=""), view(), context()))
    assert (step.entry.group, step.entry.state, step.act) == ("g", State.FENCED, Act.NONE)


def test_an_entry_is_admitted_for_what_is_known_then() -> None:
    looked = view(judgement=faulty(reason=SRAM, fault_class=FaultClass.POISONED), found=found(way=Way.AUTOSCALING))
    step = stepped(decided(entry(), looked, context()))
    assert (step.entry.reason, step.entry.class_) == (SRAM, FaultClass.POISONED)


def test_an_instance_in_no_group_is_refused_with_or_without_a_fence() -> None:
    nowhere = found(name=None, group=None, size=None, absent=True)
    step = stepped(decided(entry(group=""), view(found=nowhere), context()))
    assert (step.entry.outcome, step.act) == (Outcome.REFUSED, Act.NONE)
    assert step.entry.added == entry().added
    light = stepped(decided(None, fresh(found=nowhere, judgement=_DEGRADED), context()))
    assert (light.entry.outcome, light.entry.added) == (Outcome.REFUSED, ())
    assert (light.entry.state, light.entry.fenced_at) == (State.OBSERVED, None)
    reboot = view(found=nowhere, judgement=faulty(action=Action.REBOOT))
    assert stepped(decided(entry(group=""), reboot, context())).entry.state is State.ADMITTED


def test_where_no_more_may_be_fenced_an_instance_in_no_group_is_refused_all_the_same() -> None:
    nowhere = found(name=None, group=None, size=None, absent=True)
    waiting = context(other(1, State.FENCED, group=""))
    refused = stepped(decided(None, fresh(found=nowhere), waiting))
    assert (refused.entry.outcome, refused.entry.state, refused.act) == (Outcome.REFUSED, State.OBSERVED, Act.NONE)
    reboot = fresh(found=nowhere, judgement=faulty(action=Action.REBOOT))
    assert waits(decided(None, reboot, waiting)) == (Why.MAX_UNHEALTHY_PERCENT, True)
    ended = context(other(1, State.FENCED, group="", outcome=Outcome.REFUSED))
    assert stepped(decided(None, fresh(found=nowhere), ended)).act is Act.FENCE


def test_two_failed_reboots_within_a_day_make_a_replacement() -> None:
    def failed(number: int, hours: int) -> Entry:
        ended = T0 - timedelta(hours=hours)
        return other(number, State.REBOOTING, instance=I1, outcome=Outcome.FAILED, ended_at=ended, reboots_failed=1)

    looked = view(judgement=faulty(action=Action.REBOOT))
    for hours, expected in (((1, 2), Action.REPLACE), ((1, 25), Action.REBOOT), ((1,), Action.REBOOT)):
        ctx = context(*(failed(number, hour) for number, hour in enumerate(hours)))
        assert stepped(decided(entry(), looked, ctx)).entry.action is expected
    hanging = faulty(reason=HANG, fault_class=FaultClass.SUSPECT, action=Action.REBOOT)
    ctx = context(failed(0, 1), failed(1, 2))
    for held, looked in ((None, fresh(judgement=hanging)), (entry(), view(judgement=hanging))):
        assert waits(decided(held, looked, ctx)) == (Why.NO_ACTION, False)


def test_stand_alone_a_random_time_is_waited_for() -> None:
    ctx = context(rules=Rules(hold_seconds=30))
    move = decided(entry(), view(), ctx)
    assert isinstance(move, Wait)
    assert (move.why, move.until) == (Why.CONFIRMING, T0 + timedelta(seconds=10))
