"""The ports, as handles on the in-memory world."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from recovery.fence import copy_of, is_fenced, to_fence, to_lift
from recovery.model import Entry, Group, LedgerBody, Member, NodeFacts, Seen, Sighting
from recovery.ports import DrainProgress, PortError
from runtime.vocabulary import RECOVERY_ANNOTATION
from tests.recovery.machines import KINDS, SimMember, SimNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recovery.world import World

_Answer = TypeVar("_Answer")


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

    def call(self, name: str, act: Callable[[], _Answer]) -> _Answer:
        self.world.hook(name, "before")
        answer = act()
        self.world.hook(name, "after")
        return answer


class SimFleet(_Port):
    def look(self) -> Sighting:
        world = self.world
        if world.why_blind is not None:
            return Sighting(seen={}, blind={}, why_blind=world.why_blind, fleet=world.fleet)
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
        return self.call("read", lambda: self._node(name).facts())

    def fenced(self) -> list[NodeFacts]:
        def act() -> list[NodeFacts]:
            self.world.calls.append(("list", ""))
            return [facts for facts in (node.facts() for node in self.world.nodes.values()) if is_fenced(facts)]

        return self.call("fenced", act)

    def fence(self, node: NodeFacts, entry: Entry) -> tuple[str, ...]:
        def act() -> tuple[str, ...]:
            patch, added = to_fence(node, entry)
            self._patch(node, patch)
            self.world.calls.append(("fence", node.name))
            return added

        return self.call("fence", act)

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

        return self.call("drain", act)

    def left(self, node: NodeFacts) -> DrainProgress:
        return self.call("left", lambda: DrainProgress(left=tuple(self._node(node.name).pods), blocked={}))

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

        return self.call("load", act)

    def save(self, body: LedgerBody) -> None:
        def act() -> None:
            if self._version != self.world.ledger_version:
                raise PortError("409 Conflict", conflict=True)
            self.world.check_begun(body)
            self.world.ledger_version += 1
            self._version = self.world.ledger_version
            self.world.ledger_text = body
            self.world.history.append(body)

        self.call("save", act)

    def paused(self) -> str | None:
        try:
            return self.call("paused", lambda: self.world.pause)
        except PortError as error:
            return f"cannot be read: {error}"

    def now(self) -> datetime:
        return self.world.now


class SimCloud(_Port):
    def begin_round(self) -> None:
        return

    def group_of(self, instance: str) -> str | None:
        def act() -> str | None:
            self.world.calls.append(("group_of", instance))
            return next((g.name for g in self.world.groups.values() if instance in g.members), None)

        return self.call("group_of", act)

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

        return self.call("group", act)

    def set_unhealthy(self, instance: str) -> None:
        def act() -> None:
            self.world.check(instance, "mark")
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
            self.world.check(instance, "terminate")
            self.world.calls.append(("terminate", instance))
            member = self._member(instance)
            member.state = "Terminating"
            member.until = self.world.now + timedelta(seconds=20)

        self.call("terminate", act)

    def reboot(self, instance: str) -> None:
        def act() -> None:
            self.world.check(instance, "reboot")
            self.world.calls.append(("reboot", instance))
            node = self.world.node_of(instance)
            node.back_at, node.ready = self.world.now + timedelta(seconds=90), False
            node.blind = "connection refused"

        self.call("reboot", act)

    def group_by_tag(self, instance: str) -> str | None:
        return self.call("group_by_tag", lambda: self.world.tags.get(instance))

    def running_with_tag(self, group: str) -> frozenset[str]:
        def act() -> frozenset[str]:
            return frozenset(m.instance for m in self.world.groups[group].members.values() if m.state != "Terminating")

        return self.call("running_with_tag", act)

    def is_terminated(self, instance: str) -> bool:
        def act() -> bool:
            return all(instance not in group.members for group in self.world.groups.values())

        return self.call("is_terminated", act)

    def _member(self, instance: str) -> SimMember:
        for group in self.world.groups.values():
            if instance in group.members:
                return group.members[instance]
        raise PortError(f"Instance Id not found - {instance}", gone=True)


class SimKarpenter(_Port):
    def terminate(self, node: NodeFacts) -> None:
        def act() -> None:
            self._check_gone(node.name, node.provider_id)
            self.world.calls.append(("claim", node.name))
            self.world.nodes[node.name].deleting = True

        self.call("claim", act)

    def is_gone(self, node: str, provider_id: str) -> bool:
        def act() -> bool:
            self._check_gone(node, provider_id)
            return provider_id not in self.world.claims

        return self.call("is_gone", act)

    def _check_gone(self, name: str, provider_id: str) -> None:
        node = self.world.nodes.get(name)
        if node is not None and not node.deleting and provider_id not in self.world.claims:
            raise PortError(f"no NodeClaim has the providerID {provider_id} of Node {name}", unsent=True)

    def size(self, nodepool: str) -> int | None:
        return self.call("size", lambda: self.world.pool_sizes.get(nodepool))


class SimPoints(_Port):
    def publish(self, counts: dict[str, int], nodes: dict[str, tuple[str, ...]]) -> None:
        assert {reason: len(names) for reason, names in nodes.items()}.items() <= counts.items()
        self.world.points.append(counts)
