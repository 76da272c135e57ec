"""What recovery and AWS have to say: recovery's own log, the calls that it makes, and what becomes of the group.

Must never say what has not happened.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from demo.cluster import Node
    from demo.parts import Part
    from demo.screen import Screen
    from tests.aws.surroundings import Aws

MARK: Final = "autoscaling:SetInstanceHealth"
_ASK_SECONDS: Final = 0.1
_WORDS: Final = {
    "fenced": "fenced: {detail}",
    "admitted": "admitted: {detail}",
    "notified": "",
    "drained": "drained: {detail}",
    "terminating": "terminating: {detail}",
    "gone": "gone: {detail}",
    "replaced": "replaced: {detail}",
}
_ALONE: Final = {
    "fenced": "confirmed: {detail}",
    "drained": "",
}
_LIVES: Final = {
    "Pending": ("is launched", ""),
    "InService": ("is in service", "good"),
    "Terminating": ("is being terminated", ""),
}


class RecoveryVoice:
    """Tells of recovery's log.

    Args:
        part: recovery.
        screen: where.
        has_cluster: whether there are Nodes that can be fenced.

    Attributes:
        steps: when each step was told, monotonic seconds; `blocked` is one.
        refusals: what it would not do, and why.
    """

    def __init__(self, part: Part, screen: Screen, *, has_cluster: bool = False) -> None:
        self.steps: dict[str, float] = {}
        self.refusals: list[str] = []
        self._words = _WORDS if has_cluster else _WORDS | _ALONE
        self._part = part
        self._screen = screen

    def __call__(self) -> None:
        """Tell what is new."""
        for line in self._part.news():
            self._tell(line)

    def _tell(self, line: dict[str, Any]) -> None:
        if line["event"] == "blocked":
            self.steps.setdefault("blocked", time.monotonic())
            self.refusals.append(f"{line['why']}: {line['detail']}")
            self._screen.say("recovery", f"Blocked, {line['why']}: {line['detail']}", tone="refused")
        elif line["event"] == "step":
            self.steps.setdefault(line["step"], time.monotonic())
            words = self._words.get(line["step"], f"{line['step']}: {{detail}}")
            if words:
                tone = "good" if line["step"] == "replaced" else ""
                self._screen.say("recovery", words.format(detail=line["detail"]), tone=tone)


class AwsVoice:
    """Tells of the calls that give an instance away, and of the lives of a group's instances.

    Args:
        aws: AWS, played.
        group: whose instances.
        screen: where.
        names: what instances are called, by id; may grow.

    Attributes:
        marked_at: when the first such call came, monotonic seconds; None = none did.
        in_service: when new instances came into service.
    """

    def __init__(self, aws: Aws, group: str, screen: Screen, names: Mapping[str, str]) -> None:
        self.marked_at: float | None = None
        self.in_service: dict[str, float] = {}
        self._aws = aws
        self._group = group
        self._screen = screen
        self._names = names
        self._calls = 0
        self._lives = self._now()

    def __call__(self) -> None:
        """Tell what is new."""
        calls = self._aws.proxy.of(MARK)
        for call in calls[self._calls :]:
            self.marked_at = self.marked_at or call.at
            given = call.parameters
            text = f"is asked: SetInstanceHealth {given['InstanceId']} {given['HealthStatus']}"
            self._screen.say("AWS", text, tone="bad", at=call.at)
        self._calls = len(calls)
        fresh = self._now()
        for instance, life in fresh.items():
            if life != self._lives.get(instance):
                self._say(instance, life)
        for instance in self._lives.keys() - fresh.keys():
            self._screen.say("AWS", f"{self._named(instance)} is gone")
        self._lives = fresh

    def serving(self) -> list[str]:
        """List the instances that are in service."""
        return [instance for instance, life in self._now().items() if life == "InService"]

    def _say(self, instance: str, life: str) -> None:
        if life == "InService":
            self.in_service[instance] = time.monotonic()
        words, tone = _LIVES.get(life, (f"is {life}", ""))
        self._screen.say("AWS", f"{self._named(instance)} {words}", tone=tone)

    def _named(self, instance: str) -> str:
        return f"{instance} ({self._names[instance]})" if instance in self._names else instance

    def _now(self) -> dict[str, str]:
        """Tell the state of each instance."""
        with self._aws.player.lock:
            members = self._aws.player.group(self._group).instance_states
            return {str(each.instance_id): str(each.lifecycle_state) for each in members}


class NodeVoice:
    """Tells what becomes of a Node: its fence, its pods, its end.

    Args:
        node: the Node.
        pods: counts the pods of the job on it.
        screen: where.
    """

    def __init__(self, node: Node, pods: Callable[[], int], screen: Screen) -> None:
        self._node = node
        self._pods = pods
        self._screen = screen
        self._is_fenced = False
        self._is_gone = False
        self._left = pods()
        self._next = 0.0

    def __call__(self) -> None:
        """Tell what is new; not more often than the API server should be asked."""
        if time.monotonic() < self._next or self._is_gone:
            return
        self._next = time.monotonic() + _ASK_SECONDS
        found = self._node.object()
        if not found:
            self._is_gone = True
            self._screen.say("Kubernetes", f"{self._node.name} is removed, as its machine is")
            return
        taints = [f"{each['key']}={each.get('value', '')}" for each in found["spec"].get("taints", ())]
        if taints and not self._is_fenced:
            self._is_fenced = True
            self._screen.say("Kubernetes", f"{self._node.name} is cordoned, with the taint {', '.join(taints)}")
        left = self._pods()
        if left != self._left:
            self._left = left
            self._screen.say("Kubernetes", f"pods of the job left on {self._node.name}: {left}")
