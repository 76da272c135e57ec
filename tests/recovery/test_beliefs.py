"""When a fault is believed, how many at once, and what is remembered of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery.absence import Absence
from recovery.attention import MOST_READ, attend
from recovery.confirm import Health, agreeing, disagrees, faults_of, judge
from recovery.model import FaultSeen, LedgerBody, NodeFacts, Outcome, Seen, State
from recovery.policy import Policy, Rules
from recovery.watch import Watch
from runtime.vocabulary import Action, FaultClass
from tests.recovery.cases import facts, fleet_with, gauge, other, seen, sighting
from tests.recovery.machines import DMA, HANG, RESET, SLOW, SRAM, T0, TYPE

_RULES = Rules()
_MINUTE = timedelta(minutes=1)


def watched(*nodes: Seen, polls: int = 2, read: NodeFacts | None = None) -> Watch:
    """Watch nodes for some polls, the last of them now."""
    watch = Watch()
    for poll in range(polls):
        now = T0 - timedelta(seconds=polls - 1 - poll)
        watch.look(sighting(*nodes), now)
        for node in nodes:
            found = faults_of(node, _RULES, watch, now)
            looked = read or facts()
            agree = [each.reason for each in agreeing(found, looked)]
            watch.compare(node.node, agree=agree, disagree=disagrees(node, found, looked, ""), now=now)
    return watch


def judged(node: Seen, looked: NodeFacts | None = None, *, polls: int = 2, held: str = "") -> Any:
    read = looked or facts()
    watch = watched(node, polls=polls, read=read)
    return judge(node, read, type_held=held, rules=_RULES, watch=watch, now=T0)


@pytest.mark.parametrize(
    ("faults", "condition", "health"),
    [
        ([], "False", Health.HEALTHY),
        ([], "Unknown", Health.HEALTHY),
        ([gauge(HANG)], "True", Health.IGNORED),
        ([gauge(HANG)], "False", Health.IGNORED),
        ([gauge()], "True", Health.FAULTY),
        ([gauge()], "False", Health.DISAGREE),
        ([gauge()], "Unknown", Health.DISAGREE),
        ([gauge(minutes=0)], "True", Health.UNCONFIRMED),
        ([gauge(SLOW, minutes=9)], "True", Health.UNCONFIRMED),
        ([gauge(SLOW, minutes=11)], "True", Health.FAULTY),
        ([gauge(fault_class=None)], "True", Health.IGNORED),
        ([gauge(action=None)], "True", Health.IGNORED),
    ],
)
def test_metric_and_condition_together_make_a_fault(faults: list[FaultSeen], condition: str, health: Health) -> None:
    node, looked = seen(faults=tuple(faults)), facts(conditions={TYPE: (condition, "", "")})
    assert judged(node, looked).health is health


def test_a_condition_alone_is_a_contradiction_where_something_was_begun() -> None:
    assert judged(seen(), facts(), held=TYPE).health is Health.DISAGREE
    assert judged(seen(), facts(), held="").health is Health.HEALTHY
    assert judged(seen(faults=(gauge(HANG),)), facts(), held=TYPE).health is Health.IGNORED


def test_one_poll_is_not_enough_however_old_the_fault_is() -> None:
    node = seen(faults=(gauge(minutes=60),))
    one = judged(node, polls=1)
    assert (one.health, one.until) == (Health.UNCONFIRMED, T0)
    assert judged(node, polls=2).health is Health.FAULTY


def test_a_fault_is_confirmed_at_the_second_and_no_sooner() -> None:
    for seconds, health in ((9.9, Health.UNCONFIRMED), (10, Health.FAULTY)):
        node = seen(faults=(gauge(since=T0 - timedelta(seconds=seconds)),))
        assert judged(node, polls=3).health is health


def test_a_fault_with_no_start_begins_when_it_is_first_seen() -> None:
    node = seen(faults=(gauge(since=None),))
    assert judged(node, polls=5).health is Health.UNCONFIRMED
    assert judged(node, polls=12).health is Health.FAULTY


def test_what_is_to_be_replaced_counts_most_then_the_gravest_then_the_oldest() -> None:
    node = seen(faults=(gauge(RESET), gauge(SLOW, 20), gauge(DMA, 2), gauge(SRAM, 1), gauge(HANG)))
    watch = watched(node)
    assert [each.reason for each in faults_of(node, _RULES, watch, T0)] == [SRAM, DMA, SLOW, RESET]
    assert judged(node).fault.reason == SRAM
    young = seen(faults=(gauge(SRAM, 0), gauge(DMA, 2)))
    assert judged(young).fault.reason == DMA
    named = Rules(policies={"Odd": Policy(action=Action.REPLACE)})
    odd = seen(faults=(gauge(reason="NeuronHasError_SLOW", fault_class=None),))
    assert faults_of(odd, Rules(policies={SLOW: Policy(action=Action.REPLACE)}), watch, T0)[0].fault_class is (
        FaultClass.SUSPECT
    )
    assert faults_of(odd, named, watch, T0) == []


# Watch.


def test_a_poll_that_is_taken_in_twice_is_one() -> None:
    node = seen(faults=(gauge(),))
    watch = watched(node, polls=1)
    for _ in range(3):
        watch.look(sighting(node), T0)
        watch.compare("n1", agree=[DMA], disagree=False, now=T0)
    assert watch.polls_agreed("n1", DMA) == 1
    watch.compare("n1", agree=[DMA], disagree=False, now=T0 + _MINUTE)
    assert watch.polls_agreed("n1", DMA) == 2


def test_blindness_breaks_a_series_and_keeps_the_beginning() -> None:
    node = seen(faults=(gauge(),))
    for blind in (sighting(blind={"n1": "refused"}), sighting(why_blind="no Prometheus")):
        watch = watched(node)
        watch.look(blind, T0)
        assert watch.polls_agreed("n1", DMA) == 0
        assert watch.first_seen("n1", DMA, T0) == T0 - timedelta(seconds=1)


def test_a_node_that_is_gone_and_a_fault_that_has_ended_are_forgotten() -> None:
    node = seen(faults=(gauge(),))
    for poll in (sighting(), sighting(seen()), sighting(seen(node="n2"))):
        watch = watched(node)
        watch.look(poll, T0)
        assert watch.polls_agreed("n1", DMA) == 0
        assert watch.first_seen("n1", DMA, T0 + _MINUTE) == T0 + _MINUTE


def test_a_disagreement_about_a_metric_ends_with_it_and_one_about_a_condition_alone_goes_on() -> None:
    watch = Watch()
    watch.look(sighting(seen(faults=(gauge(),))), T0)
    watch.compare("n1", agree=[], disagree=True, now=T0)
    watch.look(sighting(seen()), T0 + _MINUTE)
    assert watch.disagree_since("n1") is None
    watch.compare("n1", agree=[], disagree=True, now=T0 + _MINUTE)
    watch.look(sighting(seen()), T0 + 2 * _MINUTE)
    assert watch.disagree_since("n1") == T0 + _MINUTE


def test_a_disagreement_lasts_from_its_first_poll_to_its_last() -> None:
    watch = Watch()
    assert watch.disagree_since("n1") is None
    assert watch.read_at("n1") is None
    watch.compare("n1", agree=[], disagree=True, now=T0)
    watch.compare("n1", agree=[], disagree=True, now=T0 + _MINUTE)
    assert watch.disagree_since("n1") == T0
    assert watch.read_at("n1") == T0 + _MINUTE
    watch.compare("n1", agree=[], disagree=False, now=T0 + 2 * _MINUTE)
    assert watch.disagree_since("n1") is None


def test_absence_is_final_after_three_answers_20_s_apart_within_a_minute() -> None:
    def final(*seconds: int) -> list[bool]:
        absence = Absence()
        return [absence.is_final("i-1", T0 + timedelta(seconds=at)) for at in seconds]

    assert final(0, 1, 2, 3, 4) == [False] * 5
    assert final(0, 20, 40) == [False, False, True]
    assert final(0, 20, 81, 101, 121) == [False, False, False, False, True]
    absence = Absence()
    for at in (0, 20):
        absence.is_final("i-1", T0 + timedelta(seconds=at))
    absence.forget("i-1")
    assert not absence.is_final("i-1", T0 + timedelta(seconds=40))


# Attention.


def test_who_holds_a_slot_is_looked_at_first_then_the_gravest_the_fenced_the_oldest() -> None:
    poll = sighting(
        seen(node="light", faults=(gauge(SLOW, 90),)),
        seen(node="dead", faults=(gauge(DMA, 2),)),
        seen(node="older", faults=(gauge(DMA, 3),)),
        seen(node="fenced", faults=(gauge(DMA, 1),)),
        seen(node="poisoned", faults=(gauge(SRAM, 1),)),
        seen(node="hangs", faults=(gauge(HANG),)),
        seen(node="well"),
    )
    held = [
        other(1, State.FENCED, node="fenced"),
        other(2, node="holder"),
        other(3, State.FENCED, node="gone"),
        other(4, node="closed", outcome=Outcome.REPLACED),
    ]
    attention = attend(poll, LedgerBody(entries=tuple(held)), _RULES, Watch(), T0)
    assert attention.read == ["holder", "poisoned", "fenced", "gone", "older", "dead", "light"]
    assert attention.ignored == ["hangs"]
    assert attention.unread == []


def test_nothing_is_begun_with_nodes_whose_breakers_have_all_tripped_and_they_are_not_even_read() -> None:
    poll = sighting(
        seen(node="a", faults=(gauge(DMA),)),
        seen(node="b", faults=(gauge(DMA), gauge(SLOW))),
        seen(node="c", faults=(gauge(DMA),)),
    )
    body = LedgerBody(tripped={DMA: T0}, entries=(other(1, State.FENCED, node="c"),))
    attention = attend(poll, body, _RULES, Watch(), T0)
    assert sorted(attention.read) == ["b", "c"]
    assert list(attention.stopped) == ["a"]


def test_no_more_nodes_than_50_are_read_in_a_pass_and_all_get_their_turn() -> None:
    poll = fleet_with(DMA, 130)
    watch, turns = Watch(), set()
    for number in range(4):
        now = T0 + timedelta(seconds=number)
        attention = attend(poll, LedgerBody(), _RULES, watch, now)
        assert len(attention.read) == MOST_READ
        assert len(attention.unread) == 80
        for name in attention.read:
            watch.compare(name, agree=[DMA], disagree=False, now=now)
        turns |= set(attention.read)
    assert len(turns) == 130


def test_a_held_node_with_nothing_to_rank_it_by_comes_last() -> None:
    held = other(1, State.FENCED, node="odd", observed_at=None, class_=FaultClass.SUSPECT)
    poll = sighting(seen(node="a", faults=(gauge(),)), seen(node="hang", faults=(gauge(HANG),)))
    body = LedgerBody(entries=(held, other(2, State.FENCED, node="hang")))
    attention = attend(poll, body, _RULES, Watch(), T0)
    assert attention.read[-1] == "odd"
    assert set(attention.read) == {"a", "hang", "odd"}
