"""The one way to AWS: a session, clients made on first use and kept, and an end to every call.

An edge. A read timeout bounds the silence between two bytes only, retries multiply it, a name server can hold a call
for 40 s, and fetching credentials makes calls of its own; so a deadline also bounds every connection that the SDK makes
(sending.py), and whoever must not wait calls through `Rounds`, which gives up at its limit. Whatever is not a whole
answer with a request id is one error, of unknown outcome. Must never turn an error into a conclusion.

Source: botocore 1.44.8, session.py, endpoint.py, credentials.py (read 2026-11-29).
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import NoCredentialsError
from botocore.session import Session

from recovery.cloud_errors import CloudError, classify
from recovery.sending import Sending, bound_connections, current
from runtime.vocabulary import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recovery.ports import Permit

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0
ROUND_SECONDS: Final = 30.0
ATTEMPTS: Final = 2
_GRACE_SECONDS: Final = 0.05  # so that a call that ends at its limit tells why itself

_Answer = TypeVar("_Answer", bound=msgspec.Struct)


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
        bound_connections()
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
        sending: Sending,
        attempts: int = ATTEMPTS,
    ) -> _Answer:
        """Make a call, in this thread.

        Args:
            service: botocore's name of it, which is also IAM's for those that are used here.
            operation: as IAM names the action.
            into: what the answer must hold.
            parameters: of the operation.
            sending: until when; only a name server can make it longer.
            attempts: at most, the first included.

        Raises:
            CloudError: there is no whole answer.
        """
        try:
            with sending:
                return self._try(service, operation, into, parameters, attempts)
        except CloudError:
            raise
        except Exception as error:
            if isinstance(error, NoCredentialsError):
                self._clients.pop((service, attempts), None)  # it would never look for any again
            raise classify(error, service, operation, sending) from error

    def credentials(self, sending: Sending) -> Any:
        """Give the credentials of now, for what is no call of a client.

        Args:
            sending: until when.

        Raises:
            CloudError: there are none.
        """
        try:
            with sending, self._alone():
                found = self._session.get_credentials()
                frozen = None if found is None else found.get_frozen_credentials()
        except Exception as error:
            raise classify(error, "credentials", "get", sending) from error
        if frozen is None:
            raise CloudError("there are no AWS credentials", outcome="credentials", unsent=True)
        return frozen

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
            with self._alone():
                config = Config(retries={"mode": "standard", "total_max_attempts": attempts})
                client = self._session.create_client(service, region_name=self._region, config=config)
                client.meta.events.register("before-send", lambda **_: current().signed())
            self._clients[service, attempts] = client
        return client

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Have no other thread look for credentials meanwhile, as the SDK does when it makes a client."""
        if not self._making.acquire(timeout=max(0.0, current().until - time.monotonic())):
            raise TimeoutError("another thread is still looking for credentials")
        try:
            yield
        finally:
            self._making.release()


class Rounds:
    """Makes calls for the loop, which must not wait: all calls of a round end within one limit.

    Args:
        sdk: makes them.
        seconds: the limit of a round, and of a call outside of any round.
        permits: gives what tells whether a call may still be sent; None = there is no other who may lead.

    Calls are made in one thread of its own. One that was given up sends nothing any more, but may take a while to end;
    until then further calls raise at once.
    """

    def __init__(
        self, sdk: Sdk, *, seconds: float = ROUND_SECONDS, permits: Callable[[], Permit] | None = None
    ) -> None:
        self._sdk = sdk
        self._seconds = seconds
        self._permits = permits
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
        until = time.monotonic() + self._seconds if self._ends_at is None else self._ends_at
        sending = Sending(until, None if self._permits is None else self._permits())
        self._check_free(f"{service}:{operation}", sending)
        job = self._last = _Job(
            lambda: self._sdk.ask(service, operation, into, parameters, sending=sending, attempts=attempts)
        )
        self._jobs.put(job)
        if not job.done.wait(until - time.monotonic() + _GRACE_SECONDS):
            words = f"{service}:{operation}: given up, the time of this round is over"
            raise CloudError(words, outcome="given_up", unsent=sending.give_up())
        if job.error is not None:
            raise job.error
        return job.answer  # type: ignore[no-any-return]

    def _check_free(self, action: str, sending: Sending) -> None:
        """See that a call can be made now.

        Raises:
            CloudError: it cannot.
        """
        if sending.is_late:
            words = f"{action}: not tried, the time of this round is over"
            raise CloudError(words, outcome="given_up", unsent=True)
        if self._last is not None and not self._last.done.is_set():
            words = f"{action}: not tried, a call that was given up has not ended yet"
            raise CloudError(words, outcome="given_up", unsent=True)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cloud", daemon=True)
            self._thread.start()

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
