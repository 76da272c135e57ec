"""Where the tour waits: it looks at all parts again and again, tells what is new, and notices who asks it to stop.

Must never wait without looking: a part that has died is said at once, and so is a Ctrl-C.
"""

from __future__ import annotations

import http.client
import signal
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from demo.parts import DemoError

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.screen import Screen

_Value = TypeVar("_Value")
_LOOK_SECONDS: Final = 0.005
_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Watched(Protocol):
    """A part, as far as the stage looks after it."""

    @property
    def name(self) -> str:
        """What it is called."""

    def check(self) -> None:
        """Make sure that it runs. Raises DemoError."""

    def tail(self) -> str:
        """Give the last lines that it has written."""


class StoppedError(Exception):
    """Somebody has asked the tour to stop.

    Attributes:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Stage:
    """What all scenes share.

    Args:
        screen: where it is told.
        pace: seconds to read a scene in, before the next begins.
    """

    def __init__(self, screen: Screen, pace: float) -> None:
        self.screen = screen
        self._pace = pace
        self._parts: list[Watched] = []
        self._voices: list[Callable[[], None]] = []
        self._stopped = 0

    def listen(self) -> None:
        """Take signals from now on; they are acted on where the tour waits, so that nothing is left half begun."""
        for number in _ENDINGS:
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: object) -> None:
        self._stopped = self._stopped or number

    def check(self) -> None:
        """Make sure that the tour is to go on.

        Raises:
            StoppedError: somebody has asked it to stop.
            DemoError: a part has ended by itself.
        """
        if self._stopped:
            raise StoppedError(self._stopped)
        for part in self._parts:
            part.check()

    def watch(self, part: Watched) -> None:
        """Have a part looked after from now on."""
        self._parts.append(part)

    def forget(self, part: Watched) -> None:
        """Look after a part no more: it is to end."""
        self._parts.remove(part)

    def hear(self, voice: Callable[[], None]) -> None:
        """Have somebody say what is new whenever the tour waits."""
        self._voices.append(voice)

    def until(self, condition: Callable[[], _Value | None], *, seconds: float, what: str) -> _Value:
        """Wait until something is so; return the answer.

        Args:
            condition: asked again and again.
            seconds: how long at most.
            what: what is waited for, for people.

        Raises:
            StoppedError, DemoError: as `check`, or it took too long.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            answer, trouble = self._look(condition)
            if answer:
                self.screen.clear()
                return answer
            if time.monotonic() > deadline:
                raise DemoError(f"not within {seconds:.0f} s: {what}{trouble}{self._logs()}")
            self.screen.waiting(what)
            time.sleep(_LOOK_SECONDS)

    def _look(self, condition: Callable[[], _Value | None]) -> tuple[_Value | None, str]:
        """Have everybody speak, and ask once; a part that does not answer may be one that has just died."""
        try:
            for voice in self._voices:
                voice()
            return condition(), ""
        except BrokenPipeError:  # nobody reads what is told
            raise
        except (OSError, http.client.HTTPException, AssertionError) as error:
            return None, f" ({error})"

    def rest(self, seconds: float | None = None) -> None:
        """Give people time to read, and parts time to speak.

        Args:
            seconds: None = the pace.
        """
        over = time.monotonic() + (self._pace if seconds is None else seconds)
        self.until(lambda: time.monotonic() >= over, seconds=3600, what="")

    def stay(self, what: str) -> None:
        """Wait for somebody who asks the tour to stop."""
        try:
            self.until(lambda: False, seconds=float("inf"), what=what)
        except StoppedError:
            self.screen.leave()

    def _logs(self) -> str:
        return "".join(f"\n{part.name}'s log ends with:\n{part.tail()}" for part in self._parts)
