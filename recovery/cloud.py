"""The one way to AWS: a session, clients made on first use and kept, and an end to every call.

An edge. A read timeout bounds the silence between two bytes only, retries multiply it, a name server can hold a call
for 40 s, and fetching credentials makes calls of its own; so a deadline of the calling thread also bounds every
connection that the SDK makes, and whoever must not wait calls through `Rounds`, which gives up at its limit. Whatever
is not a whole answer with a request id is one error, of unknown outcome. Must never turn an error into a conclusion.

Source: botocore 1.44.8, session.py, endpoint.py, awsrequest.py, httpsession.py, credentials.py (read 2026-11-29).
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from botocore import awsrequest, xform_name
from botocore.config import Config
from botocore.exceptions import NoCredentialsError
from botocore.session import Session

from recovery.cloud_errors import CloudError, classify
from runtime.answers import timed
from runtime.vocabulary import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0
ROUND_SECONDS: Final = 30.0
ATTEMPTS: Final = 2
_GRACE_SECONDS: Final = 0.05  # so that a call that ends at its limit tells why itself
_NO_LIMIT_SECONDS: Final = 3600.0  # other users of botocore in this process have timeouts of their own

_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_until = threading.local()


class Empty(msgspec.Struct, frozen=True):
    """An answer that says nothing but that the request was taken."""


class Sdk:
    """AWS, for one region.

    Args:
        region: given to the SDK explicitly, which itself does not read AWS_REGION.
        counted: called with the operation and its outcome after each call, from any thread, one at a time.
        connect_seconds: to get a connection.
        read_seconds: how long a server may be silent.

    The default configuration is the session's, because the client of STS inside it takes no other. Credentials come
    from the SDK's own chain, and are looked for again as long as there are none.
    """

    def __init__(
        self,
        *,
        region: str,
        counted: Callable[[str, str], None],
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._region = region
        self._counted = counted
        self._counting = threading.Lock()
        self._making = threading.Lock()
        self._clients: dict[tuple[str, int], Any] = {}
        _bound_connections()
        self._session = Session()
        self._session.set_config_variable("region", region)
        self._session.set_default_client_config(
            Config(
                connect_timeout=connect_seconds,
                read_timeout=read_seconds,
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                user_agent_extra=f"chipwarden/{VERSION}",
            )
        )

    def ask(
        self,
        service: str,
        operation: str,
        into: type[_Answer],
        parameters: dict[str, Any],
        *,
        seconds: float,
        attempts: int = ATTEMPTS,
    ) -> _Answer:
        """Make a call, in this thread.

        Args:
            service: botocore's name of it, which is also IAM's for those that are used here.
            operation: as IAM names the action.
            into: what the answer must hold.
            parameters: of the operation.
            seconds: the limit; only a name server can make it longer.
            attempts: at most, the first included.

        Raises:
            CloudError: there is no whole answer.
        """
        _until.at = time.monotonic() + seconds
        try:
            return self._try(service, operation, into, parameters, attempts)
        except CloudError:
            raise
        except Exception as error:
            if isinstance(error, NoCredentialsError):
                self._clients.pop((service, attempts), None)  # it would never look for any again
            raise classify(error, service, operation, is_late=time.monotonic() >= _until.at) from error
        finally:
            _until.at = None

    def count(self, operation: str, error: CloudError | None) -> None:
        """Count a call that has ended, or was given up."""
        with self._counting:
            self._counted(operation, error.outcome if error else "ok")

    def _try(
        self, service: str, operation: str, into: type[_Answer], parameters: dict[str, Any], attempts: int
    ) -> _Answer:
        answer = getattr(self._client(service, attempts), xform_name(operation))(**parameters)
        if not answer.get("ResponseMetadata", {}).get("RequestId"):  # a 200 of whoever stands in between
            raise CloudError(f"{service}:{operation}: an answer without request id", outcome="incomplete")
        return msgspec.convert(answer, into)

    def _client(self, service: str, attempts: int) -> Any:
        client = self._clients.get((service, attempts))
        if client is None:
            if not self._making.acquire(timeout=max(0.0, _until.at - time.monotonic())):
                raise TimeoutError("another thread is still looking for credentials")
            try:
                config = Config(retries={"mode": "standard", "total_max_attempts": attempts})
                client = self._session.create_client(service, region_name=self._region, config=config)
            finally:
                self._making.release()
            self._clients[service, attempts] = client
        return client


class Rounds:
    """Makes calls for the loop, which must not wait: all calls of a round end within one limit.

    Args:
        sdk: makes them.
        seconds: the limit of a round, and of a call outside of any round.

    Calls are made in one thread of its own. One that was given up sends nothing any more, but may take a while to end;
    until then further calls raise at once.
    """

    def __init__(self, sdk: Sdk, *, seconds: float = ROUND_SECONDS) -> None:
        self._sdk = sdk
        self._seconds = seconds
        self._ends_at: float | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._last: _Job | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin a round."""
        self._ends_at = time.monotonic() + self._seconds

    def call(
        self, service: str, operation: str, into: type[_Answer], *, attempts: int = ATTEMPTS, **parameters: Any
    ) -> _Answer:
        """Make a call and wait for its answer, to the end of the round at most.

        Raises:
            CloudError: there is no whole answer.
        """
        try:
            answer = self._call(service, operation, into, parameters, attempts)
        except CloudError as error:
            self._sdk.count(operation, error)
            raise
        self._sdk.count(operation, None)
        return answer

    def _call(
        self, service: str, operation: str, into: type[_Answer], parameters: dict[str, Any], attempts: int
    ) -> _Answer:
        action = f"{service}:{operation}"
        left = self._seconds if self._ends_at is None else self._ends_at - time.monotonic()
        if left <= 0:
            raise CloudError(f"{action}: not tried, the time of this round is over", outcome="given_up")
        if self._last is not None and not self._last.done.is_set():
            raise CloudError(f"{action}: not tried, a call that was given up has not ended yet", outcome="given_up")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cloud", daemon=True)
            self._thread.start()
        job = self._last = _Job(
            lambda: self._sdk.ask(service, operation, into, parameters, seconds=left, attempts=attempts)
        )
        self._jobs.put(job)
        if not job.done.wait(left + _GRACE_SECONDS):
            raise CloudError(f"{action}: given up, the time of this round is over", outcome="given_up")
        if job.error is not None:
            raise job.error
        return job.answer  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the thread, once it has nothing more to do."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()


