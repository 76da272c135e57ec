"""The API server's time between its answers, so that what two leaders write can be compared.

An answer tells whole seconds; in between the own monotonic clock goes on. Time does not jump back by such fractions,
only if the server's clock itself was set back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    from runtime.clock import Clock
    from runtime.rest import Dated, Rest

_TOLERANCE: Final = timedelta(seconds=2)  # a second that Date leaves out, and the way of an answer


class ServerTime:
    """The time of an API server.

    Args:
        rest: its answers.
        clock: the own clock, used before the first answer.
    """

    def __init__(self, rest: Rest, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock
        self._taken: Dated | None = None
        self._base: Dated | None = None

    def now(self) -> datetime:
        """Tell the time, aware UTC."""
        dated = self._rest.dated
        if dated is None:
            return self._clock.now()
        if self._base is None or (dated is not self._taken and not _agree(self._base, dated)):
            self._base = dated
        self._taken = dated
        return _at(self._base, self._clock.monotonic())


def _agree(base: Dated, newer: Dated) -> bool:
    return newer.date <= _at(base, newer.monotonic) < newer.date + _TOLERANCE


def _at(base: Dated, monotonic: float) -> datetime:
    return base.date + timedelta(seconds=monotonic - base.monotonic)
