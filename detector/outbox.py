"""Announcements on their way to the API server, the newest of each key, bounded. Pure.

The oldest give way when there are too many: what is active is announced again when its count grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from detector.model import Announcement

_MOST: Final = 1024


class Outbox:
    """Holds announcements until each has been taken."""

    def __init__(self) -> None:
        self._waiting: dict[str, Announcement] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, announcements: Iterable[Announcement]) -> None:
        """Take announcements; each stands in for an older one of its key."""
        for announcement in announcements:
            self._waiting[announcement.key] = announcement
        while len(self._waiting) > _MOST:
            del self._waiting[next(iter(self._waiting))]

    def first(self) -> Announcement:
        """Show the one that has waited longest; there has to be one."""
        return next(iter(self._waiting.values()))

    def done(self, announcement: Announcement) -> None:
        """Forget one that was taken, unless there is news of it."""
        if self._waiting.get(announcement.key) is announcement:
            del self._waiting[announcement.key]

    def drop(self, keys: Iterable[str]) -> None:
        """Forget what need not be told."""
        for key in keys:
            self._waiting.pop(key, None)
