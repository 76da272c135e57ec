"""Requests to clear a fault, left in the state directory: looked for by a thread of its own.

A disk that hangs may hang here for ever: the loop only ever asks whether something has been found.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from runtime.latest import Latest

if TYPE_CHECKING:
    from detector.model import ClearRequest
    from detector.statefile import StateFile


class Requests:
    """Looks for requests in the background.

    Args:
        file: the state directory.
    """

    def __init__(self, file: StateFile) -> None:
        self._file = file
        self._asked: Latest[bool] = Latest()
        self._found: deque[ClearRequest] = deque()  # bounded: a look is made only when what was found has been taken
        threading.Thread(target=self._run, name="requests", daemon=True).start()

    def take(self) -> list[ClearRequest]:
        """Give the requests that have been found by now, and have another look made; returns at once."""
        found: list[ClearRequest] = []
        while self._found:
            found.append(self._found.popleft())
        self._asked.put(True)
        return found

    def close(self) -> None:
        """Look no more."""
        self._asked.close()

    def _run(self) -> None:
        while self._asked.take() is not None:
            self._found.extend(self._file.take_clear_requests())
