"""Get many pages at once, each in bounded time and memory, from one thread.

An edge. Non-blocking sockets in one poll(), because a client library and a thread for each of 500 pages cost several
times the processor time, and because the time limit has to hold for a server that drips, too. It follows no redirect,
uses no proxy, whatever the environment says, and speaks nothing but plain HTTP.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import re
import select
import socket
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from runtime.vocabulary import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Text format 0.0.4, as the detectors serve it; Prometheus names the same type in its own list.
_ACCEPT: Final = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
_CHUNK_BYTES = 1 << 16
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*(\d{1,9})[ \t]*\r?$")
_HEAD_END: Final = b"\r\n\r\n"


class Target(NamedTuple):
    """A page.

    Args:
        key: what the caller knows it by.
        host: an IP address.
        path: path and query.
    """

    key: str
    host: str
    port: int
    path: str = "/metrics"


class Answer(NamedTuple):
    """A whole answer with status 200.

    Args:
        content_type: in lower case; "" = none given.
        age_seconds: how long a cache says it has kept it.
    """

    content_type: str
    age_seconds: float
    body: bytes


class FetchError(Exception):
    """A page was not got whole; the message says why. It says nothing about the node."""


class Limits(NamedTuple):
    """How much a page, and all of them together, may take.

    Args:
        connect_seconds: until a connection stands.
        whole_seconds: from the first packet to the last byte.
        round_seconds: for all pages; what has not been asked for by then is given up.
        largest_bytes: of an answer with its head.
        at_once: connections at the same time.
    """

    connect_seconds: float = 2.0
    whole_seconds: float = 5.0
    round_seconds: float = 10.0
    largest_bytes: int = 4 << 20
    at_once: int = 128


def fetch(targets: Iterable[Target], take: Callable[[str, Answer | FetchError], None], limits: Limits) -> None:
    """Get pages; each is handed over as soon as it is there, so that never all of them are in memory.

    Args:
        targets: in the order in which they are asked for.
        take: called once for each target, with its key.
        limits: of time and size.
    """
    _Round(limits, take).run(list(targets))


class _Exchange:
    """One request and its answer."""

    def __init__(self, target: Target, limits: Limits) -> None:
        self.key = target.key
        now = time.monotonic()
        self.deadline = now + limits.connect_seconds
        self._end = now + limits.whole_seconds
        self._limits = limits
        host = f"[{target.host}]" if ":" in target.host else target.host
        self._unsent = (
            f"GET {target.path} HTTP/1.1\r\nHost: {host}:{target.port}\r\nAccept: {_ACCEPT}\r\n"
            f"User-Agent: chipwarden/{VERSION}\r\nConnection: close\r\n\r\n"
        ).encode("ascii", "replace")
        self._received = bytearray()
        self._needed: int | None = None
        self.sock = socket.socket(socket.AF_INET6 if ":" in target.host else socket.AF_INET)
        try:
            self.sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                self.sock.connect((target.host, target.port))
        except BaseException:
            self.sock.close()
            raise

    @property
    def is_sent(self) -> bool:
        """Whether the whole request is out."""
        return not self._unsent

    def send(self) -> None:
        """Send what can be sent.

        Raises:
            OSError: the connection does not stand, or no more.
        """
        if error := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
        self.deadline = self._end
        self._unsent = self._unsent[self.sock.send(self._unsent) :]

    def receive(self) -> bool:
        """Receive what is there; True when the answer is whole, or will not become more.

        Raises:
            OSError: the connection broke.
            FetchError: it is too large.
        """
        data = self.sock.recv(_CHUNK_BYTES)
        self._received += data
        if len(self._received) > self._limits.largest_bytes:
            raise FetchError(f"more than {self._limits.largest_bytes} bytes")
        if self._needed is None and (end := self._received.find(_HEAD_END)) >= 0:
            length = _LENGTH.search(self._received, 0, end)
            self._needed = end + len(_HEAD_END) + int(length[1]) if length else self._limits.largest_bytes + 1
        return not data or (self._needed is not None and len(self._received) >= self._needed)

    def answer(self) -> Answer:
        """Read what was received.

        Raises:
            FetchError: it is no whole answer with status 200.
        """
        response = http.client.HTTPResponse(cast("Any", _Received(self._received)))
        try:
            response.begin()
            body = response.read()
        except (http.client.HTTPException, ValueError, OSError) as error:
            raise FetchError(f"no whole HTTP answer: {type(error).__name__}") from error
        if response.status != HTTPStatus.OK:
            raise FetchError(f"status {response.status}")
        if (encoding := response.headers.get("Content-Encoding", "identity")) != "identity":
            raise FetchError(f"encoded as {encoding[:40]}")
        age = response.headers.get("Age", "0")
        return Answer(
            content_type=response.headers.get("Content-Type", "").lower(),
            age_seconds=float(age) if re.fullmatch(r"[0-9]{1,9}", age) else 0.0,
            body=body,
        )


class _Received:
    """What http.client takes for a socket."""

    def __init__(self, received: bytearray) -> None:
        self._received = received

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)


class _Round:
    """All pages of one poll."""

    def __init__(self, limits: Limits, take: Callable[[str, Answer | FetchError], None]) -> None:
        self._limits = limits
        self._take = take
        self._poll = select.poll()
        self._open: dict[int, _Exchange] = {}
        self._end = time.monotonic() + limits.round_seconds

    def run(self, targets: list[Target]) -> None:
        waiting = targets[::-1]
        try:
            while waiting or self._open:
                while waiting and len(self._open) < self._limits.at_once:
                    self._start(waiting.pop())
                for descriptor, _ in self._poll.poll(self._milliseconds()):
                    self._step(self._open[descriptor])
                self._expire()
                if time.monotonic() >= self._end:
                    while waiting:
                        self._take(waiting.pop().key, FetchError("not asked: the others took too long"))
        finally:
            for exchange in list(self._open.values()):
                self._close(exchange)

    def _start(self, target: Target) -> None:
        try:
            exchange = _Exchange(target, self._limits)
        except (OSError, OverflowError, UnicodeError) as error:
            self._take(target.key, FetchError(_said(error)))
            return
        self._open[exchange.sock.fileno()] = exchange
        self._poll.register(exchange.sock, select.POLLOUT)

    def _milliseconds(self) -> int:
        until = min((exchange.deadline for exchange in self._open.values()), default=0.0)
        return max(0, int((min(until, self._end) - time.monotonic()) * 1_000) + 1)

    def _step(self, exchange: _Exchange) -> None:
        try:
            if not self._is_received(exchange):
                return
            result: Answer | FetchError = exchange.answer()
        except BlockingIOError:
            return
        except OSError as error:
            result = FetchError(_said(error))
        except FetchError as error:
            result = error
        self._close(exchange)
        self._take(exchange.key, result)

    def _is_received(self, exchange: _Exchange) -> bool:
        if exchange.is_sent:
            return exchange.receive()
        exchange.send()
        if exchange.is_sent:
            self._poll.modify(exchange.sock, select.POLLIN)
        return False

    def _expire(self) -> None:
        now = time.monotonic()
        for exchange in [late for late in self._open.values() if min(late.deadline, self._end) <= now]:
            self._close(exchange)
            self._take(exchange.key, FetchError("no answer in time"))

    def _close(self, exchange: _Exchange) -> None:
        del self._open[exchange.sock.fileno()]
        self._poll.unregister(exchange.sock)
        exchange.sock.close()


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
