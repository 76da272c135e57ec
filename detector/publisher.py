"""The thread that brings the node's health to the API server.

It holds the latest wanted state: changes are merged, never queued, and at most one PATCH a second is sent, the first at
once. Whatever the API server does, it keeps trying, ever more slowly, and the last state arrives. The loop that reads
the kernel log never waits for it.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Final

from detector.arrival import arrive, predecessor_cleared
from detector.book import key_of
from detector.health import NOTHING_CLEARED
from detector.model import ClearRequest
from detector.outbox import Outbox
from detector.pen import Pen
from detector.seen import Owner
from runtime import logs
from runtime.backoff import Lane
from runtime.rest import RestError
from runtime.vocabulary import ACCELERATED_HARDWARE_READY, Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from detector.board import Board
    from detector.health import NodeHealth
    from detector.kube import NodeClient
    from detector.model import Announcement, Fault, View
    from detector.seen import NodeSeen
    from runtime.clock import Clock

_LOG = logs.get(__name__)
_PACE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 20.0
_FIRST_READ_WITHIN_SECONDS: Final = 1.0  # a fleet that starts at once is spread over this
_CLOSING_SECONDS: Final = 2.0
_HOPELESS = frozenset({400, 422})  # an Event that the API server will never take


class Publisher:
    """Writes conditions and Events of the own Node, and looks for an operator's request to clear.

    Args:
        client: the own Node.
        health: what is known; touched only by the loop, through `post`.
        post: has the loop make a change.
        board: where requests, latencies and readiness are shown.
        boot: id of this boot.
        says_ready: publish AcceleratedHardwareReady too.
        clock: the time.
    """

    def __init__(
        self,
        *,
        client: NodeClient,
        health: NodeHealth,
        post: Callable[[Callable[[datetime], None]], None],
        board: Board,
        boot: str,
        says_ready: bool,
        clock: Clock,
    ) -> None:
        self._client = client
        self._health = health
        self._post = post
        self._board = board
        self._boot = boot
        self._pen = Pen(client, says_ready=says_ready, clock=clock)
        self._clock = clock
        self._changed = threading.Condition()
        self._closed = self._arrived = False
        self._view: View | None = None
        self._patched: object = None
        self._read_at: float | None = None
        self._remove_clear = False
        self._clearing = False  # a request was found and is being met
        self._meant = health.faults  # known before the Node was last seen without a request, so that one may mean them
        self._outbox = Outbox()
        self._patches = Lane(pace_seconds=_PACE_SECONDS)
        self._tells = Lane()
        self._reads = Lane(pace_seconds=_LOOK_SECONDS)
        self._reads.not_before = clock.monotonic() + random.uniform(0, _FIRST_READ_WITHIN_SECONDS)  # noqa: S311 - jitter
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def publish(self, view: View, read_at: float) -> None:
        """Have a view published; returns at once.

        Args:
            view: replaces the one before.
            read_at: when the line that changed it was read, monotonic seconds.
        """
        with self._changed:
            if self._view is None or view.revision != self._view.revision:
                self._read_at = self._read_at or read_at
            if self._view is None and _is_faulty(view):
                self._reads.not_before = 0.0  # a fault does not wait for its turn
            self._view = view
            self._changed.notify()

    def announce(self, announcements: list[Announcement]) -> None:
        """Have Events written; returns at once."""
        with self._changed:
            self._outbox.put(announcements)
            self._changed.notify()

    def is_settled(self) -> bool:
        """Tell whether the latest view and all Events have reached the API server."""
        return self._arrived and self._view is not None and not self._patch_is_wanted() and not self._outbox

    def close(self) -> None:
        """Publish what is outstanding, Events too, if that is possible within two seconds, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed and self._is_done():
                    return
                due = [lane.not_before for lane, _ in self._wanted()]
                self._changed.wait(max(0.0, min(due) - self._clock.monotonic()) if due else None)
            now = self._clock.monotonic()
            for lane, request in self._wanted():
                if now >= lane.not_before:
                    self._try(lane, request)
                    break

    def _wanted(self) -> list[tuple[Lane, Callable[[], None]]]:
        """List the requests that are to be made, the most urgent first, each with the lane that tells when."""
        if not self._arrived:
            return [(self._reads, self._arrive)]
        wanted = [(self._patches, self._patch)] if self._patch_is_wanted() else []
        wanted += [(self._tells, self._tell)] if self._outbox else []
        if self._view is not None and self._view.faults and not self._clearing:
            wanted.append((self._reads, self._look))
        return wanted

    def _is_done(self) -> bool:
        """Tell, at the end, whether there is nothing more to say or nobody who listens."""
        if not self._arrived:
            return self._view is None or self._reads.failures > 0
        patch = self._patch_is_wanted() and not self._patches.failures
        return not patch and (not self._outbox or self._tells.failures > 0)

    def _patch_is_wanted(self) -> bool:
        view = self._view
        return view is not None and (self._remove_clear or self._patched != self._key(view))

    def _key(self, view: View) -> object:
        """Tell what must be the same for a PATCH to be unnecessary: a count alone is no reason for one."""
        heartbeat = max((condition.last_heartbeat_at for condition in view.conditions), default=None)
        return view.revision, heartbeat, self._health.instance

    def _try(self, lane: Lane, request: Callable[[], None]) -> None:
        try:
            request()
        except RestError as error:
            self._failed(lane, error, error.retry_after_seconds)
        except Exception as error:  # noqa: BLE001 - whatever an answer did to us, the node must not fall silent
            self._failed(lane, error, None)
        else:
            if lane.failures:
                _LOG.info("API server answers again", failures=lane.failures)
            lane.succeeded(self._clock.monotonic())

    def _failed(self, lane: Lane, error: Exception, retry_after_seconds: float | None) -> None:
        wait = lane.failed(self._clock.monotonic(), retry_after_seconds)
        if lane.failures == 1:
            _LOG.warning("API server refuses or does not answer", error=str(error), retry_seconds=round(wait, 2))

    def _arrive(self) -> None:
        """Read the Node for the first time; nothing is published before the loop has taken in what it says."""
        seen = self._client.read()
        taken_in = threading.Event()

        def take_in(now: datetime) -> None:
            self._take_in(seen, now)
            taken_in.set()

        self._post(take_in)
        while not taken_in.wait(_PACE_SECONDS):
            if self._closed:
                return
        self._heed(seen, self._meant)
        self._arrived = True

    def _take_in(self, seen: NodeSeen, now: datetime) -> None:
        """Adopt, in the loop's thread, what this instance said before, or clear what its predecessor left."""
        health = self._health
        self._learn(seen, now)
        arrival = arrive(seen, instance=health.instance, kinds=health.kinds, now=now)
        self._pen.ready = arrival.ready
        told = health.adopt(arrival.adopt, now, boot=seen.owner.boot if seen.owner else None)
        self._meant += told
        with self._changed:
            self._outbox.drop(str(key_of(fault)) for fault in told)
        self._board.note_node_read(health.view())
        if arrival.predecessor and not health.faults:
            self.announce([predecessor_cleared(arrival.predecessor, health.instance, now)])
        if self._pen.says_ready and arrival.ready_is_foreign:
            _LOG.error("another agent owns this condition, not published", condition=ACCELERATED_HARDWARE_READY)
            self._pen.says_ready = self._board.platform_repair = False
        self._publish_again()

    def _learn(self, seen: NodeSeen, now: datetime) -> None:
        """Take the own instance id, in the loop's thread, from the Node if nothing else told it."""
        if self._health.is_certain or seen.instance is None:
            return
        if self._health.learn_instance(seen.instance, now):
            self._board.instance = seen.instance
            self._publish_again()

    def _publish_again(self) -> None:
        """Publish, from the loop's thread, what it has just changed; it shows the first view itself."""
        if self._view is not None:
            self.publish(self._health.view(), self._clock.monotonic())

    def _patch(self) -> None:
        with self._changed:
            view, read_at, remove_clear = self._view, self._read_at, self._remove_clear
            self._read_at = None
        if view is None:
            return
        owner, key = Owner(instance=self._health.instance, boot=self._boot), self._key(view)
        try:
            seen = self._pen.write(view, owner, remove_clear=remove_clear)
        except RestError:
            with self._changed:
                self._read_at = read_at
            raise
        self._patched = key
        if remove_clear:
            self._remove_clear = self._clearing = False
        self._heed(seen, view.faults)
        if read_at is not None and _is_faulty(view):
            self._board.latency.observe(self._clock.monotonic() - read_at)
        self._board.published = True

    def _tell(self) -> None:
        with self._changed:
            announcement = self._outbox.first()
        try:
            self._client.tell(announcement, self._boot)
        except RestError as error:
            if error.status not in _HOPELESS:
                raise
            _LOG.error("an Event was refused and is dropped", reason=announcement.reason, error=str(error))
        with self._changed:
            self._outbox.done(announcement)

    def _look(self) -> None:
        """Read the Node while a fault is active: for a request, and whether it still says what was published."""
        known = self._view.faults if self._view is not None else ()
        seen = self._client.read()
        self._heed(seen, known)
        with self._changed:
            says = {condition.type: condition.status for condition in seen.conditions}
            if self._view is not None and any(says.get(own.type) is not own.status for own in self._view.conditions):
                self._patched = None  # a new Node object, or somebody else has written to it

    def _heed(self, seen: NodeSeen, known: tuple[Fault, ...]) -> None:
        """Have the loop learn what the Node tells late, and do what an operator asks for.

        Args:
            seen: the Node.
            known: the faults known before it was asked.
        """
        if not self._health.is_certain and seen.instance is not None:
            self._post(lambda now: self._learn(seen, now))
        if seen.clear is None:
            self._meant = known
        elif not self._clearing:
            self._clearing = True
            request = ClearRequest(reason=seen.clear, faults=self._meant)
            self._post(lambda now: self._clear(request, now))

    def _clear(self, request: ClearRequest, now: datetime) -> None:
        """Do, in the loop's thread, what an operator asks for, and have the request removed."""
        if not self._health.clear(request, now):
            _LOG.warning(NOTHING_CLEARED, reason=request.reason)
        with self._changed:  # so that no PATCH takes the request away before it takes the fault away
            self._remove_clear = True
            self._publish_again()


def _is_faulty(view: View) -> bool:
    return any(condition.status is Status.TRUE for condition in view.conditions)
