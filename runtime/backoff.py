"""How long to wait after failures: ever longer, jittered, so that a fleet does not come back all at once."""

from __future__ import annotations

import random
from typing import Final

FIRST_SECONDS: Final = 0.25
LONGEST_SECONDS: Final = 30.0


class Lane:
    """One kind of request: when the next may be sent.

    Args:
        pace_seconds: the least time between two that succeed.
        chance: the source of jitter.
    """

    def __init__(self, *, pace_seconds: float = 0.0, chance: random.Random | None = None) -> None:
        self.not_before = 0.0  # monotonic seconds
        self.failures = 0
        self._pace_seconds = pace_seconds
        self._chance = chance or random.Random()  # noqa: S311 - not a secret

    def succeeded(self, now: float) -> None:
        """Note a request that was answered."""
        self.failures = 0
        self.not_before = now + self._pace_seconds

    def failed(self, now: float, retry_after_seconds: float | None = None) -> float:
        """Note a request that failed.

        Args:
            now: monotonic seconds.
            retry_after_seconds: what the server asked for; None = nothing.

        Returns:
            How long to wait, in seconds.
        """
        ceiling = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(self.failures, 16))
        self.failures += 1
        wait = self._chance.uniform(ceiling / 2, ceiling)
        if retry_after_seconds is not None:
            wait = max(wait, retry_after_seconds * self._chance.uniform(1.0, 1.25))
        self.not_before = now + wait
        return wait
