"""Stand-alone: the one detector beside us, and what there is in place of a Node.

An edge. There is nothing to fence, to drain or to write an Event on, so that the "Node" always looks fenced and
drained, and Events are log lines. It speaks about the own instance only: a detector of another one is blind.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from recovery.fetch import Answer, FetchError, Limits, Target, fetch
from recovery.model import NodeFacts, Seen, Sighting, Taint
from recovery.page import UnusableError
from recovery.parse import ParseError
from recovery.ports import DrainProgress, PortError
from recovery.scrape import seen_on
from runtime import logs
from runtime.identity import is_instance_id
from runtime.vocabulary import SCALE_DOWN_ANNOTATION, UNHEALTHY_TAINT

if TYPE_CHECKING:
    from recovery.model import Entry
    from runtime.clock import Clock
    from runtime.durations import Duration

_METRICS: Final = "/metrics"
_HTTP_PORT: Final = 80
_BEGINNING: Final = datetime.fromtimestamp(0, UTC)  # when the machine joined its group is not known: long ago
_LOG = logs.get(__name__)


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Conditions(msgspec.Struct):
    instance: str | None
    boot: str
    conditions: tuple[_Condition, ...]


class OwnPage:
    """The detector's page; implements `ports.Fleet`.

    Args:
        url: of its metrics.
        node: what the machine is called.
        instance: the own instance id; None = unknown.
        stale_after: how old what is read may be.
        clock: the time.
        limits: of time and size.
    """

    def __init__(
        self,
        url: str,
        *,
        node: str,
        instance: str | None,
        stale_after: Duration,
        clock: Clock,
        limits: Limits | None = None,
    ) -> None:
        self._target = _target(url)
        self._node = node
        self._instance = instance
        self._stale_after = stale_after
        self._clock = clock
        self._limits = limits or Limits()

    def look(self) -> Sighting:
        """Poll once. Never raises: what cannot be read is blind."""
        try:
            seen = self._seen()
        except (FetchError, UnusableError, ParseError) as error:
            return Sighting(seen={}, blind={self._node: str(error)}, why_blind=None, fleet=1)
        return Sighting(seen={self._node: seen}, blind={}, why_blind=None, fleet=1)

    def _seen(self) -> Seen:
        answer = _get(self._target, self._limits)
        seen = seen_on(answer, self._node, self._clock.now(), self._stale_after)
        if self._instance is not None and seen.instance not in (None, self._instance):
            raise UnusableError(f"the page of another instance: {seen.instance}, this is {self._instance}")
        return seen


class OwnNode:
    """What stands for the Node; implements `ports.Nodes`.

    Args:
        url: of the detector's metrics; its conditions are beside them.
        node: what the machine is called.
        instance: the own instance id; None = unknown.
        limits: of time and size.
    """

    def __init__(self, url: str, *, node: str, instance: str | None, limits: Limits | None = None) -> None:
        metrics = _target(url)
        self._target = metrics._replace(path=metrics.path.removesuffix(_METRICS) + "/conditions")
        self._node = node
        self._instance = instance
        self._limits = limits or Limits()

    def read(self, name: str) -> NodeFacts:
        """Read the detector's conditions.

        Raises:
            PortError: they cannot be read, or it is not about this machine.
        """
        if name != self._node:
            raise PortError(f"{name}: only {self._node} is known here")
        try:
            found = msgspec.json.decode(_get(self._target, self._limits).body, type=_Conditions)
        except (FetchError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PortError(f"the detector's conditions cannot be read: {error}") from error
        return self._facts(found)

    def fenced(self) -> list[NodeFacts]:
        """Tell that nothing is left of an earlier run: there is nothing that could bear it."""
        return []

    def fence(self, node: NodeFacts, entry: Entry) -> tuple[str, ...]:
        """Add nothing: nobody schedules anything here."""
        del node, entry
        return ()

    def annotate(self, node: NodeFacts, entry: Entry) -> None:
        """Write nothing."""

    def lift(self, node: NodeFacts, added: tuple[str, ...]) -> None:
        """Take nothing away."""

    def drain(self, node: NodeFacts) -> DrainProgress:
        """Tell that no pod has to go."""
        del node
        return DrainProgress(left=(), blocked={})

    def left(self, node: NodeFacts) -> DrainProgress:
        """Tell that no pod has to go."""
        return self.drain(node)

    def tell(self, node: str, reason: str, message: str, *, warning: bool) -> None:
        """Log what would be an Event."""
        (_LOG.warning if warning else _LOG.info)("event", node=node, reason=reason, message=message)

    def _facts(self, found: _Conditions) -> NodeFacts:
        own = found.instance if is_instance_id(found.instance or "") else None
        return NodeFacts(
            name=self._node,
            uid=own or self._node,
            resource_version="",
            created_at=_BEGINNING,
            instance=own,
            provider_instance=self._instance,
            provider_id="",
            labels={},
            annotations={SCALE_DOWN_ANNOTATION: "true"},
            taints=(Taint(key=UNHEALTHY_TAINT, effect="NoSchedule"),),
            unschedulable=True,
            conditions={each.type: (each.status, each.reason, each.message) for each in found.conditions},
            boot=found.boot,
            ready=True,
            deleting=False,
        )


class NoKarpenter:
    """In place of NodeClaims, which there are none of; implements `ports.Karpenter`."""

    def terminate(self, node: NodeFacts) -> None:
        """Refuse. Raises PortError."""
        raise PortError(f"{node.name}: there is no Karpenter here")

    def is_gone(self, node: str, provider_id: str) -> bool:
        """Refuse. Raises PortError."""
        raise PortError(f"{node} {provider_id}: there is no Karpenter here")

    def size(self, nodepool: str) -> int | None:
        """Refuse. Raises PortError."""
        raise PortError(f"{nodepool}: there is no Karpenter here")


def _target(url: str) -> Target:
    parts = urlsplit(url)
    return Target("", parts.hostname or "", parts.port or _HTTP_PORT, parts.path or "/")


def _get(target: Target, limits: Limits) -> Answer:
    """Get one page. Raises FetchError."""
    found: list[Answer | FetchError] = []
    fetch([target], lambda _, result: found.append(result), limits)
    if isinstance(found[0], FetchError):
        raise found[0]
    return found[0]
