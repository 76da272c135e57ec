"""A stand-in for what goes wrong between an SDK and AWS, and the record of what was asked.

It takes plain HTTP on loopback and passes each request on to the server behind it, unless a test has said what is to go
wrong. Faults are written as text, so that a table of tests reads as one:

    pass            the true answer
    rst, close      the connection ends, nothing was asked of AWS
    done:rst        AWS did what was asked, then the connection ends
    hang            no answer
    drip            one byte of the true answer each tenth of a second, from its head on
    truncate        half of the true answer's body
    502html, 502doctype, 503empty, 200garbage, 200html     what load balancers and captive portals say
    err:400:Throttling   an error, in the words of the service's own protocol
    slow:0.3        the true answer, after so many seconds
    say:<xml/>      200, a request id, and this text
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import re
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from tests.kubernetes.faults import closes_after, drips, resets_after, says, silent, whole
from tests.kubernetes.loopback import LONGEST_SECONDS, Loopback

if TYPE_CHECKING:
    import io
    import socket
    from collections.abc import Callable

    from tests.kubernetes.faults import Fault

_DRIP_SECONDS = 0.1
_HOP = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive"})
_HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
_DOCTYPE = b"<!doctype html><p>Bad Gateway"
_PORTAL = b"<html><body>Please sign in to the network</body></html>"
_ANY = "*"
_RECOVERY = "chipwarden/"  # in its User-Agent, which the calls of a test itself have not


class Call(NamedTuple):
    """A request as it came.

    Args:
        action: as IAM names it, `autoscaling:SetInstanceHealth`.
        parameters: of a form, or the whole JSON document.
        fault: what went wrong.
        at: monotonic seconds.
        attempt: the SDK's count of how often it has sent this one request.
    """

    action: str
    parameters: dict[str, Any]
    fault: str
    at: float
    attempt: int = 1


@dataclass
class Asked:
    """What recovery has asked for on one way to AWS.

    Args:
        actions: as IAM names them.
        is_narrow: the test is about narrow mode, where other permissions are needed.
    """

    actions: set[str] = field(default_factory=set)
    is_narrow: bool = False


ASKED: list[Asked] = []  # of the whole run: what the shipped policies are compared with at its end


class AwsProxy(Loopback):
    """The way to AWS, on which things go wrong.

    Args:
        upstream: host and port of the server behind it.

    Attributes:
        calls: what was asked.
        asked: which actions recovery has asked for; of all proxies of this process, in `ASKED`.
        remembers: give the first true answer to each action again, for tests that only count.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.calls: list[Call] = []
        self.asked = Asked()
        ASKED.append(self.asked)
        self.remembers = False
        self._remembered: dict[str, bytes] = {}
        self._upstream = upstream
        self._next: dict[str, deque[str]] = defaultdict(deque)
        self._always: dict[str, str] = {}
        super().__init__(backlog=128)

    def will(self, *faults: str, action: str = _ANY) -> None:
        """Say what goes wrong with the next requests, in this order; those of one action, or any."""
        self._next[action].extend(faults)

    def always(self, fault: str | None, action: str = _ANY) -> None:
        """Say what goes wrong with every request that `will` says nothing of; None = nothing any more."""
        if fault is None:
            self._always.pop(action, None)
        else:
            self._always[action] = fault

    def of(self, action: str) -> list[Call]:
        """List the requests so far of one action."""
        return [call for call in self.calls if call.action == action]

    def actions(self) -> set[str]:
        """Tell which actions were asked for."""
        return {call.action for call in self.calls}

    def answer(self, client: socket.socket, line: str, incoming: io.BufferedReader) -> bool:
        """Pass the request on, unless something is to go wrong with it."""
        verb, path, _ = line.split(" ")
        headers = dict(http.client.parse_headers(incoming).items())
        length = int(headers.get("Content-Length", 0))
        body = incoming.read(length)
        if len(body) < length:  # whoever asked has ended
            return False
        action, parameters = _read(headers, body)
        fault = self._fault(action)
        self.calls.append(Call(action, parameters, fault, time.monotonic(), _attempt(headers)))
        if _RECOVERY in headers.get("User-Agent", ""):
            self.asked.actions.add(action)
        fetch = partial(self._fetch, action, verb, path, body, headers)
        return _fault(fault, action.partition(":")[0])(client, fetch)

    def _fault(self, action: str) -> str:
        for key in (action, _ANY):
            if self._next[key]:
                return self._next[key].popleft()
        return self._always.get(action) or self._always.get(_ANY) or "pass"

    def _fetch(self, action: str, verb: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        if not self.remembers:
            return self._ask(verb, path, body, headers)
        if action not in self._remembered:
            self._remembered[action] = self._ask(verb, path, body, headers)
        return self._remembered[action]

    def _ask(self, verb: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        with contextlib.closing(http.client.HTTPConnection(*self._upstream, timeout=LONGEST_SECONDS)) as connection:
            connection.request(verb, path, body=body or None, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        head = [f"HTTP/1.1 {answer.status} {answer.reason}", f"Content-Length: {len(text)}"]
        head += [f"{name}: {value}" for name, value in answer.getheaders() if name.lower() not in _HOP]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + text


def _attempt(headers: dict[str, str]) -> int:
    """Read `attempt=1; max=2`. Source: botocore/retries/standard.py and endpoint.py (read 2026-11-29)."""
    found = re.search(r"attempt=(\d+)", headers.get("amz-sdk-request", ""))
    return int(found[1]) if found else 1


def _read(headers: dict[str, str], body: bytes) -> tuple[str, dict[str, Any]]:
    """Tell action and parameters of a request, whatever its protocol: query, EC2's query, or JSON."""
    scope = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", headers.get("Authorization", ""))
    service = scope[1] if scope else "sts"  # AssumeRoleWithWebIdentity is not signed
    service = {"monitoring": "cloudwatch"}.get(service, service)
    if headers.get("Content-Encoding") == "gzip":  # the SDK compresses what is long
        body = gzip.decompress(body)
    if target := headers.get("X-Amz-Target"):
        return f"{service}:{target.rpartition('.')[2]}", json.loads(body)
    parameters = dict(parse_qsl(body.decode(), keep_blank_values=True))
    return f"{service}:{parameters.pop('Action', '')}", parameters


def error(service: str, status: int, code: str, message: str = "made up") -> bytes:
    """Write an error as the service would."""
    request_id = "11111111-2222-3333-4444-555555555555"
    if service == "cloudwatch":
        body = json.dumps({"__type": f"com.amazonaws.cloudwatch#{code}", "message": message}).encode()
        return whole(status, body, x_amzn_RequestId=request_id, x_amzn_query_error=f"{code};Sender")
    inside = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    text = (
        f"<Response><Errors>{inside}</Errors><RequestID>{request_id}</RequestID></Response>"
        if service == "ec2"
        else f"<ErrorResponse>{inside}<RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return whole(status, text.encode(), x_amzn_RequestId=request_id)


def _rst(client: socket.socket, _: Callable[[], bytes]) -> bool:
    return resets_after(0)(client, lambda: b"")


def _drips(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
    return drips(fetch(), every_seconds=_DRIP_SECONDS)(client, fetch)


def _truncates(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
    answer = fetch()
    head, _, body = answer.partition(b"\r\n\r\n")
    return closes_after(len(head) + 4 + len(body) // 2)(client, lambda: answer)


def _passes(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
    client.sendall(fetch())
    return True


_FAULTS: dict[str, Fault] = {
    "pass": _passes,
    "rst": _rst,
    "close": lambda client, _: closes_after(0)(client, lambda: b""),
    "done:rst": resets_after(0),
    "hang": silent,
    "drip": _drips,
    "truncate": _truncates,
    "502html": says(whole(502, _HTML)),
    "502doctype": says(whole(502, _DOCTYPE)),
    "503empty": says(whole(503, b"")),
    "200garbage": says(whole(200, b"\x00\xff garbage {]")),
    "200html": says(whole(200, _PORTAL)),
}


def _fault(name: str, service: str) -> Fault:
    """Find a fault by its name."""
    kind, _, rest = name.partition(":")
    if kind == "err":
        status, _, code = rest.partition(":")
        return says(error(service, int(status), code))
    if kind == "say":
        return says(whole(200, rest.encode(), x_amzn_RequestId="1"))
    if kind == "slow":

        def slow(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
            time.sleep(float(rest))
            return _passes(client, fetch)

        return slow
    return _FAULTS[name]
