"""Whatever happens to a node, in whatever order: a fault never heals by silence, and a restart changes nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition
from hypothesis.stateful import rule as step

from detector.book import MOST_DEVICES, MOST_ENTRIES
from runtime.vocabulary import ClearsOn, FaultClass, Reason, Status
from tests.detector.builders import DAEMON, KERN, USER, Node, at, catalog, rule, threshold

FAULTS = (
    rule(r"a(?: on (?P<device>\w+))?$", reason="A", clears_on=ClearsOn.REBOOT, fault_class=FaultClass.SUSPECT),
    rule(r"b(?: on (?P<device>\w+))?$", reason="B", clears_on=ClearsOn.REPLACEMENT, fault_class=FaultClass.POISONED),
    rule(r"c(?: on (?P<device>\w+))?$", reason="C", clears_on=ClearsOn.OPERATOR, fault_class=FaultClass.DEAD),
    rule(r"d(?: on (?P<device>\w+))?$", reason="D", clears_on=ClearsOn.REBOOT, condition="Other"),
    rule(r"NEURON_HW_ERR=E", reason="E", clears_on=ClearsOn.REPLACEMENT, condition="Other"),
    rule(r"f(?: on (?P<device>\w+))?$", reason="F", threshold=threshold(3, 20), condition="Third"),
)
ODD = rule(r"t(?: on (?P<device>\w+))?$", reason="T", condition=None)
ALL, FEW = catalog(*FAULTS, ODD), catalog(FAULTS[0], ODD)
KINDS = {each.reason: each.condition for each in FAULTS}
CLEARS_ON = {each.reason: each.clears_on for each in FAULTS}
INSTANCES = [f"i-{number:017x}" for number in range(9)]

_devices = st.sampled_from(["", " on x", " on y", " on z"])
_lines = st.builds(str.__add__, st.sampled_from(["a", "b", "c", "d", "t"]), _devices)


class NodeMachine(RuleBasedStateMachine):
    """A node through lines, restarts, reboots, replacements and operators; beside it, what must be active by now."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.boots = 1
        self.instances = 0
        self.loaded = ALL
        self.node = Node(ALL, boot="boot-1", instance=INSTANCES[0])
        self.active: dict[str, set[str]] = {}  # reason -> devices
        self.flapping: dict[str, list[float]] = {}
        self.blind = False
        self.foreign = 0
        self.before = {condition.type: condition for condition in self.node.health.view().conditions}

    def _tick(self) -> float:
        self.now += 1
        return self.now

    @step(texts=st.lists(_lines, min_size=1, max_size=4), writer=st.sampled_from([KERN, USER]))
    def say(self, texts: list[str], writer: int) -> None:
        self.node.say(*texts, seconds=self._tick(), facility=writer)
        known = {each.reason for each in self.loaded.rules}
        for text in texts:
            reason, _, device = text.partition(" on ")
            if (reason := reason.upper()) in KINDS and reason in known:
                self.active.setdefault(reason, set()).add(device)

    @step(texts=st.lists(_lines, min_size=1, max_size=4))
    def a_daemon_says(self, texts: list[str]) -> None:
        self.node.say(*texts, seconds=self._tick(), facility=DAEMON)

    @precondition(lambda self: self.loaded is ALL)
    @step(device=st.sampled_from(["x", "y"]), gap=st.integers(0, 15))
    def flap(self, device: str, gap: int) -> None:
        self.now += gap
        self.node.say(f"f on {device}", seconds=self._tick())
        stamps = [*self.flapping.get(device, []), self.now]
        self.flapping[device] = [stamp for stamp in stamps if self.now - stamp <= 20]
        if len(self.flapping[device]) == 3:
            self.active.setdefault("F", set()).add(device)
        if device in self.active.get("F", ()):
            self.flapping[device] = []

    @precondition(lambda self: self.loaded is ALL)
    @step(whose=st.sampled_from(["ours", "theirs", "nobody's", "malformed"]))
    def a_neuron_line(self, whose: str) -> None:
        named = {"ours": INSTANCES[self.instances], "theirs": "i-" + "f" * 17, "malformed": "i-123"}.get(whose)
        text = "NEURON_HW_ERR=E nd-id=1" + (f" instance-id={named}" if named else "")
        self.node.say(text, seconds=self._tick())
        if whose == "theirs":
            self.foreign += 1
        else:
            self.active.setdefault("E", set()).add("1")

    @step(reason=st.sampled_from([*KINDS, "all", "T", "Unheard"]))
    def clear(self, reason: str) -> None:
        there = bool(self.active) if reason == "all" else reason in self.active
        assert self.node.clear(reason, seconds=self._tick()) is there
        self._end(lambda active: reason in ("all", active))

    @step()
    def lose_sight(self) -> None:
        self.node.health.set_blind("end of file", at(self._tick()))
        self.blind = True

    @step()
    def see(self) -> None:
        self.node.health.set_seeing(at(self._tick()))
        self.blind = False

    @step()
    def heartbeat(self) -> None:
        revision = self.node.health.revision
        assert self.node.health.heartbeat(at(self._tick())) is not self.blind
        assert self.node.health.revision == revision

    @step()
    def tell(self) -> None:
        self.node.told()

    @step(loaded=st.sampled_from([ALL, ALL, FEW]))
    def restart(self, loaded: Any) -> None:
        faults, pending = self.node.health.faults, self.node.health.state(1).pending
        self.node = self.node.restarted(loaded=loaded, seconds=self._tick())
        self.loaded, self.blind, self.foreign = loaded, False, 0
        assert self.node.told() == [], "nothing is announced again"
        assert self.node.health.faults == faults
        assert self.node.health.state(1).pending == pending

    @step()
    def reboot(self) -> None:
        self.boots += 1
        self.node = self.node.restarted(boot=f"boot-{self.boots}", seconds=self._tick())
        self.blind, self.foreign = False, 0
        self._end(lambda active: CLEARS_ON[active] is ClearsOn.REBOOT)
        self.flapping = {device: [] for device in self.flapping}
        assert {told.reason for told in self.node.told()} <= {Reason.FAULT_CLEARED}

    @precondition(lambda self: self.instances < len(INSTANCES) - 1)
    @step()
    def replace(self) -> None:
        self.boots, self.instances = self.boots + 1, self.instances + 1
        how = {"boot": f"boot-{self.boots}", "instance": INSTANCES[self.instances]}
        self.node = self.node.restarted(seconds=self._tick(), **how)
        self.blind, self.foreign = False, 0
        self._end(lambda _: True)
        self.flapping = {}

    def _end(self, ends: Any) -> None:
        """Forget what a named cause has ended: the only place where the test lets a fault go."""
        self.active = {reason: devices for reason, devices in self.active.items() if not ends(reason)}

    @invariant()
    def conditions_say_what_is_active(self) -> None:
        shown = {condition.type: condition for condition in self.node.health.view().conditions}
        for kind, condition in shown.items():
            reasons = {reason for reason in self.active if KINDS[reason] == kind}
            if reasons:
                assert condition.status is Status.TRUE
                assert condition.reason in reasons
                if {"B", "A"} <= reasons:
                    assert condition.reason == "B", "the gravest"
                assert all(reason in condition.message for reason in reasons)
            else:
                assert condition.status is (Status.UNKNOWN if self.blind else Status.FALSE)
            assert len(condition.message) <= 1024
        assert {KINDS[reason] for reason in self.active} <= set(shown), "no fault is without its condition"

    @invariant()
    def the_transition_time_moves_with_the_status_and_only_then(self) -> None:
        shown = {condition.type: condition for condition in self.node.health.view().conditions}
        for kind, condition in shown.items():
            old = self.before.get(kind)
            if old is not None and old.status is condition.status:
                assert condition.last_transition_at == old.last_transition_at
            else:
                assert condition.last_transition_at == at(self.now)
            assert condition.last_heartbeat_at >= condition.last_transition_at
        self.before = shown

    @invariant()
    def each_device_is_one_fault(self) -> None:
        faults = [
            (fault.reason, fault.details.get("device") or fault.details.get("nd-id", ""))
            for fault in self.node.health.faults
        ]
        assert sorted(faults) == sorted(
            (reason, device) for reason, devices in self.active.items() for device in devices
        )
        assert len(faults) <= min(MOST_ENTRIES, MOST_DEVICES * len(KINDS))
        assert self.node.health.view().foreign == self.foreign

    @invariant()
    def the_state_survives_the_disk(self) -> None:
        state = self.node.health.state(5)
        assert msgspec.json.decode(msgspec.json.encode(state), type=type(state)) == state


NodeMachine.TestCase.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)
TestNode = NodeMachine.TestCase
