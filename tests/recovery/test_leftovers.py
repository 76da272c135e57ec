"""What is left behind: fences without an entry, a ledger without its ConfigMap, numbers for pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from recovery import entries, panorama
from recovery.confirm import Health, Judgement
from recovery.decision import Why
from recovery.hindrance import hindrance
from recovery.model import TAINT, Entry, LedgerBody, Member, NodeFacts, Outcome, State
from recovery.policy import Rules
from recovery.rebuild import UNKNOWN_REASON, rebuilt
from recovery.residue import Residue, residue
from runtime.vocabulary import RECOVERY_ANNOTATION, RECOVERY_DISABLED, RECOVERY_LABEL, Action, FaultClass
from tests.recovery.cases import I1, I2, entry, facts, fault, found, gauge, group, other, seen, sighting, view
from tests.recovery.machines import DMA, HANG, SLOW, SRAM, T0

_HEALTHY = Judgement(health=Health.HEALTHY)
_KEPT = [Outcome.STALLED, Outcome.FAILED, Outcome.SUPERSEDED, *sorted(entries.FINAL)]


def left(outcome: Outcome) -> Entry:
    return entry(State.DRAINED, outcome=outcome, ended_at=T0)


# Fences.


@pytest.mark.parametrize("outcome", sorted(entries.LIFTED_AT_ONCE))
def test_a_fence_that_should_be_gone_is_lifted_whatever_the_node_looks_like(outcome: Outcome) -> None:
    assert residue(left(outcome), view(), Rules()) is Residue.LIFT


@pytest.mark.parametrize("outcome", _KEPT)
@pytest.mark.parametrize(
    ("looked", "fate"),
    [
        (view(), Residue.KEEP),
        (view(seen=None, judgement=Judgement(health=Health.BLIND)), Residue.KEEP),
        (view(facts=None, unread="no answer"), Residue.KEEP),
        (view(facts=None, is_gone=True), Residue.FORGET),
        (view(facts=facts(uid="u2")), Residue.FORGET),
        (view(facts=facts(fenced=True, instance=I2)), Residue.LIFT),
        (view(facts=facts(fenced=True, labels={RECOVERY_LABEL: RECOVERY_DISABLED})), Residue.LIFT),
        (view(judgement=_HEALTHY), Residue.LIFT),
        (view(judgement=Judgement(health=Health.IGNORED), seen=seen(faults=(gauge(HANG),))), Residue.LIFT),
        (view(judgement=Judgement(health=Health.IGNORED), seen=seen(faults=(gauge(DMA),))), Residue.KEEP),
    ],
)
def test_a_fence_that_outlived_its_entry_stays_while_the_machine_is_faulty(
    outcome: Outcome, looked: Any, fate: Residue
) -> None:
    assert residue(left(outcome), looked, Rules()) is fate


def test_a_fence_is_lifted_where_recovery_is_switched_off_unless_the_machine_is_being_ended() -> None:
    off = view(seen=seen(enabled=False))
    assert residue(left(Outcome.STALLED), off, Rules()) is Residue.LIFT
    assert residue(left(Outcome.RETAINED), off, Rules()) is Residue.KEEP
    assert residue(left(Outcome.STALLED), off, Rules(enabled=True)) is Residue.KEEP


# The ledger.


def node_with(text: str | None, **changes: Any) -> NodeFacts:
    annotations = {} if text is None else {RECOVERY_ANNOTATION: text}
    return msgspec.structs.replace(facts(fenced=True, annotations=annotations), **changes)


def test_a_ledger_is_made_anew_of_the_copies() -> None:
    held = entry(State.TERMINATING)
    assert rebuilt([node_with(msgspec.json.encode(held).decode())], T0).entries == (held,)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[" * 100_000,
        '{"id": 1}',
        msgspec.json.encode(entry(uid="u2")).decode(),
        msgspec.json.encode(entry(node="n2")).decode(),
        msgspec.json.encode(entry(would=True)).decode(),
        msgspec.json.encode(entry(fenced_at=T0.replace(tzinfo=None))).decode(),
    ],
)
def test_a_copy_that_cannot_be_relied_on_still_stands_for_a_fence(text: str | None) -> None:
    (made,) = rebuilt([node_with(text)], T0).entries
    assert (made.reason, made.outcome, made.instance) == (UNKNOWN_REASON, Outcome.STALLED, I1)
    assert (made.added, made.class_, made.action) == ((TAINT,), FaultClass.DEAD, Action.NONE)


def test_a_copy_alone_is_no_fence_and_an_unknown_class_is_suspect() -> None:
    (made,) = rebuilt([node_with("{", taints=())], T0).entries
    assert (made.added, made.class_) == ((), FaultClass.SUSPECT)
    odd = msgspec.structs.replace(facts(fenced=True).taints[0], value="odd")
    (made,) = rebuilt([node_with(None, taints=(odd,), instance=None)], T0).entries
    assert (made.instance, made.class_) == ("", FaultClass.SUSPECT)


def test_two_copies_with_one_id_become_two_entries() -> None:
    nodes = [
        node_with(msgspec.json.encode(entry(node=name)).decode(), name=name)  # somebody copied a Node
        for name in ("n1", "n2")
    ]
    assert [made.id for made in rebuilt(nodes, T0).entries] == ["e1", "e1-n2"]


def test_ids_are_never_given_twice() -> None:
    first = entries.new_id(LedgerBody(), I1, T0)
    second = entries.new_id(LedgerBody(entries=(entry(id=first),)), I1, T0)
    assert first != second
    assert second not in (first, entries.new_id(LedgerBody(entries=(entry(id=first), entry(id=second))), I1, T0))


def test_an_entry_takes_the_place_of_the_one_with_its_id_and_what_would_be_done_is_dropped_when_it_begins() -> None:
    would = other(1, State.ADMITTED, would=True, node="n1")
    body = LedgerBody(entries=(would, other(2)))
    after = entries.put(body, entry())
    assert [held.id for held in after.entries] == ["o2", "e1"]
    changed = entries.put(after, entry(State.ADMITTED))
    assert [held.state for held in changed.entries] == [State.TERMINATING, State.ADMITTED]
    assert len(entries.put(body, other(3, would=True, node="n1")).entries) == 3
    assert [held for held in after.entries if held.node == "n1"] == [entry()]


# Why a replacement does not come.


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("InsufficientInstanceCapacity: no", "capacity"),
        ("VcpuLimitExceeded", "limit"),
        ("quota", "limit"),
        ("Invalid IAM Instance Profile name", "template"),
        ("You are not authorized to use launch template", "template"),
        ("", "other"),
        ("something else", "other"),
    ],
)
def test_words_of_a_failed_launch_are_told_apart(words: str, kind: str) -> None:
    answer = found(group(desired=20, failed_activity=words or None))
    assert hindrance(entry(instance="i-gone"), answer)[0] == kind


def test_an_old_member_that_waits_for_a_hook_of_its_own_is_no_hindrance() -> None:
    waiting = Member(instance=I2, state="Pending:Wait", health="Healthy")
    held = entry(instance="i-gone", members=("i-gone", I2))
    assert hindrance(held, found(group(waiting)))[0] == "other"
    assert hindrance(entry(instance="i-gone"), found(group(waiting)))[0] == "hook"
    assert hindrance(held, found(group=None)) == ("other", "")


# Numbers.


def test_points_count_nodes_by_the_detectors_word_alone() -> None:
    poll = sighting(seen(faults=(gauge(DMA), gauge(HANG))), seen(node="n2", faults=(gauge(DMA),)), seen(node="n3"))
    counts, nodes = panorama.fault_points(poll)
    assert (counts[DMA], counts[HANG], counts[SRAM]) == (2, 1, 0)
    assert nodes == {DMA: ("n1", "n2"), HANG: ("n1",)}


def test_observations_count_each_node_once() -> None:
    poll = sighting(
        seen(), seen(node="n2", faults=(gauge(),)), seen(node="n3", faults=(gauge(HANG),)), seen(node="n4"),
        seen(node="n5", faults=(gauge(),)), blind={"n6": "refused"},
    )  # fmt: skip
    counts = panorama.observations(poll, {"n2": Health.FAULTY, "n4": Health.DISAGREE}, ["n3"])
    expected = {"healthy": 1, "faulty": 1, "ignored": 1, "disagree": 1, "unconfirmed": 1, "blind": 1}
    assert counts == expected


def test_nodes_that_are_not_even_looked_at_are_told_why() -> None:
    poll = sighting(seen(faults=(gauge(),), enabled=False), seen(node="n2", faults=(gauge(HANG, fault_class=None),)))
    told = panorama.set_aside({"n1": fault()}, ["n2"], poll, Rules())
    assert [(each.node, each.decision, each.why, each.would) for each in told] == [
        ("n2", "none", Why.NO_ACTION, False),
        ("n1", "blocked", Why.BREAKER_TRIPPED, True),
    ]
    assert panorama.blocked_points(told, LedgerBody()) == {"RecoveryBlocked": 0, "ReplacementBlocked": 0}
    assert [each.node for each in panorama.gravest_first(told)] == ["n1", "n2"]


def test_what_would_be_done_is_healed_when_fault_or_node_has_gone_not_when_it_is_blind() -> None:
    would = entry(State.ADMITTED, would=True)
    body = LedgerBody(entries=(would, other(1), other(2, would=True, outcome=Outcome.CLEARED)))
    for poll, healed in (
        (sighting(seen(faults=(gauge(SLOW),))), True),
        (sighting(), True),
        (sighting(seen(faults=(gauge(DMA),))), False),
        (sighting(blind={"n1": "refused"}), False),
        (sighting(why_blind="no Prometheus"), False),
    ):
        assert panorama.healed(body, poll) == ([("n1", DMA)] if healed else [])


def test_gauges_of_the_ledger() -> None:
    body = LedgerBody(
        tripped={SRAM: T0},
        entries=(
            other(1, kind="capacity", entered_at=T0 - timedelta(minutes=2)),
            other(2, entered_at=T0 - timedelta(minutes=3), kind="capacity"),
            other(3, State.FENCED, entered_at=None),
            other(4, outcome=Outcome.REPLACED, kind="hook"),
        ),
    )
    assert panorama.open_entries(body) == {"g": 2}
    assert panorama.replacements_blocked(body) == {"g": {"capacity": 2}}
    assert panorama.oldest_open(body) == {"terminating": T0 - timedelta(minutes=3)}
    poll = sighting(seen(faults=(gauge(DMA), gauge(HANG))))
    assert panorama.breakers(poll, body, Rules()) == {DMA: False, SRAM: True}
    left_now = panorama.budget_remaining(body, {"g": found(), "h": None}, Rules(), 100, T0)
    assert left_now == {"": 1, "g": 0, "h": 1}
