"""The detector's pages: metrics, health, readiness, conditions.

An edge. It shows what the board has and decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from runtime.exposition import CONTENT_TYPE, Family, Sample, render, single
from runtime.pages import Page
from runtime.vocabulary import BUILD_INFO, DETECTOR_METRICS, PROBLEM_COUNTER, PROBLEM_GAUGE, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from detector.board import Board
    from detector.model import View
    from detector.rules import Catalog
    from detector.settings import Settings

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"


class Pages:
    """Renders the pages.

    Args:
        board: what there is to show.
        catalog: the rules loaded.
        settings: what is exposed of them.
    """

    def __init__(self, board: Board, catalog: Catalog, settings: Settings) -> None:
        self._board = board
        self._fixed = render([_rule_info(catalog), *_switches(settings)])
        self._shown: View | None = None  # the view that `_problems_text` was made of
        self._problems_text = b""
        self._gauges = [(rule.condition, rule.reason) for rule in catalog.rules if rule.condition]
        self._reasons = [rule.reason for rule in catalog.rules]

    def routes(self) -> Mapping[str, Callable[[], Page]]:
        """Name the path of each page."""
        return {
            "/metrics": self.metrics,
            "/healthz": self.healthz,
            "/readyz": self.readyz,
            "/conditions": self.conditions,
        }

    def healthz(self) -> Page:
        """Answer 200 unless the loop is stuck; no API server and no records are no reason."""
        if self._board.sight.is_stuck():
            return Page(503, _TEXT, b"the loop is stuck\n")
        return Page(200, _TEXT, b"ok\n")

    def readyz(self) -> Page:
        """Answer 200 when the conditions can be relied on, else 503 and why."""
        why_not = self._board.why_not_ready()
        return Page(503, _TEXT, f"{why_not}\n".encode()) if why_not else Page(200, _TEXT, b"ok\n")

    def conditions(self) -> Page:
        """Show conditions and faults as JSON."""
        board, view = self._board, self._board.view
        body: dict[str, Any] = {
            "source": board.source.source,
            "instance": board.instance,
            "boot": board.boot,
            "sequence": board.source.last,
            "reader": {
                "up": board.sight.is_up,
                "last_read_at": board.sight.last_read_at,
                "lost": board.source.lost,
                "overruns": board.source.overruns,
            },
            "conditions": board.conditions(),
            "faults": view.faults if view else (),
        }
        return Page(200, _JSON, msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n")

    def metrics(self) -> Page:
        """Show everything for Prometheus."""
        view = self._board.view
        if view is not self._shown or not self._problems_text:  # views are replaced whole: most scrapes find the same
            self._shown, self._problems_text = view, render(self._problems(view))
        text = self._problems_text + self._fixed + render([*self._reader(), *self._outlets()])
        return Page(200, CONTENT_TYPE, text)

    def _problems(self, view: View | None) -> Iterator[Family]:
        faults = view.faults if view else ()
        active = {(fault.condition, fault.reason) for fault in faults}
        since: dict[tuple[str, str], float] = {}
        for fault in faults:
            key = (fault.condition, fault.reason)
            since[key] = min(fault.first_at.timestamp(), since.get(key, float("inf")))
        gauges = dict.fromkeys([*self._gauges, *active])
        yield Family(
            PROBLEM_GAUGE,
            "gauge",
            "Whether a specific type of problem is affecting the node or not.",
            [Sample({"type": kind, "reason": reason}, (kind, reason) in active) for kind, reason in gauges],
        )
        yield Family(
            PROBLEM_COUNTER,
            "counter",
            "Number of times a specific type of problem have occurred.",
            [Sample({"reason": reason}, view.problems[reason] if view else 0) for reason in self._reasons],
        )
        yield Family(
            DETECTOR_METRICS + "fault_since_timestamp_seconds",
            "gauge",
            "When the oldest active fault of this reason was first seen; survives restarts.",
            [Sample({"type": kind, "reason": reason}, at) for (kind, reason), at in since.items()],
        )
        yield _counter("foreign_lines_total", "Lines that spoke about another instance.", view.foreign if view else 0)

    def _reader(self) -> Iterator[Family]:
        source = self._board.source
        sight = self._board.sight
        yield _gauge("reader_up", "Whether the kernel log is being read.", sight.is_up and not sight.is_stuck())
        yield _counter("records_total", "Kernel log records read.", source.records)
        yield _counter("lost_records_total", "Kernel log records overwritten before they could be read.", source.lost)
        yield _counter("overruns_total", "Times the kernel log overran the reader.", source.overruns)
        yield _counter("malformed_records_total", "Records that could not be parsed.", source.malformed)

    def _outlets(self) -> Iterator[Family]:
        board = self._board
        name = DETECTOR_METRICS
        instances = [Sample({"instance": board.instance}, 1)] if board.instance else []
        yield Family(name + "instance_info", "gauge", "The instance that this detector speaks for.", instances)
        yield board.latency.family(
            name + "fault_latency_seconds", "From reading a fault's line to the API server's answer."
        )
        requests = [Sample({"verb": verb, "code": code}, n) for (verb, code), n in list(board.requests.items())]
        yield Family(name + "api_requests_total", "counter", "Requests to the API server.", requests)
        about = "Whether AcceleratedHardwareReady is published, so that the platform repairs."
        yield _gauge("platform_repair", about, board.platform_repair)
        writes = [
            Sample({"outcome": "written"}, board.keeper.written),
            Sample({"outcome": "failed"}, board.keeper.failed),
        ]
        yield Family(name + "state_writes_total", "counter", "Writes of the state file.", writes)


def _rule_info(catalog: Catalog) -> Family:
    samples = [
        Sample(
            {
                "type": rule.condition or "",
                "reason": rule.reason,
                "fault_class": rule.fault_class,
                "action": rule.action,
            },
            1,
        )
        for rule in catalog.rules
    ]
    return Family(DETECTOR_METRICS + "rule_info", "gauge", "The rules loaded; an empty type is Event only.", samples)


def _switches(settings: Settings) -> list[Family]:
    return [
        _gauge("recovery_enabled", "Whether recovery may act on this node.", settings.recovery_enabled),
        Family(BUILD_INFO, "gauge", "The version that runs.", [Sample({"version": VERSION}, 1)]),
    ]


def _gauge(name: str, about: str, value: float) -> Family:
    return single(DETECTOR_METRICS + name, "gauge", about, value)


def _counter(name: str, about: str, value: float) -> Family:
    return single(DETECTOR_METRICS + name, "counter", about, value)
