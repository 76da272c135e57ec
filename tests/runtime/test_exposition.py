"""Prometheus' text format, as its own client reads it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from runtime.exposition import CONTENT_TYPE, Family, Histogram, Sample, render, single
from runtime.vocabulary import PROBLEM_COUNTER, PROBLEM_GAUGE

GOLDEN = """\
# HELP problem_gauge Whether a problem is there.
# TYPE problem_gauge gauge
problem_gauge{type="NeuronHasError",reason="NeuronHasError_DMA_ERROR"} 1
problem_gauge{type="NeuronHasError",reason="NeuronHasError_HANG_ON_COLLECTIVES"} 0
# HELP problem_counter Lines of a problem.
# TYPE problem_counter counter
problem_counter{reason="NeuronHasError_DMA_ERROR"} 50000
# HELP empty Nothing yet.
# TYPE empty gauge
# HELP odd A \\\\ and\\na second line, "quoted"
# TYPE odd gauge
odd{text="a\\\\b \\"c\\"\\nd"} 0.25
# HELP since_seconds Without labels.
# TYPE since_seconds gauge
since_seconds 1795946130.5
# HELP latency_seconds How long.
# TYPE latency_seconds histogram
latency_seconds_bucket{le="0.001"} 1
latency_seconds_bucket{le="0.5"} 2
latency_seconds_bucket{le="+Inf"} 3
latency_seconds_sum 3.5009999999999999
latency_seconds_count 3
"""


def test_a_page_is_written_like_this() -> None:
    latency = Histogram([0.001, 0.5])
    for seconds in (0.001, 0.5, 3.0):
        latency.observe(seconds)
    reasons = ("NeuronHasError_DMA_ERROR", "NeuronHasError_HANG_ON_COLLECTIVES")
    gauges = [Sample({"type": "NeuronHasError", "reason": reason}, reason.endswith("DMA_ERROR")) for reason in reasons]
    page = render(
        [
            Family(PROBLEM_GAUGE, "gauge", "Whether a problem is there.", gauges),
            Family(PROBLEM_COUNTER, "counter", "Lines of a problem.", [Sample({"reason": reasons[0]}, 50_000)]),
            Family("empty", "gauge", "Nothing yet.", []),
            Family("odd", "gauge", 'A \\ and\na second line, "quoted"', [Sample({"text": 'a\\b "c"\nd'}, 0.25)]),
            single("since_seconds", "gauge", "Without labels.", 1795946130.5),
            latency.family("latency_seconds", "How long."),
        ]
    )
    assert page.decode() == GOLDEN.replace("3.5009999999999999", repr(0.001 + 0.5 + 3.0))
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


def test_the_page_says_the_same_to_the_official_parser() -> None:
    families = {family.name: family for family in text_string_to_metric_families(GOLDEN)}
    (gauge, quiet), (counter,) = families[PROBLEM_GAUGE].samples, families[PROBLEM_COUNTER].samples
    assert (gauge.labels["reason"], gauge.value, quiet.value) == ("NeuronHasError_DMA_ERROR", 1, 0)
    assert counter.value == 50_000  # under a name with `_total`, which this parser adds; Prometheus itself does not
    assert families["odd"].samples[0].labels == {"text": 'a\\b "c"\nd'}
    assert families["odd"].documentation == 'A \\ and\na second line, "quoted"'
    buckets = [sample.value for sample in families["latency_seconds"].samples if sample.name.endswith("_bucket")]
    assert buckets == [1, 2, 3]


def test_a_value_on_a_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram([1, 2])
    for value in (0, 1, 1.5, 2, 2.1):
        histogram.observe(value)
    assert [sample.value for sample in histogram.family("h", "h").samples] == [2, 4, 5, 6.6, 5]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (True, "1"),
        (-1, "-1"),
        (1e15, "1000000000000000"),
        (1e300, "1e+300"),
        (0.1, "0.1"),
        (2**53 + 2, "9007199254740994.0"),
    ],
)
def test_whole_numbers_are_written_whole(value: float, written: str) -> None:
    assert render([single("x", "gauge", "x", value)]).decode().splitlines()[-1] == f"x {written}"


def test_text_that_is_no_unicode_does_not_break_the_page() -> None:
    assert b'x{text="?"} 1' in render([Family("x", "gauge", "x", [Sample({"text": "\ud800"}, 1)])])


_LABELS = st.dictionaries(st.sampled_from(["type", "reason", "text"]), st.text(), max_size=3)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)


@given(st.text(st.characters(codec="utf-8")), _LABELS, _NUMBERS)
def test_any_text_and_number_comes_back_from_the_official_parser(
    about: str, labels: dict[str, str], value: float
) -> None:
    page = render([Family("family", "gauge", about, [Sample(labels, value)])]).decode()
    (family,) = text_string_to_metric_families(page)
    (sample,) = family.samples
    assert sample.labels == {name: text.encode("utf-8", "replace").decode() for name, text in labels.items()}
    assert math.isclose(sample.value, value, rel_tol=0)


def test_a_page_of_nothing_is_empty() -> None:
    assert render([]) == b""


def test_a_value_that_is_no_number_is_written_as_prometheus_writes_it() -> None:
    values = [float("inf"), float("-inf"), float("nan")]
    page = render([single("a", "gauge", "A.", value) for value in values]).decode()
    assert [line for line in page.splitlines() if line[0] != "#"] == ["a +Inf", "a -Inf", "a NaN"]
