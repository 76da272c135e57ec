"""A leader that is held up while it looks for a server's address, and loses the lead meanwhile."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

NAMED = "held-up.test"  # of a server on loopback


class Leading:
    """Whether this process leads, as a test says."""

    def __init__(self) -> None:
        self._term = 1

    def permit(self) -> Callable[[], bool]:
        """Give what tells whether the lead has not been lost since."""
        term = self._term
        return lambda: self._term == term

    def lose(self) -> None:
        """Have another lead; that this process may lead again by now makes no difference."""
        self._term += 1


class NameServer:
    """Knows one name, and keeps whoever asks for it waiting while it is closed.

    Args:
        patch: for this process.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Event()
        self._open = threading.Event()
        self._open.set()
        resolve = socket.getaddrinfo

        def resolved(host: Any, *args: Any, **more: Any) -> Any:
            if host != NAMED:
                return resolve(host, *args, **more)
            if not self._open.is_set():
                self.asked.set()
                self._open.wait(30)
            return resolve("127.0.0.1", *args, **more)

        patch.setattr(socket, "getaddrinfo", resolved)

    def close(self) -> None:
        """Answer no more."""
        self.asked.clear()
        self._open.clear()

    def open(self) -> None:
        """Answer again."""
        self._open.set()


def named(url: str) -> str:
    """Write the address of a server on loopback with its name."""
    return url.replace("127.0.0.1", NAMED)
