"""Whether the detector sees: when the kernel log was read last, when to open it again, how a flood went.

It decides nothing about faults; it only knows what the reader could not see.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from runtime import logs

if TYPE_CHECKING:
    from datetime import datetime

    from detector.source import KmsgError, Source
    from runtime.clock import Clock

BLIND_AFTER_SECONDS: Final = 30.0
STUCK_AFTER_SECONDS: Final = 10.0
_FIRST_RETRY_SECONDS: Final = 0.25
_LONGEST_RETRY_SECONDS: Final = 5.0
_FLOOD_OVER_SECONDS: Final = 1.0
_LOG = logs.get(__name__)


class Sight:
    """The reader's own condition. One thread writes, others read single values.

    Args:
        source: the kernel log.
        clock: the time.
    """

    def __init__(self, source: Source, clock: Clock) -> None:
        self.fd: int | None = None
        self.is_open = False
        self.is_in_flood = False  # records were lost within the last second
        self.why_not: str | None = None
        self._last_read: float | None = None  # monotonic
        self.busy_since: float | None = None  # monotonic; None = waiting in poll()
        self._source = source
        self._clock = clock
        self._unseen_since: float | None = None
        self._retry_at = 0.0
        self._retry_seconds = 0.0
        self._told_overruns = 0
        self._told_lost = 0
        self._overruns = 0
        self._quiet_at = math.inf  # when the flood will be over

    @property
    def is_up(self) -> bool:
        """Whether the kernel log can be read now."""
        return self.is_open and self._unseen_since is None

    def is_stuck(self) -> bool:
        """Tell whether the loop has not come round for ten seconds."""
        since = self.busy_since
        return since is not None and self._clock.monotonic() - since > STUCK_AFTER_SECONDS

    def opened(self, fd: int | None) -> None:
        """Note that the source is open; only a read will show that it works."""
        self.fd = fd
        self.is_open = True

    def must_reopen(self, tick: float) -> bool:
        """Tell whether to try to open again now."""
        return not self.is_open and tick >= self._retry_at

    @property
    def last_read_at(self) -> datetime | None:
        """When a record was read last; None = never."""
        if self._last_read is None:
            return None
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - self._last_read)

    def seen(self, tick: float, *, records: int) -> bool:
        """Note a read that worked; True if it is the first after a time without."""
        if records:
            self._last_read = tick
            self._retry_seconds = 0.0
        source = self._source
        if self.is_in_flood or source.overruns + source.lost != self._overruns:
            self._watch_flood(tick)
        if self._unseen_since is None:
            return False
        _LOG.info("kernel log is read again", seconds=round(tick - self._unseen_since, 1))
        self._unseen_since = None
        self.why_not = None
        return True

    def lost(self, error: KmsgError, tick: float) -> bool:
        """Note a read that failed; True if it has been so for 30 seconds."""
        if self._unseen_since is None:
            self._unseen_since = tick
            _LOG.error("kernel log cannot be read", error=str(error))
        self.fd = None
        self.is_open = False
        self.why_not = str(error)
        self._retry_seconds = min(_LONGEST_RETRY_SECONDS, self._retry_seconds * 2 or _FIRST_RETRY_SECONDS)
        blind_at = self._unseen_since + BLIND_AFTER_SECONDS
        self._retry_at = tick + self._retry_seconds
        if tick < blind_at:
            self._retry_at = min(self._retry_at, blind_at)
        return tick >= blind_at

    def next_deadline(self, tick: float) -> float:
        """Tell when the loop must come round again, monotonic seconds."""
        due = self._quiet_at
        if not self.is_open:
            return self._retry_at  # whether a flood is over, only a read can tell
        return min(due, tick + self._source.poll_seconds) if self._source.poll_seconds is not None else due

    def _watch_flood(self, tick: float) -> None:
        """Log overruns once a flood is over, never in the middle of one."""
        if self._source.overruns + self._source.lost != self._overruns:
            self._overruns = self._source.overruns + self._source.lost
            self._quiet_at = tick + _FLOOD_OVER_SECONDS
            self.is_in_flood = True
        elif tick >= self._quiet_at:
            self._quiet_at = math.inf
            self.is_in_flood = False
            lost, overruns = self._source.lost - self._told_lost, self._source.overruns - self._told_overruns
            self._told_lost, self._told_overruns = self._source.lost, self._source.overruns
            _LOG.warning("kernel log overran the reader", lost=lost, overruns=overruns, remedy="log_buf_len=4M")
