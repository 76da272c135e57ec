"""What has to be remembered of nodes from one poll to the next: since when, and how often it was so. Pure.

It is lost when the leader changes: the next one waits a little longer, and takes a fault that does not say when it
began for a new one. Counting a poll twice is no second poll: the time tells polls apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from recovery.model import Sighting


class _OfNode:
    """What is remembered of one node."""

    def __init__(self) -> None:
        self.first_seen: dict[str, datetime] = {}
        self.agreed: dict[str, int] = {}
        self.agreed_at: datetime | None = None
        self.disagree_since: datetime | None = None
        self.read_at: datetime | None = None


class Watch:
    """Remembers nodes with a fault, and those that somebody asked about."""

    def __init__(self) -> None:
        self._nodes: dict[str, _OfNode] = {}

    def look(self, sighting: Sighting, now: datetime) -> None:
        """Take in a poll of the fleet. What is blind breaks every series of polls that agree."""
        for name in [name for name in self._nodes if name not in sighting.seen]:
            self._nodes[name].agreed.clear()
            if name not in sighting.blind and sighting.why_blind is None:
                del self._nodes[name]
        for name, seen in sighting.seen.items():
            if not seen.faults:
                self._forget_faults(name)
                continue
            node = self._nodes.setdefault(name, _OfNode())
            present = {fault.reason for fault in seen.faults}
            node.first_seen = {reason: node.first_seen.get(reason, now) for reason in present}

    def _forget_faults(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is not None:
            if node.first_seen:
                node.disagree_since = None  # that was about a metric; a condition alone begins to disagree now
            node.first_seen.clear()
            node.agreed.clear()

    def compare(self, name: str, *, agree: Iterable[str], disagree: bool, now: datetime) -> None:
        """Take in what comparing a detector's metrics with the Node's conditions gave.

        Args:
            name: of the node.
            agree: reasons on which both agree.
            disagree: one says that something is wrong that the other does not confirm.
            now: of this poll.
        """
        node = self._nodes.setdefault(name, _OfNode())
        node.read_at = now
        if not disagree:
            node.disagree_since = None
        elif node.disagree_since is None:
            node.disagree_since = now
        if node.agreed_at != now:
            node.agreed = {reason: node.agreed.get(reason, 0) + 1 for reason in agree}
            node.agreed_at = now

    def first_seen(self, name: str, reason: str, now: datetime) -> datetime:
        """Tell when a fault was first seen by this process; `now` if it never was."""
        node = self._nodes.get(name)
        return now if node is None else node.first_seen.get(reason, now)

    def polls_agreed(self, name: str, reason: str) -> int:
        """Count the polls in a row that agreed on a fault."""
        node = self._nodes.get(name)
        return 0 if node is None else node.agreed.get(reason, 0)

    def disagree_since(self, name: str) -> datetime | None:
        """Tell since when metrics and conditions disagree; None = they do not."""
        node = self._nodes.get(name)
        return None if node is None else node.disagree_since

    def read_at(self, name: str) -> datetime | None:
        """Tell when the Node was last read; None = never."""
        node = self._nodes.get(name)
        return None if node is None else node.read_at
