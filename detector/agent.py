"""The loop: read, match, apply, publish.

Everything that may be slow (disk, API server, scrapes) is behind something that takes a value and returns at once.
Must never wait for anything but the kernel log, a deadline or a wake-up.
"""

from __future__ import annotations

import select
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from detector.health import NOTHING_CLEARED
from detector.herald import Herald
from detector.source import KmsgError
from runtime import logs
from runtime.wake import Wake

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from detector.health import NodeHealth
    from detector.matcher import Hit, Matcher
    from detector.model import Announcement, ClearRequest, State, View
    from detector.sight import Sight
    from detector.source import Source
    from runtime.clock import Clock

_LOG = logs.get(__name__)
_COUNTS_SAVED_SECONDS: Final = 1.0  # counts reach the disk this late; new faults at once
_COUNTS_TOLD_SECONDS: Final = 1.0  # grown counts are looked at this often; the herald tells them once a minute
_POSITION_SAVED_SECONDS: Final = 60.0
_CLEAR_LOOKED_FOR_SECONDS: Final = 10.0
_FIRST_PUBLISHED_SECONDS: Final = 1.0
_CALM_SECONDS: Final = 0.002  # a wake-up this long after the last one brings one record, as a rule
_LONGEST_WAIT_SECONDS: Final = 3600.0  # poll() takes 24 days at most


class Outlets(Protocol):
    """Where the truth goes; nothing here waits."""

    def show(self, view: View, read_at: float) -> None:
        """Show a view on the pages and to the API server."""

    def tell(self, announcements: list[Announcement]) -> None:
        """Tell people."""

    def keep(self, state: State) -> None:
        """Keep what must survive a restart."""

    def clear_requests(self) -> list[ClearRequest]:
        """Ask which faults operators want cleared."""


