"""Makes what pure functions take: everything in order unless a test says otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from recovery.confirm import Fault, Health, Judgement
from recovery.decide import decide
from recovery.model import (
    CORDON,
    SCALE_DOWN_DISABLED,
    TAINT,
    Entry,
    FaultSeen,
    Group,
    LedgerBody,
    Member,
    NodeFacts,
    Outcome,
    Seen,
    Sighting,
    State,
    Taint,
    Way,
)
from recovery.moves import Act, Context, Move, Step, View, Wait
from recovery.policy import Rules
from recovery.standing import Found
from runtime.vocabulary import SCALE_DOWN_ANNOTATION, UNHEALTHY_TAINT, Action, FaultClass
from tests.recovery.machines import DMA, KINDS, SRAM, T0, TYPE

if TYPE_CHECKING:
    from recovery.decision import Why

I1, I2, I3 = (f"i-{number:017x}" for number in (1, 2, 3))
FENCED_TAINT = Taint(key=UNHEALTHY_TAINT, effect="NoSchedule", value="dead")


def facts(*, fenced: bool = False, **changes: Any) -> NodeFacts:
    node = NodeFacts(
        name="n1",
        uid="u1",
        resource_version="1",
        created_at=T0 - timedelta(days=9),
        instance=I1,
        provider_instance=I1,
        provider_id=f"aws:///us-east-1a/{I1}",
        labels={},
        annotations={SCALE_DOWN_ANNOTATION: "true"} if fenced else {},
        taints=(FENCED_TAINT,) if fenced else (),
        unschedulable=fenced,
        conditions={TYPE: ("True", "", f"{DMA} (1 line)")},
        boot="b1",
        ready=True,
        deleting=False,
    )
    return replace(node, **changes)


def seen(**changes: Any) -> Seen:
    node = Seen(node="n1", faults=(), enabled=True, platform_repair=False, instance=I1, reasons=(DMA, SRAM))
    return replace(node, **changes)


def sighting(*nodes: Seen, fleet: int | None = 100, **changes: Any) -> Sighting:
    poll = Sighting(seen={node.node: node for node in nodes}, blind={}, why_blind=None, fleet=fleet)
    return replace(poll, **changes)


def fault(**changes: Any) -> Fault:
    dma = Fault(
        reason=DMA,
        type=TYPE,
        fault_class=FaultClass.DEAD,
        action=Action.REPLACE,
        started=T0 - timedelta(seconds=30),
        confirmed_at=T0 - timedelta(seconds=20),
    )
    return replace(dma, **changes)


def faulty(**changes: Any) -> Judgement:
    return Judgement(health=Health.FAULTY, fault=fault(**changes))


def entry(state: State = State.FENCED, **changes: Any) -> Entry:
    made = Entry(
        id="e1",
        node="n1",
        uid="u1",
        instance=I1,
        group="g",
        reason=DMA,
        class_=FaultClass.DEAD,
        action=Action.REPLACE,
        state=state,
        added=(CORDON, SCALE_DOWN_DISABLED, TAINT),
        observed_at=T0 - timedelta(seconds=30),
        fenced_at=T0 - timedelta(seconds=20),
        admitted_at=None if state is State.FENCED else T0 - timedelta(seconds=10),
        entered_at=T0 - timedelta(seconds=10),
        type=TYPE,
    )
    return replace(made, **changes)


def other(number: int, state: State = State.TERMINATING, **changes: Any) -> Entry:
    """Make an entry of another node of the same group."""
    given = {"id": f"o{number}", "node": f"o{number}", "uid": f"ou{number}", "instance": f"i-{number + 100:017x}"}
    return entry(state, **(given | changes))


def group(*members: Member, desired: int = 20, **changes: Any) -> Group:
    present = {member.instance: member for member in (*_healthy(desired), *members)}
    return replace(Group(name="g", desired=desired, members=tuple(present.values())), **changes)


def _healthy(count: int) -> list[Member]:
    return [Member(instance=f"i-{number:017x}", state="InService", health="Healthy") for number in range(1, count + 1)]


def found(of: Group | None = None, **changes: Any) -> Found:
    known = of or group()
    return replace(Found(way=Way.AUTOSCALING, at=T0, name=known.name, group=known, size=known.desired), **changes)


def view(**changes: Any) -> View:
    node = View(
        node="n1",
        seen=seen(faults=(gauge(),)),
        facts=facts(fenced=True),
        is_gone=False,
        unread=None,
        judgement=faulty(),
        found=found(),
    )
    return replace(node, **changes)


def context(*entries: Entry, **changes: Any) -> Context:
    body = LedgerBody(entries=entries)
    return replace(Context(rules=Rules(), body=body, paused=None, fleet=100, now=T0), **changes)


def gauge(reason: str = DMA, minutes: float = 1, **changes: Any) -> FaultSeen:
    """Make a gauge of 1 of a fault that began so many minutes ago."""
    fault_class, action = KINDS[reason]
    since = T0 - timedelta(minutes=minutes)
    made = FaultSeen(type=TYPE, reason=reason, fault_class=fault_class, action=action, since=since)
    return replace(made, **changes)


def fleet_with(reason: str, count: int, minutes: float = 1, **changes: Any) -> Sighting:
    """Make a poll of so many nodes of a fleet of 40 with the same fault."""
    nodes = [seen(node=f"n{number}", faults=(gauge(reason, minutes, **changes),)) for number in range(count)]
    return sighting(*nodes, fleet=40)


BLIND = Judgement(health=Health.BLIND, detail="its detector: refused")


def decided(held: Entry | None, looked: View, ctx: Context | None = None) -> Move:
    """Decide, twice: deciding is no event."""
    given = ctx or (context() if held is None else context(held))
    move = decide(held, looked, given)
    assert decide(held, looked, given) == move
    return move


def stepped(move: Move) -> Step:
    assert isinstance(move, Step), move
    return move


def outcome(move: Move) -> tuple[Outcome | None, Act]:
    """Tell how a move closes an entry, and what it does."""
    return stepped(move).entry.outcome, stepped(move).act


def waits(move: Move) -> tuple[Why, bool]:
    """Tell what a move waits for, and whether that is a refusal."""
    assert isinstance(move, Wait), move
    return move.why, move.blocked


def member(state: str, health: str = "Healthy", instance: str = I1) -> Member:
    return Member(instance=instance, state=state, health=health)


def given_away(state: State = State.TERMINATING, **changes: Any) -> Entry:
    """Make an entry whose machine was marked a minute ago, in a group of twenty."""
    made = entry(
        state,
        terminating_at=T0 - timedelta(seconds=60),
        called_at=T0 - timedelta(seconds=60),
        accepted=True,
        members=tuple(f"i-{number:017x}" for number in range(1, 21)),
    )
    return replace(made, **changes)
