"""What the loop and the edges leave for the pages: the last snapshot, counters, whether the loop comes round.

The loop writes, the pages' thread reads; each value is replaced whole, never changed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from recovery.decision import Snapshot

if TYPE_CHECKING:
    from runtime.clock import Clock

# A poll of 15 s, then a pass, which begins with no further node after 60 s; the last one may ask the cloud (30 s) and
# have pods evicted meanwhile.
STUCK_AFTER_SECONDS: Final = 180.0


class Board:
    """What there is to show.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self.snapshot = Snapshot()
        self._clock = clock
        self._busy_since: float | None = None
        self._has_come_round = False
        self._lock = threading.Lock()
        self._cloud: dict[tuple[str, str], int] = {}

    def begin(self) -> None:
        """Note that a pass begins."""
        self._busy_since = self._clock.monotonic()

    def end(self, snapshot: Snapshot | None) -> None:
        """Note that a pass is over.

        Args:
            snapshot: what it found; None = as before.
        """
        if snapshot is not None:
            self.snapshot = snapshot
        self._busy_since = None
        self._has_come_round = True

    def is_stuck(self) -> bool:
        """Tell whether a pass does not end."""
        since = self._busy_since
        return since is not None and self._clock.monotonic() - since > STUCK_AFTER_SECONDS

    def why_not_ready(self) -> str | None:
        """Tell why it is too early to rely on this process; None = it is not. A follower is ready too."""
        return None if self._has_come_round else "the first pass is not over"

    def count_cloud(self, call: str, outcome: str) -> None:
        """Count a call to AWS, from any thread."""
        with self._lock:
            self._cloud[call, outcome] = self._cloud.get((call, outcome), 0) + 1

    def cloud_requests(self) -> dict[tuple[str, str], int]:
        """Give the counts, by call and outcome."""
        with self._lock:
            return dict(self._cloud)
