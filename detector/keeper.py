"""The thread that writes the state file, so that a slow or full disk never makes the reader wait.

The newest state wins; one that cannot be written is tried again until it can, or a newer one takes its place.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from detector.statefile import StateFile, StateFileError
from runtime import logs
from runtime.latest import Latest

if TYPE_CHECKING:
    from detector.model import State

_LOG = logs.get(__name__)
_FIRST_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_CLOSING_SECONDS: Final = 2.0


class Keeper:
    """Writes states to the state file.

    Args:
        file: where to.
    """

    def __init__(self, file: StateFile) -> None:
        self.written = 0
        self.failed = 0
        self._file = file
        self._latest: Latest[State] = Latest()
        self._thread = threading.Thread(target=self._run, name="state-keeper", daemon=True)
        self._thread.start()

    def keep(self, state: State) -> None:
        """Hand over a state to write; returns at once."""
        self._latest.put(state)

    def close(self) -> None:
        """Write what was handed over last, if that is possible within two seconds, and end."""
        self._latest.close()
        self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        retry_seconds = 0.0
        unwritten: State | None = None
        while True:
            state = self._latest.take(retry_seconds or None) or unwritten
            if state is None:
                return
            unwritten = None if self._save(state, first_failure=not retry_seconds) else state
            if unwritten is None:
                retry_seconds = 0.0
            elif self._latest.closed:
                return
            else:
                retry_seconds = min(_LONGEST_RETRY_SECONDS, retry_seconds * 2 or _FIRST_RETRY_SECONDS)

    def _save(self, state: State, *, first_failure: bool) -> bool:
        try:
            self._file.save(state)
        except StateFileError as error:
            self.failed += 1
            if first_failure:
                _LOG.warning("state cannot be written, kept in memory", error=error)
            return False
        self.written += 1
        if not first_failure:
            _LOG.info("state is written again", path=str(self._file.path))
        return True
