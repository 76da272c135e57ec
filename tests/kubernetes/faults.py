"""A stand-in for what goes wrong between a client and an API server: resets, throttling, silence, answers that drip.

It takes plain HTTP on loopback and passes each request on to the real API server, unless a test has said what is to go
wrong with it. Only the faults are made up. It must not do anything of its own accord.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tests.kubernetes.loopback import LONGEST_SECONDS, Loopback

if TYPE_CHECKING:
    import io

    from tests.kubernetes.client import Client

_TCP_REPAIR = 19  # linux/tcp.h; a socket closed in this state says nothing to its peer
_NO_LINGER = struct.pack("ii", 1, 0)
# What goes wrong: gets the client's connection and a function that has the request done and returns the true answer, as
# it would be sent; tells whether the connection goes on.
Fault: TypeAlias = Callable[[socket.socket, Callable[[], bytes]], bool]


class Seen(NamedTuple):
    """A request as it came."""

    verb: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float  # monotonic seconds


def whole(status: int, body: bytes = b"{}", **headers: str) -> bytes:
    """Write an answer; `Retry_After="1"` makes a header."""
    lines = [f"HTTP/1.1 {status} Made Up", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def says(answer: bytes) -> Fault:
    """Answer with these bytes, and ask nobody."""

    def fault(client: socket.socket, _: Callable[[], bytes]) -> bool:
        client.sendall(answer)
        return True

    return fault


def takes(seconds: float) -> Fault:
    """Answer truly, but late."""

    def fault(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        time.sleep(seconds)
        client.sendall(fetch())
        return True

    return fault


def resets_after(count: int) -> Fault:
    """Have the request done, send so many bytes of the true answer, then reset the connection."""

    def fault(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        client.sendall(fetch()[:count])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return False

    return fault


def closes_after(count: int) -> Fault:
    """Have the request done, send so many bytes of the true answer, then end the connection in good order."""

    def fault(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        client.sendall(fetch()[:count])
        return False

    return fault


def vanishes(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
    """Answer, then be gone without a word, as a machine that lost its power: the client's connection is half open."""
    client.sendall(fetch())
    client.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
    return False


def drips(answer: bytes, *, every_seconds: float) -> Fault:
    """Answer byte by byte, until the client has enough of it."""

    def fault(client: socket.socket, _: Callable[[], bytes]) -> bool:
        for at in range(len(answer)):
            client.sendall(answer[at : at + 1])
            time.sleep(every_seconds)
        return True

    return fault


def silent(client: socket.socket, _: Callable[[], bytes]) -> bool:
    """Take the request and never answer, until the client hangs up."""
    client.recv(1)
    return False


def passes(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
    """Do nothing wrong."""
    client.sendall(fetch())
    return True


class FaultProxy(Loopback):
    """The way to an API server, on which things go wrong.

    Args:
        upstream: the true server; None = there is none, and each request needs a fault.
    """

    def __init__(self, upstream: Client | None = None) -> None:
        self.seen: list[Seen] = []
        self._upstream = upstream
        self._context = ssl.create_default_context(cafile=upstream.authority) if upstream else None
        self._next: dict[str | None, deque[Fault]] = defaultdict(deque)
        self._always: Fault | None = None
        super().__init__()

    def will(self, *faults: Fault, verb: str | None = None) -> None:
        """Say what goes wrong with the next requests (of one verb; None = of any), in this order."""
        self._next[verb].extend(faults)

    def always(self, fault: Fault | None) -> None:
        """Say what goes wrong with every request that `will` says nothing of; None = nothing any more."""
        self._always = fault

    def requests(self, verb: str) -> list[Seen]:
        """List the requests so far of one verb."""
        return [each for each in self.seen if each.verb == verb]

    def answer(self, client: socket.socket, line: str, incoming: io.BufferedReader) -> bool:
        """Pass the request on, unless something is to go wrong with it."""
        verb, path, _ = line.split(" ")
        headers = {name.lower(): value for name, value in http.client.parse_headers(incoming).items()}
        body = incoming.read(int(headers.get("content-length", 0)))
        seen = Seen(verb, path, headers, body, time.monotonic())
        self.seen.append(seen)
        scripted = self._next[verb] or self._next[None]
        fault = (scripted.popleft() if scripted else self._always) or passes
        return fault(client, partial(self._fetch, seen))

    def _fetch(self, seen: Seen) -> bytes:
        assert self._upstream is not None, "no server behind it"
        address = self._upstream.url.removeprefix("https://")
        connection = http.client.HTTPSConnection(address, timeout=LONGEST_SECONDS, context=self._context)
        with contextlib.closing(connection):
            connection.request(seen.verb, seen.path, body=seen.body or None, headers=seen.headers)
            answer = connection.getresponse()
            return whole(answer.status, answer.read())
