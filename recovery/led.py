"""Requests to the API server that only a leader may make: the lead is looked at again where bytes leave this process.

An edge. Between the decision to fence or to evict and the request's first byte this process may have been paused, or a
name server may have taken its time, until another one led. Reads are free. So are writes of the ledger: they are
compare-and-swaps, which is stricter, and one that tells what was not done should still arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from runtime.rest import JSON, READ_SECONDS, WHOLE_SECONDS, Rest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recovery.ports import Permit

_READS: Final = "GET"


class NotLeadingError(OSError):
    """A request was not sent, because this process may no longer lead."""


class LedRest(Rest):
    """The API server, for the loop of a leader.

    Args:
        permits: gives what tells whether a request may still be sent.
        swapped: the beginning of the paths whose writes need no lead.
        environ: where to find out whether this is a pod.
        whole_seconds: how long an answer may take.
    """

    def __init__(
        self,
        permits: Callable[[], Permit],
        *,
        swapped: str,
        environ: Mapping[str, str],
        whole_seconds: float = WHOLE_SECONDS,
    ) -> None:
        super().__init__(counted=lambda _verb, _code: None, environ=environ, whole_seconds=whole_seconds)
        self._permits = permits
        self._swapped = swapped
        self._permit: Permit | None = None

    def request(
        self,
        verb: str,
        path: str,
        *,
        body: object = None,
        content_type: str = JSON,
        read_seconds: float = READ_SECONDS,
    ) -> bytes:
        """Send a request; see `Rest.request`.

        Raises:
            RestError: also if it was not sent any more.
        """
        is_free = verb == _READS or path.startswith(self._swapped)
        self._permit = None if is_free else self._permits()
        return super().request(verb, path, body=body, content_type=content_type, read_seconds=read_seconds)

    def _connect(self) -> Any:
        client = super()._connect()
        manager = client.rest_client.pool_manager
        found = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {scheme: _checked(pool, self._check) for scheme, pool in found.items()}
        return client

    def _check(self) -> None:
        if self._permit is not None and not self._permit():
            raise NotLeadingError("not sent, the Lease was not renewed in time, or somebody else has led meanwhile")


def _checked(pool: Any, check: Callable[[], None]) -> Any:
    """Make a pool of connections that ask before they hand bytes to the kernel."""

    class Connection(pool.ConnectionCls):  # type: ignore[misc]
        def send(self, data: Any) -> None:
            if self.sock is None and self.auto_open:
                self.connect()
            check()
            super().send(data)

    class Pool(pool):  # type: ignore[misc]
        ConnectionCls = Connection

    return Pool
