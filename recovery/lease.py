"""Who leads: a Lease that one process holds and renews.

An edge, with a thread and a transport of its own, so that a slow pass never costs the lead. Clocks of machines are not
compared: a Lease has expired when nobody has changed it before our eyes for as long as it says. Must never tell that it
is held longer than the others wait.

Source: k8s.io/client-go v0.36.3, tools/leaderelection/leaderelection.go; Kubernetes API, Lease coordination.k8s.io/v1,
times with exactly six fractional digits (read 2026-11-29).
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from recovery import api
from recovery.ports import PortError
from runtime import logs
from runtime.rest import MERGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.ports import Permit
    from runtime.rest import Rest

NAME: Final = "chipwarden-recovery"
DURATION_SECONDS: Final = 15
WHOLE_SECONDS: Final = 3.0  # for the transport: how long an answer may take
_HELD_SECONDS: Final = DURATION_SECONDS - 1.0  # clocks do not all run alike
_FRESH_SECONDS: Final = 10.0
_RENEW_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.2
_READ_SECONDS: Final = 2.0
_RELEASE_SECONDS: Final = 1.0
_CLOSING_SECONDS: Final = 2.5
_LOG = logs.get(__name__)


def _awake_or_asleep() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = _Spec()


class Lease:
    """The Lease; implements `ports.Lead`.

    Args:
        rest: the API server, for this thread alone, made with WHOLE_SECONDS.
        namespace: recovery's own.
        identity: of this process, never used by another one.
        seconds: a clock that never goes back, and goes on while the machine sleeps.
    """

    def __init__(
        self, rest: Rest, namespace: str, identity: str, *, seconds: Callable[[], float] = _awake_or_asleep
    ) -> None:
        self._rest = rest
        self._namespace = namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._identity = identity
        self._seconds = seconds
        self._seen: _Lease | None = None  # as it was read or written last; None = has to be read
        self._changed_at = 0.0  # when its content was seen to differ from before
        self._content: _Spec | None = None
        self._renewed_at: float | None = None  # when the last renewal that succeeded was sent; None = not held
        self._terms = 0  # how often it was taken
        self._failed = False
        self._stop = threading.Event()
        self._chance = random.Random()  # noqa: S311 - jitter
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def holder(self) -> str:
        """Who holds it as far as we know; "" = nobody."""
        return (self._content and self._content.holder_identity) or ""

    def start(self) -> None:
        """Begin to look for the lead."""
        self._thread.start()

    def is_held(self) -> bool:
        """Tell whether the Lease is ours and nobody else may take it yet."""
        return self._is_younger(_HELD_SECONDS)

    def is_fresh(self) -> bool:
        """Tell whether it is ours and was renewed less than 10 s ago."""
        return self._is_younger(_FRESH_SECONDS)

    def permit(self) -> Permit:
        """Give what tells whether this lead is still fresh: one that was lost meanwhile and won again is another."""
        term = self._terms
        return lambda: self.is_fresh() and self._terms == term

    def close(self) -> None:
        """Lead no more, and let others lead at once; if the API server does not answer, they wait for the expiry.

        Call it when nothing is being done any more that only a leader may do.
        """
        self._stop.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join(_CLOSING_SECONDS)

    def _is_younger(self, seconds: float) -> bool:
        renewed_at = self._renewed_at
        return renewed_at is not None and not self._stop.is_set() and self._seconds() - renewed_at < seconds

    def _run(self) -> None:
        while not self._stop.is_set():
            self._stop.wait(self._round())
        if self._renewed_at is not None:
            self._release()

    def _round(self) -> float:
        """Do one step; return how long to wait for the next, in seconds."""
        try:
            self._step()
        except PortError as error:
            if error.conflict or error.gone:
                self._seen = None
            if error.conflict:
                return self._chance.uniform(_AGAIN_SECONDS / 2, _AGAIN_SECONDS)
            self._complain(error)
        except Exception as error:  # noqa: BLE001 - whatever an answer did to us, the thread has to go on
            self._complain(error)
        else:
            self._failed = False
        return self._chance.uniform(_RENEW_SECONDS * 0.8, _RENEW_SECONDS * 1.2)

    def _complain(self, error: Exception) -> None:
        if not self._failed:
            _LOG.warning("the Lease cannot be read or renewed", error=str(error), held=self.is_held())
        self._failed = True

    def _step(self) -> None:
        if self._seen is None or self.holder != self._identity:
            self._look()
        if self._seen is None:
            self._take(None)
        elif self.holder == self._identity:
            self._write(self._seen, {"holderIdentity": self._identity, "renewTime": _now()})
        elif self._is_free():
            self._take(self._seen)

    def _look(self) -> None:
        """Read the Lease, and note when what it says changes; somebody else's is no longer ours."""
        try:
            self._learn(api.get(self._rest, f"{self._path}/{NAME}", _Lease))
        except PortError as error:
            if not error.gone:
                raise
            self._seen = self._content = None
        if self.holder != self._identity:
            self._lose()

    def _learn(self, lease: _Lease) -> None:
        self._seen = lease
        if lease.spec != self._content:
            self._content = lease.spec
            self._changed_at = self._seconds()

    def _is_free(self) -> bool:
        """Tell whether it was given up, or has not been renewed before our eyes for as long as it says."""
        content = self._content or _Spec()
        wait = max(content.lease_duration_seconds or 0, DURATION_SECONDS)
        return not content.holder_identity or self._seconds() - self._changed_at >= wait

    def _take(self, lease: _Lease | None) -> None:
        now = _now()
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0 if lease is None else (lease.spec.lease_transitions or 0) + 1,
        }
        before = self.holder
        self._terms += 1  # before it can be held
        self._write(lease, spec)
        _LOG.info("leads now", identity=self._identity, before=before)

    def _write(self, lease: _Lease | None, spec: dict[str, Any], read_seconds: float = _READ_SECONDS) -> None:
        """Write the Lease if nobody has since it was read."""
        sent_at = self._seconds()
        if lease is None:
            metadata = {"name": NAME, "namespace": self._namespace}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            answer = api.ask(self._rest, "POST", self._path, body=body, read_seconds=read_seconds)
        else:
            body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
            path = f"{self._path}/{NAME}"
            answer = api.ask(self._rest, "PATCH", path, body=body, content_type=MERGE, read_seconds=read_seconds)
        self._learn(api.decode(self._path, answer, _Lease))
        self._renewed_at = sent_at if self.holder == self._identity else None

    def _lose(self) -> None:
        if self._renewed_at is not None:
            _LOG.warning("leads no more", identity=self._identity, holder=self.holder)
        self._renewed_at = None

    def _release(self) -> None:
        if self._seen is None or self.holder != self._identity:
            return
        now = _now()
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        try:
            self._write(self._seen, spec, _RELEASE_SECONDS)
        except PortError as error:
            _LOG.warning("the Lease cannot be given up and will expire", error=str(error))


class Alone:
    """The lead of a process that has no rival: stand-alone; implements `ports.Lead`."""

    def is_held(self) -> bool:
        """Tell that it leads."""
        return True

    def is_fresh(self) -> bool:
        """Tell that it leads."""
        return True

    def permit(self) -> Permit:
        """Give what tells that it still leads."""
        return self.is_fresh


def identity(name: str) -> str:
    """Make an identity that no other process has: a restarted container has its pod's name again.

    Args:
        name: of the pod, for people.
    """
    return f"{name}_{uuid.uuid4()}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
