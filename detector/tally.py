"""Lines on their way to a threshold, counted by the kernel's own clock. Pure.

Memory is bounded: with too many devices or lines under way the device whose last line is oldest is forgotten. Time is
bounded too: a line costs the same whatever the threshold is, for hostile lines may come by the thousand.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from detector.model import Pending

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from detector.model import Finding

MOST_STAMPS: Final = 50_000  # of all devices together: five times the highest threshold
_Key = tuple[str, tuple[tuple[str, str], ...]]


class Tally:
    """Counts lines of one reason and device until there are enough within the rule's window.

    Args:
        limit: how many devices are followed at the most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stamps: dict[_Key, deque[int]] = {}
        self._size = 0  # stamps of all devices

    def add(self, finding: Finding, stamps_us: Sequence[int]) -> list[int]:
        """Count lines and tell which of all so far count as a problem: none until the threshold is reached.

        Args:
            finding: the rule and the device.
            stamps_us: kernel time of each line, microseconds since boot.

        Returns:
            When those that count were written, the oldest first.
        """
        threshold = finding.rule.threshold
        window_us = threshold.window.seconds * 1_000_000
        key = (finding.rule.reason, finding.device)
        kept = self._take(key)
        counted: list[int] = []
        for stamp in stamps_us:
            kept.append(stamp)
            while stamp - kept[0] > window_us:
                kept.popleft()
            if len(kept) >= threshold.count:
                counted += kept
                kept.clear()
        if kept:
            self._put(key, kept)
        return counted

    def pending(self) -> tuple[Pending, ...]:
        """Show what is under way."""
        return tuple(
            Pending(reason=reason, details=dict(device), stamps_us=tuple(stamps))
            for (reason, device), stamps in self._stamps.items()
        )

    def restore(self, pending: Iterable[Pending]) -> None:
        """Take over what was under way in an earlier run in this boot."""
        for item in pending:
            self._put((item.reason, tuple(sorted(item.details.items()))), deque(item.stamps_us))

    def _take(self, key: _Key) -> deque[int]:
        kept = self._stamps.pop(key, None) or deque()
        self._size -= len(kept)
        return kept

    def _put(self, key: _Key, kept: deque[int]) -> None:
        self._stamps[key] = kept
        self._size += len(kept)
        while len(self._stamps) > self._limit or (self._size > MOST_STAMPS and len(self._stamps) > 1):
            self._take(next(iter(self._stamps)))
