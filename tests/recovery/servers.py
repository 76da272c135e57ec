"""Servers that answer with given bytes, each in a way of its own, and count who asked."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self


class Server:
    """Listens on loopback and plays one way of answering for each connection.

    Args:
        way: what to do with a connection after its request was read; may be changed at any time.
    """

    def __init__(self, way: Callable[[socket.socket], None]) -> None:
        self.way = way
        self.requests: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._play, args=(connection,), daemon=True).start()

    def _play(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                data = connection.recv(65_536)
                if not data:
                    return
                request += data
            self.requests.append(request.decode())
            self.way(connection)


def http(
    body: bytes | str,
    *,
    status: str = "200 OK",
    kind: str = "text/plain; version=0.0.4",
    length: int | None = None,
    more: Iterable[str] = (),
) -> bytes:
    """Write an answer.

    Args:
        body: its body.
        status: code and words.
        kind: its content type; "" = none.
        length: what it says that its length is; None = the truth, -1 = nothing.
        more: further header lines.
    """
    data = body if isinstance(body, bytes) else body.encode()
    lines = [f"HTTP/1.1 {status}", *([f"Content-Type: {kind}"] if kind else []), *more]
    if length != -1:
        lines.append(f"Content-Length: {len(data) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + data


def answers(data: bytes) -> Callable[[socket.socket], None]:
    """Answer at once and close."""
    return lambda connection: connection.sendall(data)


def drips(data: bytes, *, seconds: float = 0.05) -> Callable[[socket.socket], None]:
    """Answer byte by byte."""

    def way(connection: socket.socket) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(seconds)

    return way


def hangs(*, seconds: float = 5.0) -> Callable[[socket.socket], None]:
    """Say nothing for a while."""
    return lambda _: time.sleep(seconds)


def resets(connection: socket.socket) -> None:
    """Reset the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def floods(connection: socket.socket) -> None:
    """Send more than anybody wants."""
    connection.sendall(http(b"", length=-1))
    for _ in range(400):
        connection.sendall(b"x" * 65_536)


def endless(connection: socket.socket) -> None:
    """Send blanks for as long as somebody takes them."""
    connection.sendall(http(b"", kind="application/json", length=-1))
    while True:
        connection.sendall(b" " * (1 << 20))
