"""A clock that goes only when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


class SteppedClock:
    """`runtime.clock.Clock`, by hand."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._seconds = 0.0

    def now(self) -> datetime:
        """Tell the wall clock's time."""
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Tell seconds since the start."""
        return self._seconds

    def step(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds
