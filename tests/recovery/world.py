"""An in-memory world behind the ports: Nodes, a ledger with versions, Auto Scaling groups that replace, NodeClaims.

Its clock moves only when it is told to. `hook` is called before and after each call of a port: it may raise PortError
(the call fails), or Killed (the process dies right there).
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from recovery.controller import Controller
from recovery.model import Entry, FaultSeen, LedgerBody, Outcome, State
from recovery.policy import Rules
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL
from tests.recovery.machines import DMA, KINDS, T0, TYPE, SimGroup, SimMember, SimNode
from tests.recovery.simulated import SimCloud, SimFleet, SimKarpenter, SimLead, SimLedger, SimNodes, SimPoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.decision import Decision
    from recovery.ports import PortError


class Killed(BaseException):
    """The process was killed with -9."""


class World:
    def __init__(self, *, seed: int = 0) -> None:
        self.now = T0
        self.nodes: dict[str, SimNode] = {}
        self.groups: dict[str, SimGroup] = {}
        self.why_blind: str | None = None
        self.fleet: int | None = None
        self.pause: str | None = None
        self.ledger_text: LedgerBody | None = None
        self.ledger_version = 0
        self.calls: list[tuple[str, str]] = []
        self.events: list[tuple[str, str, str]] = []
        self.points: list[dict[str, int]] = []
        self.reads = 0
        self.marked_at: dict[str, datetime] = {}
        self.history: list[LedgerBody] = []
        self.claims: set[str] = set()
        self.pool_sizes: dict[str, int] = {}
        self.tags: dict[str, str] = {}
        self.violations: list[str] = []
        self.hook: Callable[[str, str], None] = lambda _name, _when: None
        self._begun: set[tuple[str, str, str]] = set()
        self._ids = itertools.count(seed * 1000 + 1)

    # What happens in it.

    def instance_id(self) -> str:
        return f"i-{next(self._ids):017x}"

    def add_group(self, name: str, size: int, **options: Any) -> list[str]:
        group = self.groups[name] = SimGroup(name, size, **options)
        return [self.add_member(group).name for _ in range(size)]

    def add_member(self, group: SimGroup, *, age: timedelta = timedelta(days=3)) -> SimNode:
        instance = self.instance_id()
        group.members[instance] = SimMember(instance)
        self.tags[instance] = group.name
        return self.add_node(instance, created_at=self.now - age)

    def add_node(self, instance: str, *, created_at: datetime) -> SimNode:
        name = f"node-{instance[-4:]}"
        node = SimNode(name, f"uid-{instance}", instance, instance, created_at, seen_instance=instance)
        self.nodes[name] = node
        return node

    def break_node(self, name: str, reason: str = DMA, *, since: datetime | None = None, serial: str = "") -> None:
        node = self.nodes[name]
        fault_class, action = KINDS[reason]
        began = since or self.now
        node.faults.append(FaultSeen(type=TYPE, reason=reason, fault_class=fault_class, action=action, since=began))
        node.condition = "True"
        named = f" serial-num={serial}" if serial else ""
        node.message = "; ".join(filter(None, [node.message, f"{reason}{named} (1 line)"]))
        node.version += 1

    def refuse(self, calls: dict[str, PortError]) -> None:
        """Have calls fail before anything is done, from now on; {} = none."""

        def hook(call: str, when: str) -> None:
            if when == "before" and call in calls:
                raise calls[call]

        self.hook = hook

    def occupy(self, name: str) -> None:
        """Put a pod on a node whose eviction a budget refuses."""
        self.nodes[name].pods, self.nodes[name].stuck = ["default/a"], {"default/a": "no"}

    def launch(self, group: str, state: str = "InService") -> str:
        """Have a group list a new instance."""
        instance = self.instance_id()
        self.groups[group].members[instance] = SimMember(instance, state)
        return instance

    def heal(self, name: str) -> None:
        node = self.nodes[name]
        node.faults, node.condition, node.message = [], "False", ""
        node.version += 1

    def clear(self, name: str, reason: str) -> None:
        """Have one fault end; the condition stays as long as another of its type is there."""
        node = self.nodes[name]
        node.faults = [fault for fault in node.faults if fault.reason != reason]
        node.condition = "True" if node.faults else "False"
        node.message = "; ".join(f"{fault.reason} (1 line)" for fault in node.faults)
        node.version += 1

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        for group in self.groups.values():
            if group.replaces:
                self._play(group)
        for node in self.nodes.values():
            self._boot(node)

    def _play(self, group: SimGroup) -> None:
        blocked = {name.lower() for name in group.suspended}
        for member in list(group.members.values()):
            if member.state == "Pending" and member.until is not None and self.now >= member.until:
                member.state, member.until = "InService", None
                self.add_node(member.instance, created_at=self.now)
            if member.state == "Terminating" and member.until is not None and self.now >= member.until:
                self.remove(group, member.instance)
            if member.health == "Unhealthy" and member.state == "InService":
                if blocked & {"replaceunhealthy", "terminate"}:
                    continue
                if not group.launches_first or self._serving(group) >= group.desired:
                    member.state = "Terminating"
                    member.until = self.now + timedelta(seconds=group.terminate_seconds)
        wanted = group.desired
        if group.launches_first:
            wanted += sum(m.health == "Unhealthy" and m.state == "InService" for m in group.members.values())
        present = sum(m.state in ("Pending", "InService") for m in group.members.values())
        if present < wanted and "launch" not in blocked and group.failed is None:
            instance = self.instance_id()
            until = self.now + timedelta(seconds=group.launch_seconds)
            group.members[instance] = SimMember(instance, "Pending", until=until)
            self.tags[instance] = group.name

    def _serving(self, group: SimGroup) -> int:
        return sum(m.state == "InService" and m.health == "Healthy" for m in group.members.values())

    def _boot(self, node: SimNode) -> None:
        if node.back_at is not None and self.now >= node.back_at:
            node.back_at, node.blind, node.ready, node.boot = None, None, True, node.boot + "+"
            node.version += 1
            if node.reboot_helps:
                self.heal(node.name)

    def remove(self, group: SimGroup, instance: str) -> None:
        del group.members[instance]
        self.tags.pop(instance, None)
        for node in [node for node in self.nodes.values() if node.instance == instance]:
            del self.nodes[node.name]

    def node_of(self, instance: str) -> SimNode:
        return next(node for node in self.nodes.values() if node.instance == instance)

    # What tests ask for.

    def process(self, rules: Rules | None = None, **options: Any) -> Process:
        return Process(self, rules or Rules(), **options)

    def run(self, process: Process, seconds: float) -> None:
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            delay = process.controller.step()
            self.advance(min(delay, max(0.01, (end - self.now).total_seconds())))

    def run_to_the_end(self, process: Process, seconds: float) -> None:
        """Run until all that was begun is closed and no fence is left, at most for so long."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.advance(process.controller.step())
            fresh = self.entries()
            if fresh and all(entry.outcome is not None and not entry.added for entry in fresh):
                return

    def entries(self, *, would: bool = False) -> list[Entry]:
        body = self.ledger_text or LedgerBody()
        return [entry for entry in body.entries if entry.would is would]

    def entry(self, name: str) -> Entry:
        return [entry for entry in self.entries() if entry.node == name][-1]

    def outcomes(self) -> list[Outcome | None]:
        return [entry.outcome for entry in self.entries()]

    def acts(self) -> list[tuple[str, str]]:
        """Calls that change machines."""
        return [call for call in self.calls if call[0] in ("mark", "unmark", "terminate", "reboot", "claim")]

    def check(self, instance: str, act: str) -> None:
        """Write down what must never happen when a machine is taken away."""
        body = self.ledger_text or LedgerBody()
        reasons = {entry.reason for entry in body.entries if entry.instance == instance and entry.outcome is None}
        for node in [node for node in self.nodes.values() if node.instance == instance]:
            is_seen = node.blind is None and self.why_blind is None
            wrong = {
                "for a fault that is not there": is_seen and not reasons & {fault.reason for fault in node.faults},
                "its breaker has tripped": reasons & body.tripped.keys(),
                "not fenced": not node.is_tainted or not node.unschedulable,
                "not faulty": node.condition != "True",
                "opted out": node.labels.get(RECOVERY_LABEL) == RECOVERY_DISABLED,
                "not enabled": not node.enabled,
                "left to the platform": node.platform_repair,
                "other instance": node.provider_instance not in (None, instance),
            }
            self.violations += [f"{act} {node.name}: {what}" for what, is_so in wrong.items() if is_so]
        if self.pause is not None:
            self.violations.append(f"{act} {instance}: paused")
        if not any(entry.instance == instance and entry.outcome is None for entry in self.entries()):
            self.violations.append(f"{act} {instance}: not in the ledger")

    def check_begun(self, body: LedgerBody) -> None:
        """Write down what must never happen when a node is fenced or admitted."""
        for entry in body.entries:
            state = entry.state
            begun = (entry.id, state, entry.reason)
            if entry.would or state not in (State.FENCED, State.ADMITTED) or begun in self._begun:
                continue
            self._begun.add(begun)  # a ledger that was lost may bring it once more
            node = self.nodes.get(entry.node)
            if node is None or entry.outcome is not None:
                continue
            wrong = {
                "blind": node.blind is not None or self.why_blind is not None,
                "paused": self.pause is not None,
                "opted out": node.labels.get(RECOVERY_LABEL) == RECOVERY_DISABLED,
                "not enabled": not node.enabled,
                "left to the platform": node.platform_repair,
                "no condition": node.condition != "True",
                "no metric": all(fault.reason != entry.reason for fault in node.faults),
                "another instance": node.instance != entry.instance,
                "identity in doubt": node.provider_instance not in (None, node.instance),
                "tripped": entry.reason in (self.ledger_text or LedgerBody()).tripped,
            }
            self.violations += [f"{state} {node.name}: {what}" for what, is_so in wrong.items() if is_so]

    def told(self, event: str) -> list[tuple[str, str]]:
        return [(node, message) for node, reason, message in self.events if reason == event]


