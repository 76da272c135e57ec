"""A server on loopback that takes connections until it is closed, a thread each; others say what it answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import io
    from typing import Self

LONGEST_SECONDS = 60.0  # no silence of a client lasts longer


class Loopback(ABC):
    """Where clients connect to; whoever inherits from it calls `__init__` once it can answer."""

    def __init__(self, *, backlog: int | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self._clients: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @abstractmethod
    def answer(self, client: socket.socket, line: str, incoming: io.BufferedReader) -> bool:
        """Answer a request.

        Args:
            client: who asks.
            line: the first of the request.
            incoming: where the rest of it is read.

        Returns:
            Whether the connection goes on.
        """

    def close(self) -> None:
        """End all connections."""
        for each in (self._listener, *self._clients):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.settimeout(LONGEST_SECONDS)
                self._clients.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, client.makefile("rb") as incoming:
            while (line := incoming.readline()).endswith(b"\n"):
                if not self.answer(client, line.decode(), incoming):
                    break
        self._clients.discard(client)
