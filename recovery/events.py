"""The thread that writes Events about Nodes: an Event never delays or fails a pass.

An edge. Its transport is its own. The same sentence about the same Node is one Event with a count, brought up to date
at most once a minute; its name follows from what it says, so that a restarted leader goes on with it.

Source: Kubernetes API, Event v1; events of things without a namespace are in `default` (read 2026-11-29).
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from runtime import logs
from runtime.backoff import Lane
from runtime.rest import MERGE, Rest, RestError

if TYPE_CHECKING:
    from datetime import datetime

    from runtime.clock import Clock

COMPONENT: Final = "chipwarden-recovery"
EVENTS: Final = "/api/v1/namespaces/default/events"
_RENEW_SECONDS: Final = 60.0
_CLOSING_SECONDS: Final = 2.0
_MOST: Final = 1000
_LONGEST_MESSAGE: Final = 1024
_LONGEST_NODE_NAME: Final = 230  # the name of an Event has at most 253 characters
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_HOPELESS: Final = frozenset({400, 403, 413, 422})  # never taken, however often it is sent
_LOG = logs.get(__name__)


@dataclasses.dataclass(slots=True)
class _Event:
    """What is to be written.

    Args:
        count: how often it was told and not yet written.
        not_before: monotonic seconds.
    """

    node: str
    uid: str
    reason: str
    message: str
    warning: bool
    at: datetime
    count: int
    not_before: float


class _Counted(msgspec.Struct):
    count: int | None = None


class Events:
    """Events about Nodes.

    Args:
        rest: the API server, for this thread alone.
        clock: the time.
    """

    def __init__(self, rest: Rest, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock
        self._changed = threading.Condition()
        self._closed = False
        self._waiting: collections.OrderedDict[str, _Event] = collections.OrderedDict()
        self._written: collections.OrderedDict[str, tuple[int, float]] = collections.OrderedDict()  # count, when
        self._dropped = 0
        self._lane = Lane()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def tell(self, node: str, uid: str, reason: str, message: str, *, warning: bool) -> None:
        """Have an Event written; returns at once. When the API server is away for long, the oldest are dropped.

        Args:
            node: its name.
            uid: of the Node object, or its name.
            reason: in CamelCase.
            message: a sentence; what is beyond 1,024 characters is cut off.
            warning: Warning, not Normal.
        """
        message = message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
        name = _name(node, uid, reason, message)
        with self._changed:
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting.count += 1
                waiting.at = self._clock.now()
                return
            _, written_at = self._written.get(name, (0, -_RENEW_SECONDS))
            self._waiting[name] = _Event(
                node=node,
                uid=uid,
                reason=reason,
                message=message,
                warning=warning,
                at=self._clock.now(),
                count=1,
                not_before=written_at + _RENEW_SECONDS,
            )
            if len(self._waiting) > _MOST:
                self._waiting.popitem(last=False)
                self._dropped += 1
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, if that is possible within two seconds, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:  # it was started
            self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                name = self._due()
                while name is None:
                    if self._closed:
                        return
                    self._changed.wait(self._pause_seconds())
                    name = self._due()
                event = self._waiting.pop(name)
                self._note(name, self._written.get(name, (0, 0.0))[0])
            self._try(name, event)
            if self._closed and self._lane.failures:
                return

    def _due(self) -> str | None:
        """Choose what is written now; at the end all of it is."""
        now = self._clock.monotonic()
        if not self._closed and now < self._lane.not_before:
            return None
        return next((name for name, event in self._waiting.items() if self._closed or event.not_before <= now), None)

    def _pause_seconds(self) -> float | None:
        if not self._waiting:
            return None
        first = min(event.not_before for event in self._waiting.values())
        return max(0.0, max(first, self._lane.not_before) - self._clock.monotonic())

    def _try(self, name: str, event: _Event) -> None:
        try:
            self._write(name, event)
        except RestError as error:
            if error.status in _HOPELESS:
                self._refused(event, error)
            else:
                self._failed(name, event, error)
        except Exception as error:  # noqa: BLE001 - whatever an answer did to us, later Events are to be written
            self._refused(event, error)
        else:
            self._lane.succeeded(self._clock.monotonic())
            if self._dropped:
                _LOG.warning("Events were dropped, too many waited", events=self._dropped)
                self._dropped = 0

    def _refused(self, event: _Event, error: Exception) -> None:
        _LOG.error("an Event is dropped", node=event.node, reason=event.reason, error=str(error))
        self._lane.succeeded(self._clock.monotonic())

    def _failed(self, name: str, event: _Event, error: RestError) -> None:
        self._lane.failed(self._clock.monotonic(), error.retry_after_seconds)
        if self._lane.failures == 1:
            _LOG.warning("an Event cannot be written now", node=event.node, reason=event.reason, error=str(error))
        with self._changed:
            newer = self._waiting.setdefault(name, event)
            if newer is not event:
                newer.count += event.count
            self._waiting.move_to_end(name, last=False)

    def _write(self, name: str, event: _Event) -> None:
        """Write an Event anew, or add to the count of the one that is there."""
        path = f"{EVENTS}/{name}"
        count, _ = self._written.get(name, (0, 0.0))
        if count:
            try:
                self._renew(path, event, count + event.count)
            except RestError as error:
                if error.status != _NOT_FOUND:
                    raise
                count = 0  # Events are kept for an hour
        if not count:
            count = self._create(name, path, event)
        with self._changed:
            self._note(name, count + event.count)

    def _note(self, name: str, count: int) -> None:
        """Note that an Event with so many counts is written now."""
        self._written[name] = (count, self._clock.monotonic())
        self._written.move_to_end(name)
        if len(self._written) > _MOST:
            self._written.popitem(last=False)

    def _create(self, name: str, path: str, event: _Event) -> int:
        """Create it and return 0, or add to the one that an earlier leader has written and return its count."""
        try:
            self._rest.request("POST", EVENTS, body=_body(name, event))
        except RestError as error:
            if error.status != _CONFLICT:
                raise
            count = msgspec.json.decode(self._rest.request("GET", path), type=_Counted).count or 1
            self._renew(path, event, count + event.count)
            return count
        return 0

    def _renew(self, path: str, event: _Event, count: int) -> None:
        self._rest.request("PATCH", path, body={"count": count, "lastTimestamp": _time(event.at)}, content_type=MERGE)


def _name(node: str, uid: str, reason: str, message: str) -> str:
    digest = hashlib.sha256(f"{uid} {reason} {message}".encode()).hexdigest()[:16]
    return f"{node[:_LONGEST_NODE_NAME].rstrip('.-')}.{digest}"


def _body(name: str, event: _Event) -> dict[str, Any]:
    at = _time(event.at)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": event.node, "uid": event.uid},
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": event.count,
    }


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
