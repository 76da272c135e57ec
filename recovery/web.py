"""Recovery's pages: metrics, health, readiness.

An edge. It shows the last snapshot and decides nothing.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Literal

from runtime.exposition import CONTENT_TYPE, Family, Sample, render, single
from runtime.pages import Page
from runtime.vocabulary import BUILD_INFO, RECOVERY_METRICS, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from recovery.board import Board
    from recovery.decision import Snapshot, Spread

_TEXT: Final = "text/plain; charset=utf-8"


class Pages:
    """Renders the pages.

    Args:
        board: what there is to show.
    """

    def __init__(self, board: Board) -> None:
        self._board = board

    def routes(self) -> Mapping[str, Callable[[], Page]]:
        """Name the path of each page."""
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}

    def healthz(self) -> Page:
        """Answer 200 unless a pass does not end; nothing outside is a reason."""
        if self._board.is_stuck():
            return Page(503, _TEXT, b"the loop is stuck\n")
        return Page(200, _TEXT, b"ok\n")

    def readyz(self) -> Page:
        """Answer 200 once the first pass is over, leader or not; else 503 and why."""
        why_not = self._board.why_not_ready()
        return Page(503, _TEXT, f"{why_not}\n".encode()) if why_not else Page(200, _TEXT, b"ok\n")

    def metrics(self) -> Page:
        """Show everything for Prometheus."""
        snapshot = self._board.snapshot
        families = [*_switches(snapshot), *_fleet(snapshot), *_entries(snapshot), *_counters(snapshot), *self._cloud()]
        return Page(200, CONTENT_TYPE, render(families))

    def _cloud(self) -> Iterator[Family]:
        samples = [Sample({"call": call, "outcome": how}, n) for (call, how), n in self._board.cloud_requests().items()]
        yield _family("cloud_requests_total", "counter", "Calls to AWS.", samples)
        yield Family(BUILD_INFO, "gauge", "The version that runs.", [Sample({"version": VERSION}, 1)])


def _switches(snapshot: Snapshot) -> Iterator[Family]:
    yield _gauge("leader", "Whether this process leads; the other series of a follower say nothing.", snapshot.leader)
    yield _gauge("paused", "Whether recovery is paused.", snapshot.paused is not None)


def _fleet(snapshot: Snapshot) -> Iterator[Family]:
    about = "Nodes, by what is known of them."
    yield _family("observations", "gauge", about, _labelled("state", snapshot.observations))
    about = "Nodes whose detector cannot be relied on."
    yield _gauge("blind_nodes", about, snapshot.observations.get("blind", 0))
    about = "Nodes that are blocked now, by why."
    yield _family("blocked_nodes", "gauge", about, _labelled("reason", snapshot.blocked_nodes))
    about = "Whether a reason is on so many nodes at once that nothing is done about it until reset-breaker."
    yield _family("breaker_tripped", "gauge", about, _labelled("reason", snapshot.breaker_tripped))


def _entries(snapshot: Snapshot) -> Iterator[Family]:
    about = "Nodes that are being replaced or rebooted."
    yield _family("open_entries", "gauge", about, _labelled("group", snapshot.open_entries))
    about = "How many more nodes may be admitted now; an empty group is the whole fleet."
    yield _family("budget_remaining", "gauge", about, _labelled("group", snapshot.budget_remaining))
    blocked = [
        Sample({"group": group, "kind": kind}, count)
        for group, kinds in snapshot.replacement_blocked.items()
        for kind, count in kinds.items()
    ]
    yield _family("replacement_blocked", "gauge", "Replacements that do not come.", blocked)
    oldest = {state: at.timestamp() for state, at in snapshot.oldest_open.items()}
    about = "When the oldest open entry came into its state."
    yield _family("oldest_open_entry_timestamp_seconds", "gauge", about, _labelled("state", oldest))


def _counters(snapshot: Snapshot) -> Iterator[Family]:
    decisions = [
        Sample({"decision": decision, "reason": reason}, count)
        for decision, reasons in snapshot.decisions_total.items()
        for reason, count in reasons.items()
    ]
    yield _family("decisions_total", "counter", "Decisions, each counted when it is new.", decisions)
    about = "Times that a node became blocked."
    yield _family("blocked_total", "counter", about, _labelled("reason", snapshot.blocked_total))
    spreads = [sample for step, spread in snapshot.sequence_seconds.items() for sample in _buckets(step, spread)]
    yield _family("sequence_seconds", "histogram", "From one step of a node to the next.", spreads)


def _buckets(step: str, spread: Spread) -> Iterator[Sample]:
    bounds = [*(f"{bound:g}" for bound in spread.bounds), "+Inf"]
    total = 0
    for bound, total in zip(bounds, itertools.accumulate(spread.counts), strict=True):
        yield Sample({"step": step, "le": bound}, total, "_bucket")
    yield Sample({"step": step}, spread.total, "_sum")
    yield Sample({"step": step}, total, "_count")


def _labelled(label: str, values: Mapping[str, float]) -> Iterable[Sample]:
    return [Sample({label: name}, value) for name, value in values.items()]


def _gauge(name: str, about: str, value: float) -> Family:
    return single(RECOVERY_METRICS + name, "gauge", about, value)


def _family(name: str, kind: Literal["gauge", "counter", "histogram"], about: str, samples: Iterable[Sample]) -> Family:
    return Family(RECOVERY_METRICS + name, kind, about, list(samples))
