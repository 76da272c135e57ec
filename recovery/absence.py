"""When an answer without something may be believed. Pure.

Three complete ones, spread over the time that a group may need to list a machine that it has just launched.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

_ANSWERS: Final = 3
_APART: Final = timedelta(seconds=20)  # so that three of them fall into a minute
_FORGOTTEN: Final = timedelta(seconds=60)


class Absence:
    """Counts complete answers in which something is missing."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[int, datetime]] = {}

    def is_final(self, name: str, now: datetime) -> bool:
        """Count an answer without it, and tell whether that is final now."""
        count, last = self._answers.get(name, (0, now))
        if now - last > _FORGOTTEN:
            count = 0
        if count == 0 or now - last >= _APART:
            count, last = count + 1, now
            self._answers[name] = (count, last)
        return count >= _ANSWERS

    def forget(self, name: str) -> None:
        """It is there after all."""
        self._answers.pop(name, None)
