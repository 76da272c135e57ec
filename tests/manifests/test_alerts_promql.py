"""What an expression asks for is found, whatever stands around it."""

from __future__ import annotations

import pytest

from tests.manifests.promql import asked

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("expression", "metrics"),
    [
        ("up", {"up": set()}),
        ("up == 0", {"up": set()}),
        ('up{job=~"a|b{c}", node!="x"} == bool 1', {"up": {"job", "node"}}),
        ('rate(a_total{code!~"2..|by (x)"}[5m:1m] offset 1h)', {"a_total": {"code"}}),
        ("sum by (cluster, node) (a) / on (cluster) group_left (b) count(c)", {"a": set(), "c": set()}),
        ("sum(a) by (node) or vector(0)", {"a": set()}),
        ("a * on (node) group_left max by (node) (b{x='y'})", {"a": set(), "b": {"x"}}),
        ("topk(10, a) > 1e3 and time() - b > 3_600", {"a": set(), "b": set()}),
        ('a{x="1"} unless a{y="2"}', {"a": {"x", "y"}}),
        ("histogram_quantile(0.99, sum by (le) (increase(a_bucket[$__range])))", {"a_bucket": set()}),
        ('label_replace(a, "dst", "$1", "src", "(.*)")', {"a": set()}),
        ("-inf + a @ 12 # b", {"a": set()}),
    ],
)
def test_metrics_and_the_labels_they_are_matched_by_are_found(expression: str, metrics: dict[str, set[str]]) -> None:
    assert asked(expression).metrics == metrics


def test_labels_to_group_and_join_by_are_found() -> None:
    expression = "sum by (a, b) (x) / on (c) group_left (d) count without (e) (y) and ignoring (f) z"
    assert asked(expression).labels == {"a", "b", "c", "d", "e", "f"}


@pytest.mark.parametrize("expression", ["up ~ 1", 'up{a="b', "up;"])
def test_what_is_no_promql_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="no word of PromQL"):
        asked(expression)
