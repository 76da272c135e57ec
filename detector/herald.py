"""When announcements are told: each new one soon, a growing one once a minute, a storm of them at a walking pace. Pure.

Must never lose an announcement of something active: what cannot be told now is told later, with its newest count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from detector.model import Announcement

REPEAT_SECONDS: Final = 60.0
BURST: Final = 20  # told at once
PACE_SECONDS: Final = 1.0  # between two, when the burst is used up
_MOST_KEYS: Final = 2048  # more than there can be entries, told and ended, in the book


class Herald:
    """Holds announcements back until they are due."""

    def __init__(self) -> None:
        self._waiting: dict[str, Announcement] = {}
        self._told: dict[str, float] = {}  # when each key was told last, monotonic seconds, the oldest first
        self._allowance = float(BURST)
        self._counted_at: float | None = None

    def offer(self, announcements: Iterable[Announcement]) -> None:
        """Take announcements; one with a key that waits already takes its place."""
        for announcement in announcements:
            if announcement.key in self._waiting or len(self._waiting) < _MOST_KEYS:
                self._waiting[announcement.key] = announcement

    def due(self, now: float) -> list[Announcement]:
        """Hand out what is to be told now.

        Args:
            now: monotonic seconds.
        """
        self._refill(now)
        due: list[Announcement] = []
        for key, announcement in list(self._waiting.items()):
            if self._allowance < 1:
                break
            if self._due_at(key) > now:
                continue
            self._allowance -= 1
            del self._waiting[key]
            self._told.pop(key, None)
            self._told[key] = now
            due.append(announcement)
        while len(self._told) > _MOST_KEYS:
            del self._told[next(iter(self._told))]
        return due

    def rest(self) -> list[Announcement]:
        """Hand out all that waits, due or not: nobody will ask again."""
        rest, self._waiting = list(self._waiting.values()), {}
        return rest

    def next_due(self, now: float) -> float | None:
        """Tell when to call `due` again, monotonic seconds; None = nothing waits."""
        if not self._waiting:
            return None
        at_pace = now if self._allowance >= 1 else now + (1 - self._allowance) * PACE_SECONDS
        return max(at_pace, min(self._due_at(key) for key in self._waiting))

    def _due_at(self, key: str) -> float:
        told = self._told.get(key)
        return 0.0 if told is None else told + REPEAT_SECONDS

    def _refill(self, now: float) -> None:
        if self._counted_at is not None:
            self._allowance = min(BURST, self._allowance + (now - self._counted_at) / PACE_SECONDS)
        self._counted_at = now
