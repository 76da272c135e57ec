"""A small HTTP/1.1 server for pages that a program computes itself: metrics, health, conditions.

Hand-written because memory and idle CPU are goals of the node agent: http.server costs 7.5 MB after 200 scrapes, this
module 0.2 MB, and its loop wakes up twice a second. Here one thread waits in poll() for all clients, without a timeout
while there are none. It must not learn anything beyond GET and HEAD of fixed paths.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import math
import os
import re
import select
import socket
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from runtime import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_CONNECTIONS: Final = 16
MAX_REQUEST_BYTES: Final = 8_192
PATIENCE_SECONDS: Final = 5.0

_ALLOWED_LISTEN: Final = "allowed: host:port, such as 0.0.0.0:20257, or [address]:port for IPv6, such as [::]:20257"
_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]{1,253})):(?P<port>\d{1,5})")
# `GET /metrics?x=1 HTTP/1.1`; the target may be absolute, as clients write it for a proxy. Source: RFC 9112, 3 and 5.
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (?:http://[^/?# ]*)?(/[!-~]*) HTTP/1\.([01])")
_FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_TEXT: Final = "text/plain; charset=utf-8"
_PAUSE_SECONDS: Final = 1.0  # no connection is accepted for so long once file descriptors have run out
_LOG = logs.get(__name__)


class PagesError(Exception):
    """The address cannot be listened on. It says nothing about pages: those fail one by one, with status 500."""


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """What a route answers."""

    status: int
    content_type: str
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    last: bool  # the connection ends with its answer


@dataclasses.dataclass(slots=True, eq=False)
class _Connection:
    """A client: what it sent, what it has yet to take, and until when it may take its time."""

    sock: socket.socket
    deadline: float
    received: bytes = b""
    reply: bytes = b""
    last: bool = False


class Server:
    """Serves pages from one thread of its own.

    Routes are called in that thread, one at a time: they have to be quick, and what they share with other threads has
    to bear that. Every client has 5 s to send a request, counted from its first byte, 5 s to take the answer and 5 s
    to think in between. At most 16 are connected: a further one takes the place of the one that kept us waiting
    longest, so that sleepers cannot lock out a probe.

    Args:
        listen: `host:port` or `[IPv6 address]:port`; port 0 lets the kernel choose, `[::]` takes IPv4 as well.
        routes: path to function; the query of a request is ignored.
        patience_seconds: the 5 s above.

    `port` is the one that is really listened on.

    Raises:
        PagesError: the address is malformed or cannot be bound.
    """

    def __init__(
        self, listen: str, routes: Mapping[str, Callable[[], Page]], *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._listener = _listen(listen)
        self.port: int = self._listener.getsockname()[1]
        self._routes = dict(routes)
        self._patience_seconds = patience_seconds
        self._connections: dict[int, _Connection] = {}
        self._accept_again_at = math.inf
        self._closed = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="pages", daemon=True)

    def start(self) -> None:
        """Begin to answer; until then clients wait in the listen queue."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening and cut all connections, at once; a second call does nothing.

        A route that hangs is not waited for longer than a second.
        """
        if self._closed:
            return
        self._closed = True
        if self._thread.ident is None:
            self._release()
        else:
            os.eventfd_write(self._wake, 1)
            self._thread.join(1.0)
        if not self._thread.is_alive():  # else it may still look at the descriptor: then it stays open
            os.close(self._wake)

    def _run(self) -> None:
        try:
            while not self._closed:
                for descriptor, _ in self._poll.poll(self._milliseconds_to_wait()):
                    if descriptor == self._listener.fileno():
                        self._accept()
                    elif connection := self._connections.get(descriptor):
                        self._step(connection)
                self._expire()
        finally:
            self._release()

    def _milliseconds_to_wait(self) -> int | None:
        until = min((connection.deadline for connection in self._connections.values()), default=math.inf)
        until = min(until, self._accept_again_at)
        return None if until == math.inf else max(0, math.ceil((until - time.monotonic()) * 1_000))

    def _expire(self) -> None:
        now = time.monotonic()
        for connection in [late for late in self._connections.values() if late.deadline <= now]:
            self._drop(connection)
        if self._accept_again_at <= now:
            self._accept_again_at = math.inf
            self._poll.register(self._listener, select.POLLIN)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client changed its mind
        except OSError as error:
            # Out of file descriptors: the waiting client would wake us again and again.
            _LOG.warning("pages accept no connection for a moment", error=error, seconds=_PAUSE_SECONDS)
            self._poll.unregister(self._listener)
            self._accept_again_at = time.monotonic() + _PAUSE_SECONDS
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            self._drop(min(self._connections.values(), key=lambda held: (bool(held.reply), held.deadline)))
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # it may be gone already: then the first read says so
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[sock.fileno()] = _Connection(sock, self._deadline())
        self._poll.register(sock, select.POLLIN)

    def _deadline(self) -> float:
        return time.monotonic() + self._patience_seconds

    def _step(self, connection: _Connection) -> None:
        """Do one send or one receive, whichever is due, and answer the next whole request."""
        try:
            if connection.reply:
                self._send(connection)
            else:
                self._receive(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if connection.received and not connection.reply and not connection.last:
            self._answer(connection)

    def _send(self, connection: _Connection) -> None:
        connection.reply = connection.reply[connection.sock.send(connection.reply) :]
        if connection.reply:
            return
        connection.deadline = self._deadline()
        self._poll.modify(connection.sock, select.POLLIN)
        if connection.last:
            # Closing with something unread would reset the connection and could take the answer from the client.
            connection.sock.shutdown(socket.SHUT_WR)

    def _receive(self, connection: _Connection) -> None:
        data = connection.sock.recv(4_096)
        if not data:
            raise ConnectionAbortedError
        if connection.last:
            return
        begins = not connection.received
        connection.received = (connection.received + data).lstrip(b"\r\n")
        if begins and connection.received:
            connection.deadline = self._deadline()

    def _answer(self, connection: _Connection) -> None:
        head, end, rest = connection.received.partition(b"\r\n\r\n")
        if len(head) > MAX_REQUEST_BYTES:
            reply, last = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), True
        elif not end and connection.received[:1].isupper():
            return  # the rest is on its way
        elif (request := _parsed(head)) is None:
            reply, last = _refusal(HTTPStatus.BAD_REQUEST), True
        else:
            reply, last = self._reply(request), request.last
        connection.reply, connection.received, connection.last = reply, rest.lstrip(b"\r\n"), last
        connection.deadline = self._deadline()
        self._poll.modify(connection.sock, select.POLLOUT)

    def _reply(self, request: _Request) -> bytes:
        if request.method not in {"GET", "HEAD"}:
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, last=request.last)
        route = self._routes.get(request.path)
        if route is None:
            body = f"not found; paths: {' '.join(sorted(self._routes))}\n".encode()
            return _rendered(Page(HTTPStatus.NOT_FOUND, _TEXT, body), request)
        try:
            return _rendered(route(), request)
        except Exception as error:  # noqa: BLE001 - one page's mistake must not end the others
            _LOG.error("page failed", path=request.path, error=error)
            return _rendered(Page(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"internal error\n"), request)

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.sock.fileno()]
        self._poll.unregister(connection.sock)
        connection.sock.close()

    def _release(self) -> None:
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._listener.close()


def _listen(listen: str) -> socket.socket:
    match = _LISTEN.fullmatch(listen)
    if match is None or int(match["port"]) > 65_535:  # noqa: PLR2004 - the largest port there is
        raise PagesError(f"cannot listen on {listen!r}: this is no address ({_ALLOWED_LISTEN})")
    address = (match["v6"] or match["host"], int(match["port"]))
    family = socket.AF_INET6 if match["v6"] else socket.AF_INET
    both = bool(match["v6"]) and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server(address, family=family, backlog=64, dualstack_ipv6=both)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]
        hint = "another program has this port" if error.errno == errno.EADDRINUSE else _ALLOWED_LISTEN
        raise PagesError(f"cannot listen on {listen!r}: {reason} ({hint})") from error
    listener.setblocking(False)
    return listener


def _parsed(head: bytes) -> _Request | None:
    """Read the head of a request; None if it is none."""
    first, *lines = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    fields = [_FIELD_LINE.fullmatch(line) for line in lines]
    if match is None or None in fields:
        return None
    headers = {field[1].lower(): field[2].strip().lower() for field in fields if field}
    modern = match[3] == b"1"
    if modern and b"host" not in headers:
        return None
    # A body is not read, so that nothing after it could be told from it.
    body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
    last = not modern or body or b"close" in headers.get(b"connection", b"")
    return _Request(match[1].decode(), match[2].decode().partition("?")[0], last)


def _refusal(status: HTTPStatus, *, last: bool = True) -> bytes:
    return _rendered(Page(status, _TEXT, f"{status.phrase.lower()}\n".encode()), _Request("GET", "", last))


def _rendered(page: Page, request: _Request) -> bytes:
    lines = [
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
        "Server: chipwarden",
        f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime())}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
    ]
    if page.status == HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    if request.last:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if request.method == "HEAD" else head + page.body
