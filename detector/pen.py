"""What is written on the Node for a view: the conditions, and AcceleratedHardwareReady if that is asked for.

An edge, used by one thread alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detector.kube import wire
from detector.ready import ready

if TYPE_CHECKING:
    from detector.kube import NodeClient
    from detector.model import Condition, View
    from detector.seen import NodeSeen, Owner
    from runtime.clock import Clock


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

    def write(self, view: View, owner: Owner, *, remove_clear: bool) -> NodeSeen:
        """Write a view.

        Args:
            view: the node's health.
            owner: for which instance and boot it holds.
            remove_clear: an operator's request has been met.

        Returns:
            The Node as it is now.

        Raises:
            RestError: it was not taken.
        """
        conditions = list(view.conditions)
        if self.says_ready:
            self.ready = ready(view, self.ready, self._clock.now())
            conditions.append(self.ready)
        return self._client.patch(list(map(wire, conditions)), owner, remove_clear=remove_clear)
