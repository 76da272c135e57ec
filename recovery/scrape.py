"""The fleet as the detectors' own pages show it: those of all pods, or stand-alone the one beside us.

An edge. Whatever cannot be read whole, now and without doubt is blind: never an exception, never healthy, never faulty.
A page that failed is asked for ever more seldom, so that a node that hangs does not slow down the poll of all others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from recovery.fetch import Answer, FetchError, Limits, Target, fetch
from recovery.model import Sighting
from recovery.page import UnusableError, drop_twins, read_page
from recovery.parse import ParseError
from recovery.roster import RosterKeeper

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from recovery.model import Seen
    from recovery.pods import Pod
    from recovery.roster import Pods
    from runtime.clock import Clock
    from runtime.durations import Duration

_LONGEST_PAUSE_SECONDS: Final = 15.0


def seen_on(answer: Answer, node: str, now: datetime, stale_after: Duration) -> Seen:
    """Read a detector's answer.

    Raises:
        UnusableError, ParseError: it cannot be relied on.
    """
    kind = answer.content_type.partition(";")[0].strip()
    if kind not in ("text/plain", "application/openmetrics-text"):
        raise UnusableError(f"content type {kind[:40]!r}")
    if answer.age_seconds > stale_after.seconds:
        raise UnusableError(f"kept by a cache for {answer.age_seconds:.0f} s")
    try:
        text = answer.body.decode()
    except UnicodeDecodeError as error:
        raise UnusableError("no UTF-8") from error
    oldest = now - timedelta(seconds=stale_after.seconds)
    return read_page(text, node, oldest=oldest, open_metrics=kind.startswith("application"))


class _Patience(NamedTuple):
    """How often in a row a page failed, why the last time, and when it is asked for again."""

    failures: int
    why: str
    again_at: float


class PagesFleet:
    """All detectors of a cluster, read page by page.

    Args:
        pods: where they are found.
        stale_after: how old what is read may be.
        clock: the time.
        limits: of time and size.
    """

    def __init__(self, pods: Pods, *, stale_after: Duration, clock: Clock, limits: Limits | None = None) -> None:
        self._roster = RosterKeeper(pods, stale_after, clock)
        self._stale_after = stale_after
        self._clock = clock
        self._limits = limits or Limits()
        self._failed: dict[str, _Patience] = {}
        self._instances: dict[str, str] = {}

    def look(self) -> Sighting:
        """Poll once. Never raises: what cannot be read is blind."""
        roster, why_blind = self._roster.current()
        fleet = self._roster.fleet
        if roster is None:
            return Sighting(seen={}, blind={}, why_blind=why_blind, fleet=fleet)
        pods = {pod.uid: pod for pod in roster.pods}
        self._forget(pods)
        seen: dict[str, Seen] = {}
        blind = dict(roster.blind)

        def take(uid: str, result: Answer | FetchError) -> None:
            try:
                seen[pods[uid].node] = self._seen(pods[uid], result)
            except (FetchError, UnusableError, ParseError) as error:
                blind[pods[uid].node] = str(error)
                self._note(uid, str(error))

        asked, waiting = self._asked(roster.pods)
        blind |= waiting
        fetch(asked, take, self._limits)
        drop_twins(seen, blind)
        return Sighting(seen=seen, blind=blind, why_blind=None, fleet=fleet)

    def _asked(self, pods: Iterable[Pod]) -> tuple[list[Target], dict[str, str]]:
        """Choose the pages to ask for, those that answered before first; for the other nodes, why not."""
        tick = self._clock.monotonic()
        good, failed, waiting = [], [], {}
        for pod in pods:
            memory = self._failed.get(pod.uid)
            target = Target(pod.uid, pod.host, pod.port)
            if memory is None:
                good.append(target)
            elif memory.again_at <= tick:
                failed.append(target)
            else:
                waiting[pod.node] = memory.why
        return good + failed, waiting

    def _seen(self, pod: Pod, result: Answer | FetchError) -> Seen:
        if isinstance(result, FetchError):
            raise result
        seen = seen_on(result, pod.node, self._clock.now(), self._stale_after)
        known = self._instances.get(pod.uid)
        if known is not None and seen.instance != known:
            raise UnusableError(f"the page of another instance: {seen.instance}, before {known}")
        if seen.instance is not None:
            self._instances[pod.uid] = seen.instance
        self._failed.pop(pod.uid, None)
        return seen

    def _note(self, uid: str, why: str) -> None:
        failures = self._failed[uid].failures + 1 if uid in self._failed else 1
        pause = min(2.0 ** min(failures - 2, 10), _LONGEST_PAUSE_SECONDS) if failures > 1 else 0.0
        self._failed[uid] = _Patience(failures, why, self._clock.monotonic() + pause)
        if failures == 1:
            self._roster.doubt()

    def _forget(self, pods: dict[str, Pod]) -> None:
        for memory in (self._failed, self._instances):
            for uid in memory.keys() - pods.keys():
                del memory[uid]
