"""Lines on their way to a threshold, counted by the kernel's own clock. Pure.

Memory is bounded: with too many devices under way the one whose last line is oldest is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detector.model import Pending

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from detector.model import Finding

_Key = tuple[str, tuple[tuple[str, str], ...]]


class Tally:
    """Counts lines of one reason and device until there are enough within the rule's window.

    Args:
        limit: how many devices are followed at the most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stamps: dict[_Key, list[int]] = {}

    def add(self, finding: Finding, stamps_us: Sequence[int]) -> int:
        """Count lines and tell how many of them count as a problem: 0 until the threshold is reached.

        Args:
            finding: the rule and the device.
            stamps_us: kernel time of each line, microseconds since boot.
        """
        threshold = finding.rule.threshold
        window_us = threshold.window.seconds * 1_000_000
        key = (finding.rule.reason, finding.device)
        kept = self._stamps.pop(key, [])
        counted = 0
        for stamp in stamps_us:
            kept.append(stamp)
            kept = [old for old in kept if stamp - old <= window_us][-threshold.count :]
            if len(kept) == threshold.count:
                counted += len(kept)
                kept = []
        if kept:
            self._stamps[key] = kept
            if len(self._stamps) > self._limit:
                del self._stamps[next(iter(self._stamps))]
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
            self._stamps[item.reason, tuple(sorted(item.details.items()))] = list(item.stamps_us)