class Agent:
    """Keeps the truth about one node.

    Args:
        source: the kernel log.
        sight: what is known of the reading itself.
        matcher: the rules.
        health: what is known.
        outlets: where it goes.
        clock: the time.
        heartbeat_seconds: called for the wait before each confirmation of unchanged conditions; jittered.
    """

    def __init__(
        self,
        *,
        source: Source,
        sight: Sight,
        matcher: Matcher,
        health: NodeHealth,
        outlets: Outlets,
        clock: Clock,
        heartbeat_seconds: Callable[[], float],
    ) -> None:
        self.sight = sight
        self.health = health
        self.wake = Wake()
        self._source = source
        self._matcher = matcher
        self._outlets = outlets
        self._clock = clock
        self._heartbeat_seconds = heartbeat_seconds
        self._herald = Herald()
        self._inbox: deque[Callable[[datetime], None]] = deque()
        self._stopping = False
        self._poll = select.poll()
        self._poll.register(self.wake.fileno(), select.POLLIN)
        self._shown = -1  # revision
        self._caught_up = False
        self._started = clock.monotonic()
        self._heartbeat_due = self._started + heartbeat_seconds()
        self._look_for_clear = self._started
        self._save_due: float | None = None
        self._counts_told = self._started
        self._has_counted = False  # and not shown yet
        self._last_tick = self._started
        self._due = self._started  # when something other than reading is due

    def stop(self) -> None:
        """End the loop soon; safe in a signal handler and from other threads."""
        self._stopping = True
        self.wake.set()

    def post(self, change: Callable[[datetime], None]) -> None:
        """Have a change of the health made by the loop itself; safe from other threads.

        Args:
            change: called with the time in the loop's thread.
        """
        self._inbox.append(change)
        self.wake.set()

    def take_posts(self) -> None:
        """Make the changes that other threads have asked for; only for the loop's thread."""
        while self._inbox:
            self._inbox.popleft()(self._clock.now())

    def run(self) -> None:
        """Run until stopped. The source has to be open."""
        sight, wake, monotonic, poll = self.sight, self.wake, self._clock.monotonic, self._poll.poll
        is_ours = wake.fileno()
        while not self._stopping:
            tick = monotonic()
            sight.busy_since = tick
            self.step(tick)
            wait = self._due - tick
            sight.busy_since = None
            for fd, _ in poll(int(wait * 1000) + 1 if wait > 0 else 0):
                if fd == is_ours:
                    wake.clear()
        self._herald.offer(self.health.announcements())
        self._outlets.tell(self._herald.rest())
        self._outlets.keep(self.health.state(self._source.last))
        self._source.close()

    def open(self) -> None:
        """Open the source.

        Raises:
            KmsgError: it cannot be opened.
        """
        fd = self._source.open()
        self._caught_up = False
        if fd is not None:
            self._poll.register(fd, select.POLLIN)
        self.sight.opened(fd)

    def step(self, tick: float | None = None) -> None:
        """Do one round: whatever is there to read, and whatever is due.

        Nearly every round reads a few benign records: then nothing else is looked at.

        Args:
            tick: monotonic seconds; None = now.
        """
        tick = self._clock.monotonic() if tick is None else tick
        is_calm = self._caught_up and tick - self._last_tick > _CALM_SECONDS
        self._last_tick = tick
        try:
            records = self._source.glance() if is_calm else self._batch(tick)
        except KmsgError as error:
            self._lose_sight(error, self._clock.now(), tick)
            self._attend(tick)
            return
        if (records is not None and self._take(records, tick)) or self._inbox or tick >= self._due:
            self._attend(tick)

    def _attend(self, tick: float) -> None:
        """Do what is due, and find out when something will be due again."""
        now = self._clock.now()
        self.take_posts()
        self._look_after_faults(now, tick)
        self._publish(tick)
        if tick >= self._heartbeat_due:
            self._heartbeat_due = tick + self._heartbeat_seconds()
            if self.health.heartbeat(now):
                self._outlets.show(self.health.view(), tick)
        self._due = self._next_deadline(tick)

    def _batch(self, tick: float) -> list[bytes] | None:
        """Read a batch, opening again first if that is due; None while the source is closed."""
        if not self.sight.is_open:
            if not self.sight.must_reopen(tick):
                return None
            self.open()
        return self._source.batch()

    def _take(self, records: list[bytes], tick: float) -> bool:
        """Take in what a read that worked has brought; tell whether there is more to do than to wait."""
        sight = self.sight
        sees_again = sight.seen(tick, records=len(records))
        if sees_again:
            self.health.set_seeing(self._clock.now())
        if not records:
            newly_caught_up, self._caught_up = not self._caught_up, True
            return sees_again or newly_caught_up or sight.is_in_flood
        hits = self._matcher.batch(records)
        if hits:
            self._apply(hits, tick)
        if self._save_due is None:
            self._save_due = tick + _POSITION_SAVED_SECONDS
            self._due = min(self._due, self._save_due)
        return bool(hits) or sees_again or sight.is_in_flood

    def _apply(self, hits: list[Hit], tick: float) -> None:
        now = self._clock.now()
        self._has_counted = True
        for hit in hits:
            first_at, last_at = self._written(hit, now, tick)
            self.health.apply(hit, first_at=first_at, last_at=last_at, now=now)

    def _lose_sight(self, error: KmsgError, now: datetime, tick: float) -> None:
        self._caught_up = False
        if self.sight.fd is not None:
            self._poll.unregister(self.sight.fd)
        if self.sight.lost(error, tick):
            self.health.set_blind(str(error), now)

    def _written(self, hit: Hit, now: datetime, tick: float) -> tuple[datetime, datetime]:
        """Tell when lines were written: live ones now; for older ones the kernel's stamp tells how long ago."""
        if self._caught_up or self._source.source != "kmsg":
            return now, now
        stamps = hit.stamps_us
        first, last = (timedelta(seconds=max(0.0, tick - stamp / 1e6)) for stamp in (stamps[0], stamps[-1]))
        return now - first, now - last

    def _look_after_faults(self, now: datetime, tick: float) -> None:
        if tick < self._look_for_clear:
            return
        self._look_for_clear = tick + _CLEAR_LOOKED_FOR_SECONDS
        for request in self._outlets.clear_requests():
            if not self.health.clear(request, now):
                _LOG.warning(NOTHING_CLEARED, reason=request.reason)

    def _publish(self, tick: float) -> None:
        if not self._caught_up and tick < self._started + _FIRST_PUBLISHED_SECONDS and self.sight.is_open:
            return  # what the ring buffer still holds belongs into the first thing that is said
        if self.health.has_news or tick >= self._counts_told:
            self._counts_told = tick + _COUNTS_TOLD_SECONDS
            self._herald.offer(self.health.announcements())
        due = self._herald.due(tick)
        new = self.health.revision != self._shown
        if new or self._has_counted:
            self._has_counted = False
            self._shown = self.health.revision
            self._outlets.show(self.health.view(), tick)
            self._save_by(tick + _COUNTS_SAVED_SECONDS)
        if new or due:
            self._save_by(tick)
        if self._save_due is not None and tick >= self._save_due:
            self._save_due = None
            self._outlets.keep(self.health.state(self._source.last))
        if due:
            self._outlets.tell(due)

    def _save_by(self, deadline: float) -> None:
        self._save_due = deadline if self._save_due is None else min(self._save_due, deadline)

    def _next_deadline(self, tick: float) -> float:
        due = [self._heartbeat_due, self.sight.next_deadline(tick)]
        due += [deadline for deadline in (self._herald.next_due(tick), self._save_due) if deadline is not None]
        if self.health.has_grown:
            due.append(self._counts_told)
        if self.health.faults:
            due.append(self._look_for_clear)
        if not self._caught_up and self.sight.is_open:
            due.append(tick)
        return min(*due, tick + _LONGEST_WAIT_SECONDS)
