"""Where the detectors are, and how many there should be: asked now and then, and dropped when it is too old.

An edge's memory: it knows neither pages nor nodes' health.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from runtime.rest import RestError

if TYPE_CHECKING:
    from recovery.pods import Roster
    from runtime.clock import Clock
    from runtime.durations import Duration

NEEDS_PROMETHEUS: Final = "NeedsPrometheus"
MOST_PAGES: Final = 500
_KEPT_SECONDS: Final = 15.0  # how long an answer is used
_NEXT_SECONDS: Final = 3.0  # and how long at least, though a page has just failed


class Pods(Protocol):
    """Where detectors are found."""

    def fleet(self) -> int:
        """Count the nodes that should have a detector. Raises RestError."""

    def list(self, at_most: int) -> Roster | None:
        """List the detectors; None = more than so many. Raises RestError."""


class FleetCount:
    """How many nodes should have a detector.

    Args:
        pods: where to ask.
        clock: the time.
    """

    def __init__(self, pods: Pods, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._fleet: int | None = None
        self._again_at = -math.inf

    def current(self) -> int | None:
        """Tell the number; None = unknown."""
        if self._clock.monotonic() >= self._again_at:
            try:
                self._fleet = self._pods.fleet()
            except RestError:
                self._fleet = None
            self._again_at = self._clock.monotonic() + _KEPT_SECONDS
        return self._fleet


class RosterKeeper:
    """The list of detectors.

    Args:
        pods: where it comes from.
        stale_after: how long an old list may be used when no new one can be had.
        clock: the time.
    """

    def __init__(self, pods: Pods, stale_after: Duration, clock: Clock) -> None:
        self._pods = pods
        self._count = FleetCount(pods, clock)
        self._stale_after = stale_after
        self._clock = clock
        self._roster: Roster | None = None
        self._why = "not looked for yet"
        self._read_at = -math.inf
        self._renew_at = -math.inf

    @property
    def fleet(self) -> int | None:
        """How many detectors there should be; None = unknown."""
        return self._count.current()

    def current(self) -> tuple[Roster | None, str]:
        """Give the list; None and why if there is none that can be used."""
        tick = self._clock.monotonic()
        if (self.fleet or 0) > MOST_PAGES:
            self._roster, self._renew_at = None, tick
            return None, too_many(str(self.fleet))
        if tick >= self._renew_at:
            self._renew(tick)
        if tick - self._read_at > self._stale_after.seconds:
            self._roster = None
        return self._roster, self._why

    def doubt(self) -> None:
        """Renew the list soon: a page of it has failed that did not fail before."""
        self._renew_at = min(self._renew_at, max(self._read_at + _NEXT_SECONDS, self._clock.monotonic()))

    def _renew(self, tick: float) -> None:
        try:
            roster = self._pods.list(MOST_PAGES)
        except RestError as error:
            self._why = f"detector pods cannot be listed: {error}"
            self._renew_at = tick + _NEXT_SECONDS
            return
        self._renew_at = tick + _KEPT_SECONDS
        self._read_at = tick
        self._roster = roster
        if roster is None:
            self._why = too_many(f"more than {MOST_PAGES}")
        elif not (roster.pods or roster.blind or self.fleet == 0):
            self._roster, self._why = None, "there is no detector pod"


def too_many(count: str) -> str:
    """Say that there are more nodes than pages can be read of."""
    return f"{NEEDS_PROMETHEUS}: {count} nodes; set prometheusUrl for more than {MOST_PAGES}"
