"""Whatever happens to a fleet, in whatever order: no machine is taken that must not be, and everything ends."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recovery import entries
from recovery.decision import Why
from recovery.model import Outcome
from recovery.policy import Budget, Rules
from recovery.ports import PortError
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL
from tests.recovery.machines import DMA, HANG, RESET, SLOW, SRAM, SimNode
from tests.recovery.midway import Change, Midway, nth
from tests.recovery.releasing import release_all
from tests.recovery.world import Killed, Process, World

_RULES = Rules(budget=Budget(max_concurrent=2, storm_nodes=6))
_STATES = ["InService", "Standby", "Pending", "Terminating:Wait", "Detached", "Warmed:Stopped", "NeverHeardOf"]
_CALLS = ["read", "fence", "annotate", "lift", "drain", "load", "save", "group_of", "group", "set_unhealthy", "reboot"]
_MOMENTS = st.sampled_from([f"{when} {call}" for when in ("before", "after") for call in ("save", "group", "fence")])
_CHANGES = st.sampled_from(Change)
# What somebody has to end; and what an entry without a slot may wait for besides.
_MAY_HOLD = {Why.IDENTITY_MISMATCH, Why.BREAKER_TRIPPED, Why.REPLACEMENT_BLOCKED, Why.NOT_IN_GROUP}
_MAY_WAIT = _MAY_HOLD | {
    Why.RECURS_AFTER_REPLACEMENT,
    Why.MAX_CONCURRENT,
    Why.MAX_PER_GROUP,
    Why.MAX_UNHEALTHY_PERCENT,
    Why.MAX_PER_HOUR,
    Why.DISAGREE,
}


class Fleet(RuleBasedStateMachine):
    """Two groups, two processes of which one leads, and everything that can go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.failing: dict[str, int] = {}

    @initialize(launches_first=st.booleans())
    def begin(self, launches_first: bool) -> None:
        self.world.add_group("a", 6, launches_first=launches_first)
        self.world.add_group("b", 12)
        self.processes = [self.world.process(_RULES), self.world.process(_RULES)]
        self.processes[1].lead.held = False
        self.world.hook = self._hook

    def _hook(self, call: str, when: str) -> None:
        left = self.failing.get(f"{when} {call}", 0)
        if left:
            self.failing[f"{when} {call}"] = left - 1
            raise PortError("it failed", conflict=left % 3 == 0)

    @property
    def leader(self) -> Process:
        return next(process for process in self.processes if process.lead.held)

    def _node(self, number: int) -> SimNode:
        """Choose a node, three times in four one that something is going on with."""
        nodes = sorted(self.world.nodes.values(), key=lambda node: node.name)
        struck = [node for node in nodes if node.faults or node.is_tainted]
        return struck[number % len(struck)] if struck and number % 4 else nodes[number % len(nodes)]

    @rule(seconds=st.sampled_from([1, 1, 5, 30, 300]))
    def go_on(self, seconds: int) -> None:
        self._tick(seconds)

    def _tick(self, seconds: int = 1) -> None:
        for _ in range(3):
            self.leader.controller.step()
            self.world.advance(1)
        self.world.advance(seconds)
        self.leader.controller.step()

    @rule(
        number=st.integers(0, 40), reason=st.sampled_from([DMA, DMA, SRAM, HANG, SLOW, RESET]), ago=st.integers(0, 20)
    )
    def break_one(self, number: int, reason: str, ago: int) -> None:
        node = self._node(number * 4 if number % 3 else number)
        if all(fault.reason != reason for fault in node.faults):
            self.world.break_node(node.name, reason, since=self.world.now - timedelta(minutes=ago))
        self._tick()

    @rule(number=st.integers(0, 40))
    def heal_one(self, number: int) -> None:
        self.world.heal(self._node(number).name)
        self._tick()

    @rule(number=st.integers(0, 40), condition=st.sampled_from(["True", "False", "Unknown"]))
    def set_condition(self, number: int, condition: str) -> None:
        self._node(number).condition = condition
        self._tick()

    @rule(number=st.integers(0, 40), blind=st.sampled_from([None, "connection refused"]))
    def blind_one(self, number: int, blind: str | None) -> None:
        self._node(number).blind = blind
        self._tick()

    @rule(why=st.sampled_from([None, None, "no Prometheus"]))
    def blind_all(self, why: str | None) -> None:
        self.world.why_blind = why
        self._tick()

    @rule(why=st.sampled_from([None, None, "maintenance"]))
    def pause(self, why: str | None) -> None:
        self.world.pause = why
        self._tick()

    @rule(number=st.integers(0, 40), flag=st.sampled_from(["enabled", "platform_repair"]), value=st.booleans())
    def switch(self, number: int, flag: str, value: bool) -> None:
        setattr(self._node(number), flag, value)
        self._tick()

    @rule(number=st.integers(0, 40), value=st.sampled_from([RECOVERY_DISABLED, "enabled"]))
    def opt_out(self, number: int, value: str) -> None:
        self._node(number).labels[RECOVERY_LABEL] = value
        self._tick()

    @rule(number=st.integers(0, 40))
    def doubt_identity(self, number: int) -> None:
        self._node(number).provider_instance = "i-0000000000000dead"
        self._tick()

    @rule(number=st.integers(0, 40))
    def take_node_over(self, number: int) -> None:
        """A new machine finds the old Node object."""
        node = self._node(number)
        group = next((group for group in self.world.groups.values() if node.instance in group.members), None)
        if group is None or node.instance is None:
            return
        del group.members[node.instance]
        self.world.heal(node.name)
        fresh = self.world.add_member(group)
        del self.world.nodes[fresh.name]
        node.instance = node.seen_instance = fresh.instance
        self._tick()

    @rule(number=st.integers(0, 40))
    def delete_node(self, number: int) -> None:
        if len(self.world.nodes) > 4:
            del self.world.nodes[self._node(number).name]
        self._tick()

    @rule(number=st.integers(0, 40))
    def cordon_by_hand(self, number: int) -> None:
        node = self._node(number)
        node.unschedulable, node.version = True, node.version + 1
        self._tick()

    @rule(number=st.integers(0, 40), state=st.sampled_from(_STATES))
    def change_state(self, number: int, state: str) -> None:
        for group in self.world.groups.values():
            member = group.members.get(self._node(number).instance or "")
            if member is not None and member.state in _STATES:
                member.state = state
                member.until = self.world.now + timedelta(seconds=60)
        self._tick()

    @rule(
        name=st.sampled_from(["a", "b"]), process=st.sampled_from(["ReplaceUnhealthy", "Launch", "HealthCheck", None])
    )
    def suspend(self, name: str, process: str | None) -> None:
        self.world.groups[name].suspended = set() if process is None else {process}
        self._tick()

    @rule(call=st.sampled_from(_CALLS), when=st.sampled_from(["before", "after"]), times=st.integers(1, 5))
    def fail(self, call: str, when: str, times: int) -> None:
        self.failing[f"{when} {call}"] = times
        self._tick()

    @rule()
    def change_leader(self) -> None:
        for process in self.processes:
            process.lead.held = not process.lead.held
        self._tick()

    @rule(call=st.sampled_from(_CALLS), when=st.sampled_from(["before", "after"]))
    def kill_leader(self, call: str, when: str) -> None:
        """It dies in its next call of this name, if it makes one; another takes its place."""

        def die(name: str, moment: str) -> None:
            if (name, moment) == (call, when):
                raise Killed

        self.world.hook = die
        try:
            self.leader.controller.step()
        except Killed:
            self.processes[self.processes.index(self.leader)] = self.world.process(_RULES)
        self.world.hook = self._hook

    @rule(change=_CHANGES, moment=_MOMENTS, number=st.integers(0, 40), skip=st.integers(0, 4))
    def change_in_the_middle(self, change: Change, moment: str, number: int, skip: int) -> None:
        """Something changes in the middle of a pass: nothing more is done that was decided before."""
        leader, known = self.leader, len(self.world.violations)
        name = self._node(number * 4).name
        self.world.pause = self.world.why_blind = None
        self.world.break_node(name, SRAM)
        midway = Midway(self.world, change, name, leader, nth(moment, skip))
        self.world.run(leader, 14)
        midway.end()
        assert midway.late == [], midway.late
        if midway.has_happened:
            del self.world.violations[known:]  # of the moment that cannot be avoided
        for process in self.processes:
            process.lead.held = process.lead.held if leader.lead.held else process is not leader
        self._tick()

    @rule()
    def lose_ledger(self) -> None:
        self.world.ledger_text = None
        self.world.ledger_version += 1
        self._tick()

    @rule()
    def reset(self) -> None:
        release_all(self.world)
        self._tick()

    @rule()
    def decide_again(self) -> None:
        """Deciding twice is deciding once: with the world as it is, nothing more is found to do."""
        self.failing.clear()
        for _ in range(3):
            self.leader.controller.step()
        body, acts = self.world.ledger_text, self.world.acts()
        self.leader.controller.step()
        assert self.world.ledger_text == body, (self.world.ledger_text, body)
        assert self.world.acts() == acts, acts

    @invariant()
    def nothing_forbidden_was_done(self) -> None:
        assert self.world.violations == [], self.world.violations

    @invariant()
    def the_budget_is_kept(self) -> None:
        holding = [entry for entry in self.world.entries() if entries.holds_slot(entry)]
        assert len(holding) <= _RULES.budget.max_concurrent
        groups = [entry.group for entry in holding if entry.group]
        assert len(set(groups)) == len(groups)
        open_nodes = [entry.node for entry in self.world.entries() if entry.outcome is None]
        assert len(set(open_nodes)) == len(open_nodes)

    @invariant()
    def a_mark_is_never_left_where_the_group_cannot_act_on_it(self) -> None:
        for entry in self.world.entries():
            if entry.outcome is Outcome.FAILED and entry.unmarked_at is not None:
                assert entry.called_at is not None

    @precondition(lambda self: self.world.history)
    @invariant()
    def nothing_goes_backwards(self) -> None:
        last = self.world.history[-1]
        for entry in last.entries:
            assert entry.outcome is None or entry.ended_at is not None
            assert entries.holds_slot(entry) is False or entry.admitted_at is not None

    def teardown(self) -> None:
        """Let all be well again: then everything ends, or waits for somebody who has a name."""
        if not hasattr(self, "processes"):
            return
        world = self.world
        self.failing.clear()
        world.why_blind = world.pause = None
        for group in world.groups.values():
            group.suspended.clear()
            for member in group.members.values():
                member.state = member.state if member.state in ("InService", "Terminating", "Pending") else "InService"
        for node in world.nodes.values():
            node.blind = None
        process = self.leader
        for _ in range(40):
            world.run(process, 20)
            world.advance(160)
        snapshot = process.controller.snapshot
        assert snapshot.trouble is None
        assert world.violations == [], world.violations
        waiting = {decision.node: decision for decision in snapshot.decisions}
        for entry in world.entries():
            if entry.outcome is None and world.now - (entry.entered_at or world.now) > timedelta(minutes=30):
                allowed = _MAY_HOLD if entries.holds_slot(entry) else _MAY_WAIT
                assert waiting[entry.node].why in allowed, (waiting[entry.node], entry)


TestFleet = Fleet.TestCase
TestFleet.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
