"""Whatever faults a node has at once, come and are cleared: nothing is done about one because of another."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from recovery import entries
from recovery.decision import Why
from recovery.model import LedgerBody, State
from recovery.policy import Budget, Policy, Rules
from runtime.durations import Duration
from runtime.vocabulary import Action
from tests.recovery.machines import DMA, HANG, RESET, SLOW, SRAM, SimNode
from tests.recovery.releasing import release_all
from tests.recovery.world import World

_RULES = Rules(
    policies={SLOW: Policy(confirm_for=Duration(20)), RESET: Policy(drain_timeout=Duration(60))},
    budget=Budget(max_per_group=2, max_unhealthy_percent=50, max_per_hour=40, storm_nodes=5),
)
_REASONS = st.sampled_from([DMA, SRAM, SRAM, HANG, SLOW, RESET])
_GRAVE = st.sampled_from([DMA, SRAM, SLOW, RESET])
_BEFORE = (State.FENCED, State.ADMITTED, State.NOTIFIED, State.DRAINED)


class SeveralFaults(RuleBasedStateMachine):
    """Two groups of nodes that are hard to drain, so that much may come while a machine is on its way."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.world.add_group("a", 10)
        self.world.add_group("b", 10)
        self.process = self.world.process(_RULES)
        for name in self.world.nodes:
            self.world.occupy(name)

    def _node(self, number: int) -> SimNode:
        """Choose a node, mostly one that has a fault already."""
        nodes = sorted(self.world.nodes.values(), key=lambda node: node.name)
        struck = [node for node in nodes if node.faults]
        return struck[number % len(struck)] if struck and number % 5 else nodes[number % len(nodes)]

    def _break(self, node: SimNode, reason: str) -> None:
        if node.name in self.world.nodes and all(fault.reason != reason for fault in node.faults):
            self.world.break_node(node.name, reason)

    def _tick(self, seconds: float = 2) -> None:
        self.world.run(self.process, seconds)

    @rule(seconds=st.sampled_from([1, 5, 15, 15, 60, 300]))
    def go_on(self, seconds: int) -> None:
        self._tick(seconds)

    @rule(number=st.integers(0, 60), reason=_REASONS)
    def break_one(self, number: int, reason: str) -> None:
        self._break(self._node(number), reason)
        self._tick()

    @rule(number=st.integers(0, 60), reason=_REASONS, other=_REASONS)
    def break_one_twice_and_clear_the_first(self, number: int, reason: str, other: str) -> None:
        node = self._node(number)
        self._break(node, reason)
        self._tick(15)
        self._break(node, other)
        self._tick(15)
        if node.name in self.world.nodes:
            self.world.clear(node.name, reason)
        self._tick()

    @rule(number=st.integers(0, 60), which=st.integers(0, 4))
    def clear_one(self, number: int, which: int) -> None:
        node = self._node(number)
        if node.faults:
            self.world.clear(node.name, node.faults[which % len(node.faults)].reason)
        self._tick()

    @rule(number=st.integers(0, 60), reason=_REASONS, size=st.integers(4, 9))
    def storm(self, number: int, reason: str, size: int) -> None:
        """A reason comes on many nodes at once, some of which have another fault already."""
        for offset in range(size):
            self._break(self._node(number * 5 + 1 if offset % 2 else number * 5 + offset * 5), reason)
        self._tick()

    @rule(number=st.integers(0, 60), own=_GRAVE, reason=_GRAVE)
    def storm_over_a_node_with_a_fault_of_its_own(self, number: int, own: str, reason: str) -> None:
        node = self._node(number)
        self._break(node, own)
        self._tick(number % 20 + 1)
        self._break(node, reason)
        self.storm(number, reason, 8)
        self._tick(45)
        self._nobody_waits_for_a_breaker_in_vain()

    @rule(number=st.integers(0, 60), blind=st.sampled_from([None, None, "connection refused"]))
    def blind_one(self, number: int, blind: str | None) -> None:
        self._node(number).blind = blind
        self._tick()

    @rule()
    def reset(self) -> None:
        release_all(self.world)
        self._tick()

    @invariant()
    def nothing_forbidden_was_done(self) -> None:
        assert self.world.violations == [], self.world.violations

    @invariant()
    def an_entry_that_can_be_undone_is_about_a_fault_that_is_there(self) -> None:
        for entry in self.world.entries():
            node = self.world.nodes.get(entry.node)
            if node is None or node.blind is not None or entry.outcome is not None or entry.state not in _BEFORE:
                continue
            assert any(fault.reason == entry.reason for fault in node.faults), (entry.reason, node.faults)

    @invariant()
    def a_fence_is_never_away_from_a_confirmed_grave_fault_that_took_over(self) -> None:
        for entry in self.world.entries():
            node = self.world.nodes.get(entry.node)
            if node is not None and entry.outcome is None and entry.state in _BEFORE:
                assert node.is_tainted

    def teardown(self) -> None:
        """Let time pass: what is left alone for a breaker has no other fault that could be acted on."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for node in world.nodes.values():
            node.blind = None
        world.run(self.process, 60)
        self._nobody_waits_for_a_breaker_in_vain()
        assert world.violations == [], world.violations

    def _nobody_waits_for_a_breaker_in_vain(self) -> None:
        world = self.world
        tripped = (world.ledger_text or LedgerBody()).tripped
        holding = {entry.node for entry in world.entries() if entries.holds_slot(entry)}
        for decision in self.process.controller.snapshot.decisions:
            node = world.nodes.get(decision.node)
            if node is None or decision.why is not Why.BREAKER_TRIPPED or decision.node in holding:
                continue
            free = [fault for fault in node.faults if fault.action is not Action.NONE and fault.reason not in tripped]
            stopped = [fault for fault in node.faults if fault.action is Action.REPLACE and fault.reason in tripped]
            assert not free or (stopped and all(fault.action is Action.REBOOT for fault in free)), node.faults


TestSeveralFaults = SeveralFaults.TestCase
TestSeveralFaults.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
