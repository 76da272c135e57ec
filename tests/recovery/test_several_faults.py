"""Several faults on one node: each is judged by itself, and what is done about one is never done for another."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery.confirm import Fault, Health, Judgement
from recovery.decision import Why
from recovery.model import FaultSeen, LedgerBody, Outcome, State
from recovery.moves import Act, View, Wait
from recovery.policy import Policy, Rules
from runtime.vocabulary import Action, FaultClass
from tests.recovery.cases import (
    context,
    decided,
    entry,
    facts,
    fault,
    faulty,
    gauge,
    given_away,
    outcome,
    seen,
    stepped,
    view,
    waits,
)
from tests.recovery.machines import DMA, RESET, SLOW, SRAM, T0, TYPE
from tests.recovery.world import World, fleet

_BEFORE = [State.FENCED, State.ADMITTED, State.NOTIFIED, State.DRAINED]
_EFA = "EfaHasError"


def left_with(*reasons: str, health: Health = Health.FAULTY, **changes: object) -> View:
    """Look at a node whose detector speaks of these faults, the first of which counts."""
    fault_class = FaultClass.DEGRADED if reasons[0] == SLOW else FaultClass.POISONED
    action = Action.REBOOT if reasons[0] == RESET else Action.REPLACE
    judgement = Judgement(health=health, fault=fault(reason=reasons[0], fault_class=fault_class, action=action))
    given = {"judgement": judgement, "seen": seen(faults=tuple(gauge(reason) for reason in reasons))}
    return view(**(given | changes))


def draining(world: World, name: str, reason: str) -> None:
    world.occupy(name)
    world.break_node(name, reason)


@pytest.mark.parametrize("state", _BEFORE)
@pytest.mark.parametrize(
    "looked",
    [
        left_with(SLOW),
        left_with(SRAM, health=Health.UNCONFIRMED),
        left_with(SLOW, health=Health.UNCONFIRMED),
    ],
)
def test_a_fault_that_was_cleared_ends_its_entry_whatever_light_or_unconfirmed_fault_is_left(
    state: State, looked: View
) -> None:
    assert outcome(decided(entry(state), looked)) == (Outcome.CLEARED, Act.LIFT)


@pytest.mark.parametrize("state", [*_BEFORE, State.TERMINATING])
def test_if_a_grave_fault_is_left_the_fence_stays_and_the_slot_is_asked_for_anew(state: State) -> None:
    held = (
        entry(state, blind_at=T0) if state is not State.TERMINATING else given_away(called_at=T0 - timedelta(hours=1))
    )
    step = stepped(decided(held, left_with(SRAM)))
    anew = step.entry
    assert (step.act, anew.id, anew.state, anew.outcome) == (Act.FENCE, held.id, State.FENCED, None)
    assert (anew.reason, anew.class_, anew.action) == (SRAM, FaultClass.POISONED, Action.REPLACE)
    assert (anew.members, anew.terminating_at, anew.blind_at, anew.accepted) == ((), None, None, False)
    assert anew.observed_at == fault().started


def test_not_if_the_breaker_of_what_is_left_has_tripped() -> None:
    held = entry(State.DRAINED)
    tripped = context(body=LedgerBody(entries=(held,), tripped={SRAM: T0}))
    assert outcome(decided(held, left_with(SRAM), tripped)) == (Outcome.CLEARED, Act.LIFT)


@pytest.mark.parametrize("state", _BEFORE[1:])
def test_a_fault_of_another_type_does_not_confirm_one_that_metric_and_condition_disagree_about(state: State) -> None:
    def looked(own: str, *gauges: FaultSeen) -> View:
        node = facts(fenced=True, conditions={TYPE: (own, "", ""), _EFA: ("True", "", "")})
        return view(facts=node, seen=seen(faults=gauges), judgement=faulty(reason=SRAM, type=_EFA))

    efa = gauge(SRAM, type=_EFA)
    for doubted in (looked("True", efa), looked("False", efa, gauge())):
        step = stepped(decided(entry(state), doubted))
        assert (step.entry.state, step.entry.outcome, step.entry.blind_at) == (state, None, T0)
        move = decided(step.entry, doubted)
        assert isinstance(move, Wait)
        assert (move.why, move.until) == (Why.DISAGREE, T0 + timedelta(minutes=15))
    assert stepped(decided(entry(state), looked("False", efa))).entry.state is State.FENCED


def test_a_fault_that_is_to_be_left_alone_now_releases_its_entry_though_another_is_there() -> None:
    ctx = context(rules=Rules(policies={DMA: Policy(action=Action.NONE)}))
    assert outcome(decided(entry(State.DRAINED), left_with(SLOW, DMA), ctx)) == (Outcome.RELEASED, Act.LIFT)
    assert stepped(decided(entry(State.DRAINED), left_with(SRAM, DMA), ctx)).entry.reason == SRAM


# Breakers.


_POISONED = fault(reason=SRAM, fault_class=FaultClass.POISONED)
_REBOOT = fault(reason=RESET, action=Action.REBOOT)
_TRIPPED = context(body=LedgerBody(tripped={SRAM: T0}))


@pytest.mark.parametrize(
    ("confirmed", "reason"),
    [
        ((_POISONED, fault()), DMA),
        ((fault(), _POISONED), DMA),
        ((_POISONED,), None),
        ((_POISONED, _REBOOT), None),
        ((_POISONED, _REBOOT, fault()), None),
        ((_REBOOT,), RESET),
    ],
)
def test_what_is_acted_on_is_the_first_fault_whose_breaker_has_not_tripped_but_no_reboot_instead_of_a_replacement(
    confirmed: tuple[Fault, ...], reason: str | None
) -> None:
    judgement = Judgement(health=Health.FAULTY, fault=confirmed[0], confirmed=confirmed)
    gauges = tuple(gauge(each.reason) for each in confirmed)
    for held in (None, *(entry(reason=each.reason) for each in confirmed)):
        node = facts(fenced=held is not None)
        move = decided(held, view(facts=node, seen=seen(faults=gauges), judgement=judgement), _TRIPPED)
        if reason is None:
            assert waits(move) == (Why.BREAKER_TRIPPED, True)
        else:
            expected = State.FENCED if held is None else State.ADMITTED
            assert (stepped(move).entry.reason, stepped(move).entry.state) == (reason, expected)


def test_a_node_with_a_fault_of_a_storm_and_one_of_its_own_is_replaced_for_its_own() -> None:
    for fenced_first in (False, True):
        world = World()
        for number in range(6):
            world.add_group(f"g{number}", 40)
        process = world.process()
        names = sorted(world.nodes)
        if fenced_first:
            world.break_node(names[0], DMA)
            world.run(process, 3)
        for name in names[:60]:
            world.break_node(name, SRAM)
        world.run(process, 5)
        if not fenced_first:
            world.break_node(names[0], DMA)
        instance = world.nodes[names[0]].instance
        world.run(process, 100)
        assert world.acts() == [("mark", instance)]
        assert [(each.reason, each.outcome) for each in world.entries()] == [(DMA, Outcome.REPLACED)]
        assert world.violations == []


# Many steps.


@pytest.mark.parametrize("left", [RESET, SLOW])
def test_a_machine_is_not_taken_for_a_fault_that_was_cleared_while_it_was_drained(left: str) -> None:
    world, names, process = fleet(16)
    draining(world, names[0], SRAM)
    world.run(process, 230)
    world.break_node(names[0], left)
    node = world.nodes[names[0]]
    node.faults = [each for each in node.faults if each.reason == left]
    node.version += 1
    world.run(process, 60)
    assert world.violations == []
    if left == SLOW:
        assert world.outcomes() == [Outcome.CLEARED]
        assert not node.is_tainted
    world.run(process, 120)
    assert [act for act, _ in world.acts()] == ([] if left == SLOW else ["reboot"])


def test_a_node_is_never_unfenced_between_one_grave_fault_and_the_other() -> None:
    world, names, process = fleet(16)
    draining(world, names[0], SRAM)
    world.run(process, 60)
    node = world.nodes[names[0]]
    world.break_node(names[0], DMA)
    world.run(process, 30)
    node.faults = [each for each in node.faults if each.reason == DMA]
    node.version += 1
    for _ in range(3):
        process.controller.step()
        assert node.is_tainted
        world.advance(1)
    assert ("lift", names[0]) not in world.calls
    assert [(each.reason, each.state) for each in world.entries()] == [(DMA, State.TERMINATING)]
    assert next(taint.value for taint in node.taints) == FaultClass.DEAD
