"""Which points are due: the sum of a minute is the number of faulty nodes, and silence means that nobody watches.

Pure: the time is passed in. Each metric gets one sample for each faulty node in each minute of the wall clock, or one
0; a node that becomes faulty later in the minute adds its sample at once. Nothing is sent twice: a repeated sample
would count a node twice, so that a lost one stays lost.

Source: docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/ (API_PutMetricData, API_MetricDatum; read 2026-11-29).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

# Sent from the first minute on, so that their alarms have data: the metrics of the guide of AWS Neuron, and ours.
NEURON_REASONS: Final = (
    "NeuronHasError_SRAM_UNCORRECTABLE_ERROR",
    "NeuronHasError_NC_UNCORRECTABLE_ERROR",
    "NeuronHasError_HBM_UNCORRECTABLE_ERROR",
    "NeuronHasError_DMA_ERROR",
    "NeuronHasError_HANG_ON_COLLECTIVES",
)
ALWAYS: Final = (*NEURON_REASONS, "ReplacementBlocked", "RecoveryBlocked")
MOST_IN_A_CALL: Final = 1000
_MINUTE_SECONDS: Final = 60
_LEAST_SECOND: Final = 2.0  # the service stamps by its own clock: not right on the edge between two minutes
_LONGEST_NAME: Final = 255
_LONGEST_DIMENSION: Final = 1024
_LARGEST: Final = 2.0**360


class Series(NamedTuple):
    """A metric: its name, and name and value of each dimension."""

    name: str
    dimensions: tuple[tuple[str, str], ...] = ()


class Schedule:
    """Tells what is to be sent now.

    Args:
        cluster: value of the dimension ClusterName; None = no dimension, which alarms that name none need.
        per_node: also one metric a node, with the dimension NodeName: 1 in each minute, one 0 at the end.
        zeros: send a 0 for what is not faulty; not stand-alone, where no machine may speak for the others.
    """

    def __init__(self, *, cluster: str | None, per_node: bool, zeros: bool) -> None:
        self._cluster = (("ClusterName", cluster),) if cluster else ()
        self._per_node = per_node
        self._zeros = zeros
        self._minute: int | None = None
        self._regular_is_sent = False
        self._sent: dict[Series, int] = {}  # in this minute
        self._known: dict[Series, int] = {}  # when last looked at
        self._nodes: set[Series] = set()  # those that were sent as active

    def due(
        self, counts: Mapping[str, int], nodes: Mapping[str, tuple[str, ...]], now: datetime
    ) -> list[dict[str, Any]]:
        """Tell what is to be sent, and take it for sent.

        Args:
            counts: metric name to how many nodes.
            nodes: reason to the nodes it is active on.
            now: aware UTC.

        Returns:
            Elements of MetricData; [] = nothing now.
        """
        wanted = dict(self._wanted(counts, nodes))
        if self._is_regular(now.timestamp()):
            ended = self._nodes - wanted.keys() - self._sent.keys()
            due = dict.fromkeys(ended, 0) | wanted
            self._nodes -= ended
        else:
            due = {series: count for series, count in wanted.items() if count > self._known.get(series, 0)}
        self._known = wanted
        self._nodes.update(series for series in due.keys() & wanted.keys() if self._is_of_node(series))
        return [_datum(series, more) for series, more in self._more(due)]

    def _is_regular(self, second: float) -> bool:
        """Tell whether this is the time of the minute to send everything."""
        minute = int(second // _MINUTE_SECONDS)
        is_first = self._minute is None
        if minute != self._minute:
            self._minute, self._regular_is_sent, self._sent = minute, False, {}
        if self._regular_is_sent or (not is_first and second % _MINUTE_SECONDS < _LEAST_SECOND):
            return False
        self._regular_is_sent = True
        return True

    def _wanted(self, counts: Mapping[str, int], nodes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[Series, int]]:
        always = dict.fromkeys(ALWAYS, 0) if self._zeros else {}
        for name, count in (always | dict(counts)).items():
            if count or self._zeros:
                yield Series(name, self._cluster), count
        if self._per_node:
            for name, names in nodes.items():
                for node in names:
                    yield Series(name, (*self._cluster, ("NodeName", node))), 1

    def _is_of_node(self, series: Series) -> bool:
        return len(series.dimensions) > len(self._cluster)

    def _more(self, due: Mapping[Series, int]) -> Iterator[tuple[Series, int]]:
        """Tell what has to be added to what was sent in this minute; a 0 only where nothing was."""
        for series, count in due.items():
            before = self._sent.get(series)
            if before is None or count > before:
                self._sent[series] = count
                yield series, count - (before or 0)


def refusal(datum: Mapping[str, Any]) -> str | None:
    """Tell why CloudWatch would refuse an element of MetricData, and with it the whole call; None = it would not."""
    name = datum["MetricName"]
    if not _is_text(name, _LONGEST_NAME):
        return f"a metric name is 1 to {_LONGEST_NAME} printable ASCII characters"
    for dimension in datum["Dimensions"]:
        value = dimension["Value"]
        if not _is_text(value, _LONGEST_DIMENSION) or value.startswith(":") or not value.strip():
            return f"the value of a dimension is 1 to {_LONGEST_DIMENSION} printable ASCII characters"
    for number in (*datum["Values"], *datum["Counts"]):
        if not math.isfinite(number) or abs(number) > _LARGEST:
            return "a value is finite and at most 2^360"
    if not all(count > 0 for count in datum["Counts"]):
        return "a count is above 0"
    return None


def _is_text(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and text.isascii() and text.isprintable()


def _datum(series: Series, count: float) -> dict[str, Any]:
    """Write one element: no Timestamp, since the service's clock is right and ours may not be."""
    return {
        "MetricName": series.name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in series.dimensions],
        "Values": [1.0 if count else 0.0],
        "Counts": [float(count) if count else 1.0],
        "StorageResolution": _MINUTE_SECONDS,
    }
