"""Prometheus' text format: what is read, and what makes a text unusable."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from recovery.parse import ParseError, Series, read_series
from runtime.exposition import Family, Sample, render
from tests.recovery.detector_page import DMA, page

WANTED = frozenset(("problem_gauge", "problem_counter", "problem_counter_total"))


def test_a_page_with_every_liberty_of_the_format_is_read() -> None:
    # Row B87 of the field's list: prometheus/client_python#461.
    text = (
        "# TYPE problem_gauge gauge\r\n"
        'problem_gauge {reason="X",type="NeuronHealth"} 1\r\n'
        "\r\n"
        "other_total 3\n"
        '\tproblem_gauge{ type = "NeuronHealth" , reason="Y", }\t1e+00  1795992678292\n'
        "# a comment in between\n"
        'problem_counter{reason="X"}7\n'
        'problem_counter_total{reason="X"} 7.0 # {trace="a b"} 1.0\n'
        "# EOF\n"
    )
    assert read_series(text, WANTED) == [
        Series("problem_gauge", {"reason": "X", "type": "NeuronHealth"}, 1.0, None),
        Series("problem_gauge", {"reason": "Y", "type": "NeuronHealth"}, 1.0, 1795992678.292),
        Series("problem_counter", {"reason": "X"}, 7.0, None),
        Series("problem_counter_total", {"reason": "X"}, 7.0, None),
    ]


def test_labels_may_hold_any_text() -> None:
    # Row B89: cnieg/gitlab-tokens-exporter#221.
    (series,) = read_series('problem_gauge{reason="a \\"quoted\\", \\\\n } {# \\n line",type="µ"} 0\n', WANTED)
    assert series.labels == {"reason": 'a "quoted", \\n } {# \n line', "type": "µ"}


def test_open_metrics_counts_seconds_and_says_where_it_ends() -> None:
    text = "problem_gauge 1 1795992678.25\n# EOF"
    assert read_series(text, WANTED, open_metrics=True)[0].at == 1795992678.25
    with pytest.raises(ParseError, match="there is no # EOF"):
        read_series("problem_gauge 1\n", WANTED, open_metrics=True)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1", "-0.5", "1e+00", ".5", "1."])
def test_every_number_is_read_as_it_is(value: str) -> None:
    (series,) = read_series(f"problem_gauge {value}\n", WANTED)
    assert series.value == float(value) or math.isnan(series.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("problem_gauge 1", "the last line has no end"),
        ("problem_gauge 1\n# EOF\nproblem_gauge 1\n", "stands behind the end"),
        ("problem_gauge 1\nproblem_gauge 0\n", "stands twice"),
        ('problem_gauge{a="1",b="2"} 1\nproblem_gauge{b="2",a="1"} 1\n', "stands twice"),
        ("<html><body>502</body></html>\n", "is no series"),
        ('{"status":"ok"}\n', "is no series"),
        ("problem_gauge\n", "is no series"),
        ("problem_gauge1\n", "is no series"),
        ("problem_gauge 1 2 3\n", "is no series"),
        ('problem_gauge{reason="X} 1\n', "is no series"),
        ("problem_gauge 1_0\n", "is no series"),
        ("problem_gauge one\n", "has no number"),
        ("problem_gauge 1 1-1\n", "has no number"),
        ("problem_gauge{reason=X} 1\n", "malformed labels"),
        ('problem_gauge{reason="X" type="Y"} 1\n', "malformed labels"),
        ('problem_gauge{reason="X",reason="Y"} 1\n', "malformed labels"),
    ],
)
def test_anything_doubtful_makes_the_whole_text_unusable(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        read_series(text, WANTED)


@given(st.text(alphabet=st.sampled_from('problem_gauge{}",=\\ \n\t1e+.NaN#EOF\r'), max_size=200))
def test_nothing_but_a_parse_error_is_raised(text: str) -> None:
    try:
        read_series(text, WANTED)
    except ParseError:
        return


@given(cut=st.integers(min_value=0, max_value=len(page(DMA)) - 1))
def test_no_text_cut_off_within_a_line_is_read(cut: int) -> None:
    text = page(DMA)[:cut]
    if text and not text.endswith("\n"):
        with pytest.raises(ParseError):
            read_series(text, WANTED)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(["type", "reason", "x"]), st.text(st.characters(codec="utf-8"))),
            st.floats(),
        ),
        unique_by=lambda item: str(sorted(item[0].items())),
    )
)
def test_it_agrees_with_the_official_parser(samples: list[tuple[dict[str, str], float]]) -> None:
    rendered = [Sample(labels, value) for labels, value in samples if math.isfinite(value)]
    text = render([Family("problem_gauge", "gauge", "about", rendered)]).decode()
    official = [
        (sample.labels, sample.value) for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    assert [(series.labels, series.value) for series in read_series(text, WANTED)] == official


def test_a_hostile_line_takes_one_pass() -> None:
    text = "problem_gauge{" + 'a="' * 200_000 + "\n" + 'problem_gauge{a="\\' * 10_000 + "\n" + "{" * 1_000_000 + "\n"
    with pytest.raises(ParseError):
        read_series(text, WANTED)
