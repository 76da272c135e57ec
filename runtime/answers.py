"""Connections whose answers end: in time and within a size, whatever the server does.

A read timeout bounds the silence between two bytes only, so a server or proxy that drips, in the body or already in the
head, would hold a request for ever. Must not be imported before it is needed: urllib3 comes with it.
"""

from __future__ import annotations

import http.client
import io
import time
from typing import TYPE_CHECKING, Any, Final

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

LARGEST_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = 1 << 16


class AnswerError(Exception):
    """An answer is too large to be read. It does not mean that the request failed."""


def timed(deadline: Callable[[], float]) -> type[http.client.HTTPResponse]:
    """Make what http.client takes as a connection's `response_class`.

    Args:
        deadline: tells, when an answer begins, the time at which it must have ended, monotonic seconds.
    """

    class Answer(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
            super().__init__(sock, *args, **more)
            self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, deadline()))

    return Answer


def pools(whole_seconds: float) -> dict[str, type[HTTPConnectionPool]]:
    """Make what urllib3's PoolManager takes as `pool_classes_by_scheme`.

    Args:
        whole_seconds: how long an answer may take, from the end of the request to the last byte.
    """
    answer = timed(lambda: time.monotonic() + whole_seconds)

    class Connection(HTTPConnection):
        response_class = answer

    class SecureConnection(HTTPSConnection):
        response_class = answer

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = SecureConnection

    return {"http": Pool, "https": SecurePool}


def read_whole(answer: Any) -> bytes:
    """Read an answer of urllib3 to its end, and give its connection back; after a failure the connection is closed.

    Raises:
        AnswerError: it is too large.
    """
    parts, size = [], 0
    try:
        while part := answer.read1(_CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            _check_size(size)
    except BaseException:
        answer.close()
        raise
    answer.release_conn()
    return b"".join(parts)


def _check_size(size: int) -> None:
    if size > LARGEST_BYTES:
        raise AnswerError(f"an answer of more than {LARGEST_BYTES} bytes")


class _Timed(io.RawIOBase):
    """The bytes of an answer, until its time is up.

    Args:
        raw: where they come from.
        sock: the socket under it, whose own timeout bounds each read.
        deadline: when they must have ended, monotonic seconds.
    """

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer does not end")
        silence = self._sock.gettimeout()
        if silence is None or left < silence:
            self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