class Process:
    """One process of recovery: its own handles on the world, its own lead."""

    def __init__(self, world: World, rules: Rules, **options: Any) -> None:
        self.lead = SimLead()
        self.ledger = SimLedger(world)
        self.controller = Controller(
            rules=rules,
            fleet=SimFleet(world),
            nodes=SimNodes(world),
            ledger=self.ledger,
            lead=self.lead,
            cloud=SimCloud(world),
            karpenter=SimKarpenter(world),
            points=SimPoints(world),
            **options,
        )

    def decision(self, name: str) -> Decision | None:
        return next((each for each in self.controller.snapshot.decisions if each.node == name), None)

    def why(self, name: str) -> str | None:
        decision = self.decision(name)
        return None if decision is None else decision.why.value


def fleet(size: int = 10, rules: Rules | None = None) -> tuple[World, list[str], Process]:
    """Make a quiet fleet of one group, watched for 5 s."""
    world = World()
    names = world.add_group("g", size)
    process = world.process(rules)
    world.run(process, 5)
    return world, names, process


def with_entry(world: World, name: str, **changes: Any) -> None:
    """Change a node's entry in the ledger, as another leader would have."""
    body = world.ledger_text or LedgerBody()
    changed = tuple(replace(entry, **changes) if entry.node == name else entry for entry in body.entries)
    world.ledger_text = replace(body, entries=changed)
    world.ledger_version += 1
