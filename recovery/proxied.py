"""The detectors' pages through the API server, for a person whose machine reaches no pod.

An edge, for `plan` only: one page after the other, as that person's rights allow. Recovery itself reads pages directly.

Source: Kubernetes API, pods/proxy: GET /api/v1/namespaces/NAMESPACE/pods/NAME:PORT/proxy/PATH (read 2026-11-29).
"""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from recovery.model import Sighting
from recovery.page import UnusableError, drop_twins, read_page
from recovery.parse import ParseError
from recovery.roster import MOST_PAGES, too_many
from runtime.rest import RestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.model import Seen
    from recovery.pods import Pod
    from recovery.roster import Pods
    from runtime.clock import Clock
    from runtime.durations import Duration
    from runtime.rest import Rest

_READ_SECONDS: Final = 3.0


class ProxiedFleet:
    """All detectors of a cluster; implements `ports.Fleet`.

    Args:
        rest: the API server.
        pods: where detectors are found.
        namespace: theirs.
        stale_after: how old what is read may be.
        clock: the time.
        progress: called with how many pages were asked for, and how many there are.
    """

    def __init__(
        self,
        rest: Rest,
        pods: Pods,
        *,
        namespace: str,
        stale_after: Duration,
        clock: Clock,
        progress: Callable[[int, int], None],
    ) -> None:
        self._rest = rest
        self._pods = pods
        self._namespace = quote(namespace, safe="")
        self._stale_after = stale_after
        self._clock = clock
        self._progress = progress

    def look(self) -> Sighting:
        """Poll once. Never raises: what cannot be read is blind."""
        try:
            fleet = self._pods.fleet()
            roster = self._pods.list(MOST_PAGES) if fleet <= MOST_PAGES else None
        except RestError as error:
            return _nothing(f"detectors cannot be found: {error}", None)
        if roster is None:
            return _nothing(too_many(f"{fleet}"), fleet)
        seen: dict[str, Seen] = {}
        blind = dict(roster.blind)
        for number, pod in enumerate(roster.pods, 1):
            try:
                seen[pod.node] = self._seen(pod)
            except RestError as error:
                if error.status == HTTPStatus.FORBIDDEN:
                    return _nothing(f"pods/proxy is not allowed; run it in recovery's own pod: {error}", fleet)
                blind[pod.node] = str(error)
            except (UnusableError, ParseError) as error:
                blind[pod.node] = str(error)
            self._progress(number, len(roster.pods))
        drop_twins(seen, blind)
        return Sighting(seen=seen, blind=blind, why_blind=None, fleet=fleet)

    def _seen(self, pod: Pod) -> Seen:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{quote(pod.name, safe='')}:{pod.port}/proxy/metrics"
        body = self._rest.request("GET", path, read_seconds=_READ_SECONDS)
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise UnusableError("no UTF-8") from error
        oldest = self._clock.now() - timedelta(seconds=self._stale_after.seconds)
        return read_page(text, pod.node, oldest=oldest)


def _nothing(why: str, fleet: int | None) -> Sighting:
    return Sighting(seen={}, blind={}, why_blind=why, fleet=fleet)