class _Job:
    """A call, on its way from one thread to another and back."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.done = threading.Event()
        self.answer: Any = None
        self.error: CloudError | None = None
        self._call = call

    def run(self) -> None:
        try:
            self.answer = self._call()
        except CloudError as error:
            self.error = error
        finally:
            self.done.set()


def _deadline() -> float:
    return getattr(_until, "at", None) or time.monotonic() + _NO_LIMIT_SECONDS


def _check_time() -> None:
    if time.monotonic() >= _deadline():
        raise TimeoutError("the time of this call is over")


def _bound(connection: Any) -> Any:
    """Make connections that send nothing and read nothing after the deadline of the thread that uses them."""

    class Bound(connection):  # type: ignore[misc]
        response_class = timed(_deadline)

        def connect(self) -> None:
            super().connect()
            _check_time()  # a name server may have taken its time

        def send(self, data: Any) -> None:
            _check_time()
            super().send(data)

    return Bound


def _bound_connections() -> None:
    """Have botocore use bounded connections, for services, STS and both kinds of metadata alike; once.

    The class attribute is urllib3's own place for it, and the only one that the clients have in common which the SDK
    makes for itself.
    """
    for pool in (awsrequest.AWSHTTPConnectionPool, awsrequest.AWSHTTPSConnectionPool):
        if pool.ConnectionCls.__name__ != "Bound":
            pool.ConnectionCls = _bound(pool.ConnectionCls)
