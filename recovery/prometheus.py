"""The fleet as a Prometheus server has it.

An edge. All queries of a poll are asked as of one time, the server's. An answer that is partial, has warnings, is no
vector, or comes from a server whose clock is not ours makes the whole fleet blind.

Source: prometheus.io/docs/prometheus/latest/querying/api, instant queries and the form of answers (read 2026-11-29);
github.com/VictoriaMetrics/VictoriaMetrics, issues 4721 and 11009, isPartial (read 2026-11-30).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote, urlencode

import msgspec
import urllib3

from recovery.model import Sighting
from recovery.page import UnusableError
from recovery.series import Answers, Point, queries, sight
from runtime.answers import AnswerError, pools, read_whole
from runtime.vocabulary import VERSION

if TYPE_CHECKING:
    from recovery.access import Access
    from recovery.series import Vector
    from runtime.clock import Clock
    from runtime.durations import Duration

_CONNECT_SECONDS: Final = 2.0
WHOLE_SECONDS: Final = 5.0
_ROUND: Final = 3  # times the time of one answer: for all answers of a poll
_OK: Final = 200
_ABOUT_FAULTS: Final = frozenset(("fault_times", "rules", "since"))  # not asked while there is none
_LONGEST_SHOWN: Final = 200


class Fleet(Protocol):
    """Who knows how many nodes there should be."""

    def current(self) -> int | None:
        """Tell the number; None = unknown."""


class _Element(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[_Element]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = msgspec.field(default=False, name="isPartial")  # VictoriaMetrics says it so, without a warning


class PrometheusFleet:
    """All detectors that a Prometheus server scrapes.

    Args:
        url: of the server, with a path if it has one.
        selector: label matchers added to each query; "" = none.
        stale_after: how old a scrape may be, and how far its clock may be from ours.
        clock: the time.
        fleet: how many nodes there should be.
        access: as whom it is asked; None = as nobody in particular.
        ca_file: certificates by which it is trusted; "" = the system's.
        whole_seconds: how long one answer may take; all answers of a poll may take three times as long.
    """

    def __init__(
        self,
        url: str,
        *,
        selector: str,
        stale_after: Duration,
        clock: Clock,
        fleet: Fleet,
        access: Access | None = None,
        ca_file: str = "",
        whole_seconds: float = WHOLE_SECONDS,
    ) -> None:
        self._url = url.rstrip("/") + "/api/v1/query"
        self._queries = queries(selector)
        self._stale_after = stale_after
        self._clock = clock
        self._fleet = fleet
        self._access = access
        self._trusts = f", trusting prometheusCaFile {ca_file}" if ca_file else ""
        self._http = urllib3.PoolManager(maxsize=1, retries=False, ca_certs=ca_file or None)
        self._http.pool_classes_by_scheme = pools(whole_seconds)
        self._round_seconds = _ROUND * whole_seconds
        self._timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=whole_seconds)

    def look(self) -> Sighting:
        """Poll once. Never raises: what cannot be read is blind."""
        fleet = self._fleet.current()
        try:
            answers, as_of = self._ask()
            seen, blind = sight(answers, oldest=as_of - self._stale_after.seconds)
        except UnusableError as error:
            return Sighting(seen={}, blind={}, why_blind=f"Prometheus: {error}", fleet=fleet)
        nothing = not seen and not blind and fleet != 0
        why_blind = f"Prometheus has no series with the label node: {self._queries.times}" if nothing else None
        return Sighting(seen=seen, blind=blind, why_blind=why_blind, fleet=fleet)

    def _ask(self) -> tuple[Answers, float]:
        """Ask everything as of one time.

        Returns:
            The answers, and that time, Unix seconds.

        Raises:
            UnusableError: an answer is missing or cannot be relied on.
        """
        end = self._clock.monotonic() + self._round_seconds
        as_of = self._time()
        got: dict[str, Vector] = {}
        for name, query in self._queries._asdict().items():
            if self._clock.monotonic() > end:
                raise UnusableError(f"no answers within {self._round_seconds:g} s")
            needless = name in _ABOUT_FAULTS and not got["faults"]
            got[name] = [] if needless else self._query(query, as_of)
        return Answers(**got), as_of

    def _time(self) -> float:
        """Tell the server's time.

        Raises:
            UnusableError: it is not ours; then how old a scrape is cannot be known.
        """
        points = self._query("vector(time())", None)
        if len(points) != 1:
            raise UnusableError("it does not tell its time")
        as_of = points[0].value
        if not abs(as_of - self._clock.now().timestamp()) <= self._stale_after.seconds:
            raise UnusableError(f"its clock says {as_of:.0f}, or the answer is an old one")
        return as_of

    def _query(self, query: str, as_of: float | None) -> Vector:
        parameters = {"query": query} if as_of is None else {"query": query, "time": f"{as_of:.3f}"}
        text = self._get(f"{self._url}?{urlencode(parameters, quote_via=quote, safe='')}")  # as it is signed
        return _decode(text)

    def _get(self, url: str) -> bytes:
        headers = {"Accept": "application/json", "User-Agent": f"chipwarden/{VERSION}"}
        if self._access is not None:
            headers |= self._access.headers(url)
        try:
            answer = self._http.request(
                "GET",
                url,
                headers=headers,
                timeout=self._timeout,
                redirect=False,
                preload_content=False,
            )
            status, text = answer.status, read_whole(answer)
        except AnswerError as error:
            raise UnusableError(str(error)) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise UnusableError(f"{type(error).__name__}: {str(error)[:_LONGEST_SHOWN]}{self._trusts}") from error
        if status != _OK:
            raise UnusableError(f"status {status}: {text[:_LONGEST_SHOWN].decode('utf-8', 'replace')}")
        return text


def _decode(text: bytes) -> Vector:
    """Read an instant vector.

    Raises:
        UnusableError: it is none, or not to be relied on.
    """
    try:
        answer = msgspec.json.decode(text, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableError(f"an answer that is none: {error}") from error
    if answer.warnings:
        raise UnusableError(f"a warning: {answer.warnings[0][:_LONGEST_SHOWN]}")
    if answer.is_partial:
        raise UnusableError("a partial answer: some of its stores did not answer")
    if answer.status != "success" or answer.data is None or answer.data.result_type != "vector":
        raise UnusableError(f"no vector: {answer.error[:_LONGEST_SHOWN]}")
    try:
        return [Point(element.metric, float(element.value[1])) for element in answer.data.result]
    except ValueError as error:
        raise UnusableError(f"an answer without numbers: {error}") from error
