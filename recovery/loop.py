"""Runs the controller's passes in a thread of its own, so that a signal is answered whatever a pass waits for.

A pass may be cut off anywhere: what it had written is found by the next one, here or at another leader's.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

from runtime import logs

if TYPE_CHECKING:
    from recovery.board import Board
    from recovery.decision import Snapshot

_AFTER_FAILURE_SECONDS: Final = 5.0
_LOG = logs.get(__name__)


class Passes(Protocol):
    """What the controller offers."""

    snapshot: Snapshot

    def step(self) -> float:
        """Do one pass; tell how many seconds to wait for the next."""


class Loop:
    """Does pass after pass until it is stopped.

    Args:
        passes: the controller.
        board: shown to the pages.
        after_failure_seconds: how long to wait after a pass that failed in a way that nobody has thought of.
    """

    def __init__(self, passes: Passes, board: Board, *, after_failure_seconds: float = _AFTER_FAILURE_SECONDS) -> None:
        self._passes = passes
        self._board = board
        self._after_failure_seconds = after_failure_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def start(self) -> None:
        """Begin with the first pass."""
        self._thread.start()

    def stop(self, within_seconds: float) -> bool:
        """Begin no further pass.

        Returns:
            Whether the last one has ended within that time.
        """
        self._stopping.set()
        self._thread.join(within_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self._pass())

    def _pass(self) -> float:
        self._board.begin()
        try:
            return self._passes.step()
        except Exception:  # noqa: BLE001 - whatever it was, the next pass starts from what is written down
            _LOG.exception("pass failed")
            return self._after_failure_seconds
        finally:
            self._board.end(self._passes.snapshot)
