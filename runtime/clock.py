"""The system's clocks, behind one small object, so that everything that decides can be given the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> datetime:
        """Tell the wall clock's time, aware UTC; it may step."""

    def monotonic(self) -> float:
        """Tell seconds that never go back, for deadlines; the kernel stamps its log with the same clock."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Tell the wall clock's time, aware UTC."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)  # CLOCK_MONOTONIC; asked at each wake-up, so without a call of our own
