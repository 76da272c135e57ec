"""What is written on the Node for a view: the conditions, and AcceleratedHardwareReady if that is asked for.

An edge, used by one thread alone. One condition that the API server will not take must never keep the others away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from detector.kube import wire
from detector.ready import ready
from runtime import logs
from runtime.rest import RestError

if TYPE_CHECKING:
    from detector.kube import NodeClient
    from detector.model import Condition, View
    from detector.seen import NodeSeen, Owner
    from runtime.clock import Clock

_LOG = logs.get(__name__)
_REFUSALS: Final = frozenset({403, 422})  # what an admission policy answers
_TRIED_AGAIN_SECONDS: Final = 240.0  # by the next heartbeat: the policy may have been corrected


class Pen:
    """Writes views on the own Node.

    Args:
        client: the own Node.
        says_ready: publish AcceleratedHardwareReady too.
        clock: the time.
    """

    def __init__(self, client: NodeClient, *, says_ready: bool, clock: Clock) -> None:
        self.says_ready = says_ready
        self.ready: Condition | None = None  # AcceleratedHardwareReady as it was written last
        self._client = client
        self._clock = clock
        self._refused: dict[str, RestError] = {}  # by condition type
        self._try_again_at = 0.0

    def write(self, view: View, owner: Owner, *, remove_clear: bool) -> NodeSeen:
        """Write a view; of conditions that a policy refuses, the others are written all the same.

        Args:
            view: the node's health.
            owner: for which instance and boot it holds.
            remove_clear: an operator's request has been met.

        Returns:
            The Node as it is now.

        Raises:
            RestError: none was taken.
        """
        conditions = list(view.conditions)
        if self.says_ready:
            self.ready = ready(view, self.ready, self._clock.now())
            conditions.append(self.ready)
        if self._clock.monotonic() < self._try_again_at:
            conditions = [condition for condition in conditions if condition.type not in self._refused]
        try:
            seen = self._client.patch(list(map(wire, conditions)), owner, remove_clear=remove_clear)
        except RestError as error:
            if error.status not in _REFUSALS or len(conditions) == 1:
                raise
        else:
            if self._clock.monotonic() >= self._try_again_at:
                self._refused = {}
            return seen
        return self._write_apart(conditions, owner, remove_clear=remove_clear)

    def _write_apart(self, conditions: list[Condition], owner: Owner, *, remove_clear: bool) -> NodeSeen:
        """Write each condition by itself, and remember which are refused."""
        seen: NodeSeen | None = None
        refused: dict[str, RestError] = {}
        for condition in conditions:
            try:
                seen = self._client.patch([wire(condition)], owner, remove_clear=remove_clear)
            except RestError as error:
                if error.status not in _REFUSALS:
                    raise
                refused[condition.type] = error
        if seen is None:
            raise refused[conditions[0].type]
        for kind in refused.keys() - self._refused.keys():
            _LOG.error("this condition is refused and not published", condition=kind, error=str(refused[kind]))
        self._refused = refused
        self._try_again_at = self._clock.monotonic() + _TRIED_AGAIN_SECONDS
        return seen
