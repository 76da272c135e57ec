"""An in-memory world behind the ports: Nodes, a ledger with versions, Auto Scaling groups that replace, NodeClaims.

Its clock moves only when it is told to. `hook` is called before and after each call of a port: it may raise PortError (the
call fails), or Killed (the process dies right there).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from recovery.controller import Controller
from recovery.fence import copy_of, is_fenced, to_fence, to_lift
from recovery.model import Entry, FaultSeen, Group, LedgerBody, Member, NodeFacts, Outcome, Seen, Sighting, Taint
from recovery.policy import Rules
from recovery.ports import DrainProgress, PortError
from runtime.vocabulary import RECOVERY_ANNOTATION, UNHEALTHY_TAINT, Action, FaultClass

T0 = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TYPE = "NeuronHasError"
DMA = "NeuronHasError_DMA_ERROR"
SRAM = "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"
HANG = "NeuronHasError_HANG_ON_COLLECTIVES"
SLOW = "NeuronHasError_SLOW"
RESET = "NeuronHasError_RESET"
KINDS = {
    DMA: (FaultClass.DEAD, Action.REPLACE),
    SRAM: (FaultClass.POISONED, Action.REPLACE),
    HANG: (FaultClass.SUSPECT, Action.NONE),
    SLOW: (FaultClass.DEGRADED, Action.REPLACE),
    RESET: (FaultClass.DEAD, Action.REBOOT),
}
Hook = Callable[[str, str], None]


class Killed(BaseException):
    """The process was killed with -9."""


@dataclass
class SimNode:
    name: str
    uid: str
    instance: str | None
    provider_instance: str | None
    created_at: datetime
    boot: str = "boot-1"
    version: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    condition: str = "False"
    message: str = ""
    ready: bool = True
    deleting: bool = False
    pods: list[str] = field(default_factory=list)
    stuck: dict[str, str] = field(default_factory=dict)  # pods whose eviction a budget refuses
    faults: list[FaultSeen] = field(default_factory=list)
    enabled: bool = True
    platform_repair: bool = False
    blind: str | None = None
    seen_instance: str | None = None

    def facts(self) -> NodeFacts:
        return NodeFacts(
            name=self.name,
            uid=self.uid,
            resource_version=str(self.version),
            created_at=self.created_at,
            instance=self.instance,
            provider_instance=self.provider_instance,
            provider_id=f"aws:///us-east-1a/{self.provider_instance}",
            labels=dict(self.labels),
            annotations=dict(self.annotations),
            taints=self.taints,
            unschedulable=self.unschedulable,
            conditions={TYPE: (self.condition, "", self.message), "Ready": (str(self.ready), "", "")},
            boot=self.boot,
            ready=self.ready,
            deleting=self.deleting,
        )

    @property
    def is_tainted(self) -> bool:
        return any(taint.key == UNHEALTHY_TAINT for taint in self.taints)


@dataclass
class SimMember:
    instance: str
    state: str = "InService"
    health: str = "Healthy"
    protected: bool = False
    until: datetime | None = None


@dataclass
class SimGroup:
    name: str
    desired: int
    members: dict[str, SimMember] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    operator: str | None = None
    failed: str | None = None
    launches_first: bool = False
    replaces: bool = True
    terminate_seconds: float = 20
    launch_seconds: float = 40


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
        self.hook: Hook = lambda _name, _when: None
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

    def heal(self, name: str) -> None:
        node = self.nodes[name]
        node.faults, node.condition, node.message = [], "False", ""
        node.version += 1

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        for group in self.groups.values():
            if group.replaces:
                self._play(group)

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

    def decision(self, name: str) -> Any:
        return next((each for each in self.controller.snapshot.decisions if each.node == name), None)

    def why(self, name: str) -> str | None:
        decision = self.decision(name)
        return None if decision is None else decision.why.value


class SimLead:
    held = True
    fresh = True

    def is_held(self) -> bool:
        return self.held

    def is_fresh(self) -> bool:
        return self.held and self.fresh


class _Port:
    def __init__(self, world: World) -> None:
        self.world = world

    def call(self, name: str, act: Callable[[], Any]) -> Any:
        self.world.hook(name, "before")
        answer = act()
        self.world.hook(name, "after")
        return answer


class SimFleet(_Port):
    def look(self) -> Sighting:
        world = self.world
        self.world.hook("look", "before")
        if world.why_blind is not None:
            return Sighting(seen={}, blind={}, why_blind=world.why_blind, fleet=None)
        seen = {name: self._seen(node) for name, node in world.nodes.items() if node.blind is None}
        blind = {name: node.blind for name, node in world.nodes.items() if node.blind is not None}
        fleet = len(world.nodes) if world.fleet is None else world.fleet
        return Sighting(seen=seen, blind=blind, why_blind=None, fleet=fleet)

    def _seen(self, node: SimNode) -> Seen:
        return Seen(
            node=node.name,
            faults=tuple(node.faults),
            enabled=node.enabled,
            platform_repair=node.platform_repair,
            instance=node.seen_instance,
            reasons=tuple(KINDS),
        )


class SimNodes(_Port):
    def read(self, name: str) -> NodeFacts:
        self.world.reads += 1
        return self.call("read", lambda: self._node(name).facts())  # type: ignore[no-any-return]

    def fenced(self) -> list[NodeFacts]:
        def act() -> list[NodeFacts]:
            self.world.calls.append(("list", ""))
            return [facts for facts in (node.facts() for node in self.world.nodes.values()) if is_fenced(facts)]

        return self.call("fenced", act)  # type: ignore[no-any-return]

    def fence(self, node: NodeFacts, entry: Entry) -> tuple[str, ...]:
        def act() -> tuple[str, ...]:
            patch, added = to_fence(node, entry)
            self._patch(node, patch)
            self.world.calls.append(("fence", node.name))
            return added

        return self.call("fence", act)  # type: ignore[no-any-return]

    def annotate(self, node: NodeFacts, entry: Entry) -> None:
        def act() -> None:
            mine = self._node(node.name)
            if mine.uid != node.uid:
                raise PortError("another uid", conflict=True)
            mine.annotations[RECOVERY_ANNOTATION] = copy_of(entry)
            mine.version += 1

        self.call("annotate", act)

    def lift(self, node: NodeFacts, added: tuple[str, ...]) -> None:
        def act() -> None:
            self._patch(node, to_lift(node, added))
            self.world.calls.append(("lift", node.name))

        self.call("lift", act)

    def drain(self, node: NodeFacts) -> DrainProgress:
        def act() -> DrainProgress:
            mine = self._node(node.name)
            self.world.calls.append(("drain", node.name))
            left = tuple(mine.pods)
            mine.pods = [pod for pod in mine.pods if pod in mine.stuck]
            return DrainProgress(left=left, blocked={pod: mine.stuck[pod] for pod in left if pod in mine.stuck})

        return self.call("drain", act)  # type: ignore[no-any-return]

    def tell(self, node: str, reason: str, message: str, *, warning: bool) -> None:
        assert warning == (reason in ("Blocked", "Disagree", "ReplacementBlocked", "BreakerTripped"))
        self.world.events.append((node, reason, message))

    def _node(self, name: str) -> SimNode:
        if name not in self.world.nodes:
            raise PortError(f"no Node {name}", gone=True)
        return self.world.nodes[name]

    def _patch(self, node: NodeFacts, patch: dict[str, Any]) -> None:
        if not patch:
            return
        mine = self._node(node.name)
        if str(mine.version) != node.resource_version:
            raise PortError("409 Conflict", conflict=True)
        mine.version += 1
        for key, value in patch["metadata"].get("annotations", {}).items():
            mine.annotations.pop(key, None)
            if value is not None:
                mine.annotations[key] = value
        spec = patch.get("spec", {})
        mine.unschedulable = spec.get("unschedulable", mine.unschedulable)
        mine.taints = tuple(spec.get("taints", mine.taints))


class SimLedger(_Port):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._version: int | None = None

    def load(self) -> LedgerBody | None:
        def act() -> LedgerBody | None:
            self._version = self.world.ledger_version
            return self.world.ledger_text

        return self.call("load", act)  # type: ignore[no-any-return]

    def save(self, body: LedgerBody) -> None:
        def act() -> None:
            if self._version != self.world.ledger_version:
                raise PortError("409 Conflict", conflict=True)
            self.world.ledger_version += 1
            self._version = self.world.ledger_version
            self.world.ledger_text = body
            self.world.history.append(body)

        self.call("save", act)

    def paused(self) -> str | None:
        return self.world.pause

    def now(self) -> datetime:
        return self.world.now


class SimCloud(_Port):
    def begin_round(self) -> None:
        return

    def group_of(self, instance: str) -> str | None:
        def act() -> str | None:
            self.world.calls.append(("group_of", instance))
            return next((g.name for g in self.world.groups.values() if instance in g.members), None)

        return self.call("group_of", act)  # type: ignore[no-any-return]

    def group(self, name: str, *, failed_since: datetime | None) -> Group | None:
        def act() -> Group | None:
            self.world.calls.append(("group", name))
            group = self.world.groups.get(name)
            if group is None:
                return None
            return Group(
                name=name,
                desired=group.desired,
                members=tuple(
                    Member(instance=m.instance, state=m.state, health=m.health, protected=m.protected)
                    for m in group.members.values()
                ),
                suspended=tuple(sorted(group.suspended)),
                operator=group.operator,
                failed_activity=group.failed if failed_since is not None else None,
            )

        return self.call("group", act)  # type: ignore[no-any-return]

    def set_unhealthy(self, instance: str) -> None:
        def act() -> None:
            self.world.calls.append(("mark", instance))
            self.world.marked_at[instance] = self.world.now
            self._member(instance).health = "Unhealthy"

        self.call("set_unhealthy", act)

    def set_healthy(self, instance: str) -> None:
        def act() -> None:
            self.world.calls.append(("unmark", instance))
            self._member(instance).health = "Healthy"

        self.call("set_healthy", act)

    def terminate(self, instance: str) -> None:
        def act() -> None:
            self.world.calls.append(("terminate", instance))
            member = self._member(instance)
            member.state = "Terminating"
            member.until = self.world.now + timedelta(seconds=20)

        self.call("terminate", act)

    def reboot(self, instance: str) -> None:
        self.call("reboot", lambda: self.world.calls.append(("reboot", instance)))

    def group_by_tag(self, instance: str) -> str | None:
        return self.call("group_by_tag", lambda: self.world.tags.get(instance))  # type: ignore[no-any-return]

    def running_with_tag(self, group: str) -> frozenset[str]:
        def act() -> frozenset[str]:
            return frozenset(m.instance for m in self.world.groups[group].members.values() if m.state != "Terminating")

        return self.call("running_with_tag", act)  # type: ignore[no-any-return]

    def is_terminated(self, instance: str) -> bool:
        def act() -> bool:
            return all(instance not in group.members for group in self.world.groups.values())

        return self.call("is_terminated", act)  # type: ignore[no-any-return]

    def _member(self, instance: str) -> SimMember:
        for group in self.world.groups.values():
            if instance in group.members:
                return group.members[instance]
        raise PortError(f"Instance Id not found - {instance}", gone=True)


class SimKarpenter(_Port):
    def terminate(self, node: NodeFacts) -> None:
        def act() -> None:
            self.world.calls.append(("claim", node.name))
            self.world.nodes[node.name].deleting = True

        self.call("claim", act)

    def is_gone(self, node: str, provider_id: str) -> bool:
        return self.call("is_gone", lambda: provider_id not in self.world.claims)  # type: ignore[no-any-return]

    def size(self, nodepool: str) -> int | None:
        return self.call("size", lambda: self.world.pool_sizes.get(nodepool))  # type: ignore[no-any-return]


class SimPoints(_Port):
    def publish(self, counts: dict[str, int], nodes: dict[str, tuple[str, ...]]) -> None:
        assert {reason: len(names) for reason, names in nodes.items()}.items() <= counts.items()
        self.world.points.append(counts)


def with_entry(world: World, name: str, **changes: Any) -> None:
    """Change a node's entry in the ledger, as another leader would have."""
    body = world.ledger_text or LedgerBody()
    changed = tuple(replace(entry, **changes) if entry.node == name else entry for entry in body.entries)
    world.ledger_text = replace(body, entries=changed)
    world.ledger_version += 1
