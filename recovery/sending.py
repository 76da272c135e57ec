"""The last moment before a request to AWS is sent: is there time left, and does this process still lead?

An edge. Between a decision and the first byte lie a name server, a handshake, perhaps new credentials and, if the
machine was paused, any time at all; so this is asked again where the bytes are handed to the kernel, on every
connection that the SDK makes. What is left is the time between that question and the system call, some microseconds,
and what a network may keep back. Must never let a request be sent that was given up.

Source: botocore 1.44.8, awsrequest.py, endpoint.py, httpsession.py (read 2026-11-29, 2026-11-30).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from botocore import awsrequest

from runtime.answers import timed

if TYPE_CHECKING:
    from typing import Self

    from recovery.ports import Permit

_NO_LIMIT_SECONDS: Final = 3600.0  # other users of botocore in this process have timeouts of their own
_here = threading.local()


class NotSentError(TimeoutError):
    """A request was not sent, because it may not be sent any more."""


class Sending:
    """One call, from the decision to its end.

    Args:
        until: when it has to have ended, monotonic seconds.
        permit: tells whether it may still be sent; None = nobody else could have taken the lead.
    """

    def __init__(self, until: float, permit: Permit | None = None) -> None:
        self.until = until
        self.why_not: str | None = None  # it was sent no more; None = it never came to that
        self._permit = permit
        self._lock = threading.Lock()
        self._is_signed = False
        self._is_sent = False

    @property
    def is_late(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() >= self.until

    @property
    def is_unsent(self) -> bool:
        """Whether certainly no byte of the request itself was sent; one for credentials does not count."""
        return not self._is_sent

    def signed(self, **_: Any) -> None:
        """Note that what is sent from now on is the request itself: the SDK says so before each attempt."""
        self._is_signed = True

    def check(self, *, sends: bool = False) -> None:
        """Refuse to go on, or note that the request is being sent.

        Raises:
            NotSentError: it may not be sent any more.
        """
        with self._lock:
            if self.is_late:
                raise NotSentError("the time of this call is over")
            if self._permit is not None and not self._permit():
                self.why_not = "the Lease was not renewed in time, or somebody else has led meanwhile"
            if self.why_not is not None:
                raise NotSentError(self.why_not)
            self._is_sent |= sends and self._is_signed

    def give_up(self) -> bool:
        """Have nothing sent from now on; tell whether nothing was sent before."""
        with self._lock:
            self.why_not = self.why_not or "it was given up"
            return self.is_unsent

    def __enter__(self) -> Self:
        _here.sending = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.sending = None


def current() -> Sending:
    """Give the call that this thread makes."""
    return getattr(_here, "sending", None) or Sending(time.monotonic() + _NO_LIMIT_SECONDS)


def _bound(connection: Any) -> Any:
    """Make connections that send nothing that may not be sent, and read nothing after the deadline of the call."""

    class Bound(connection):  # type: ignore[misc]
        response_class = timed(lambda: current().until)

        def connect(self) -> None:
            super().connect()
            current().check()  # a name server may have taken its time

        def send(self, data: Any) -> None:
            if self.sock is None and self.auto_open:
                self.connect()
            current().check(sends=True)
            super().send(data)

    return Bound


def bound_connections() -> None:
    """Have botocore use bounded connections, for services, STS and both kinds of metadata alike; once.

    The class attribute is urllib3's own place for it, and the only one that the clients have in common which the SDK
    makes for itself.
    """
    for pool in (awsrequest.AWSHTTPConnectionPool, awsrequest.AWSHTTPSConnectionPool):
        if pool.ConnectionCls.__name__ != "Bound":
            pool.ConnectionCls = _bound(pool.ConnectionCls)
