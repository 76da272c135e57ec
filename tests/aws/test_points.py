"""Which points are due, and when."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.points import ALWAYS, Schedule, refusal
from tests.aws.clock import SteppedClock

if TYPE_CHECKING:
    from collections.abc import Iterable

DMA, HANG = "NeuronHasError_DMA_ERROR", "NeuronHasError_HANG_ON_COLLECTIVES"
NODE = (("NodeName", "node-1"),)
Key = tuple[str, tuple[tuple[str, str], ...]]


class Sent:
    """A schedule, and what it had sent: by minute and series, the samples."""

    def __init__(self, schedule: Schedule) -> None:
        self.clock = SteppedClock()
        self.calls: list[dict[Key, tuple[float, float]]] = []
        self.minutes: dict[int, dict[Key, list[tuple[float, float]]]] = {}
        self._schedule = schedule

    def look(
        self, counts: dict[str, int], nodes: dict[str, tuple[str, ...]] | None = None
    ) -> dict[Key, tuple[float, float]]:
        """Hand over what holds now; give value and count of what is sent, by series."""
        now = self.clock.now()
        due = self._schedule.due(counts, nodes or {}, now)
        sent = {key(datum): (datum["Values"][0], datum["Counts"][0]) for datum in due}
        assert len(sent) == len(due)
        if sent:
            self.calls.append(sent)
        for series, sample in sent.items():
            minute = self.minutes.setdefault(int(now.timestamp() // 60), {})
            minute.setdefault(series, []).append(sample)
        return sent

    def sum_of(self, name: str) -> list[float]:
        """Tell the sum of each minute, of the series without dimensions."""
        return [total(samples.get((name, ()), ())) for samples in self.minutes.values()]


def key(datum: dict[str, Any]) -> Key:
    return datum["MetricName"], tuple((each["Name"], each["Value"]) for each in datum["Dimensions"])


def total(samples: Iterable[tuple[float, float]]) -> float:
    return sum(value * count for value, count in samples)


@pytest.fixture
def sent() -> Sent:
    return Sent(Schedule(cluster=None, per_node=False, zeros=True))


def test_the_first_look_sends_a_zero_for_every_metric_that_has_an_alarm(sent: Sent) -> None:
    assert sent.look({}) == {(name, ()): (0.0, 1.0) for name in ALWAYS}


def test_nothing_faulty_is_one_call_a_minute(sent: Sent) -> None:
    for _ in range(200):
        sent.look({DMA: 0})
        sent.clock.step(5)

    assert len(sent.calls) == 17  # 1,000 s
    assert all(len(minute) == len(ALWAYS) for minute in sent.minutes.values())
    assert all(samples == [(0.0, 1.0)] for minute in sent.minutes.values() for samples in minute.values())


def test_an_unnamed_reason_of_own_rules_gets_zeros_too(sent: Sent) -> None:
    assert sent.look({"OwnReason": 0})["OwnReason", ()] == (0.0, 1.0)


def test_faulty_nodes_are_counted_once_a_minute(sent: Sent) -> None:
    for _ in range(180):
        sent.look({DMA: 3})
        sent.clock.step(1)

    assert sent.sum_of(DMA) == [3, 3, 3]
    assert sent.minutes[min(sent.minutes)][DMA, ()] == [(1.0, 3.0)]
    assert len(sent.calls) == 3


def test_a_new_fault_is_sent_at_once_and_alone(sent: Sent) -> None:
    sent.look({DMA: 0, HANG: 2})
    sent.clock.step(10)

    assert sent.look({DMA: 1, HANG: 2}) == {(DMA, ()): (1.0, 1.0)}
    sent.clock.step(1)
    assert sent.look({DMA: 1, HANG: 2}) == {}


def test_a_second_node_in_the_same_minute_adds_itself_only(sent: Sent) -> None:
    sent.look({DMA: 1})
    sent.clock.step(10)

    assert sent.look({DMA: 3}) == {(DMA, ()): (1.0, 2.0)}
    assert sent.sum_of(DMA) == [3]


def test_a_fault_that_goes_on_over_the_edge_of_a_minute_is_no_new_fault(sent: Sent) -> None:
    sent.look({DMA: 1})
    sent.clock.step(60.5)

    assert sent.look({DMA: 1}) == {}  # not on the edge: the service's clock may be a second behind
    sent.clock.step(2)
    assert sent.look({DMA: 1})[DMA, ()] == (1.0, 1.0)


def test_a_fault_that_begins_on_the_edge_of_a_minute_is_not_counted_twice(sent: Sent) -> None:
    sent.look({})
    sent.clock.step(60.5)
    assert sent.look({DMA: 1}) == {(DMA, ()): (1.0, 1.0)}
    sent.clock.step(2)

    assert (DMA, ()) not in sent.look({DMA: 1})
    assert sent.sum_of(DMA) == [0, 1]


def test_a_fault_that_flaps_in_a_minute_is_one_faulty_node(sent: Sent) -> None:
    sent.look({})
    for _ in range(20):
        sent.clock.step(1)
        sent.look({DMA: 1})
        sent.clock.step(1)
        sent.look({DMA: 0})

    assert sent.sum_of(DMA) == [1]


def test_a_fault_that_has_ended_is_a_zero_in_the_next_minute(sent: Sent) -> None:
    sent.look({DMA: 1})
    sent.clock.step(65)

    assert sent.look({DMA: 0})[DMA, ()] == (0.0, 1.0)


def test_a_clock_that_is_set_back_begins_a_new_minute(sent: Sent) -> None:
    sent.look({DMA: 1})
    sent.clock.step(-3600 + 10)

    assert sent.look({DMA: 1})[DMA, ()] == (1.0, 1.0)
    sent.clock.step(1)
    assert sent.look({DMA: 1}) == {}


def test_with_a_cluster_name_every_metric_has_that_dimension_and_no_other() -> None:
    sent = Sent(Schedule(cluster="blue", per_node=False, zeros=True))

    assert {dimensions for _, dimensions in sent.look({DMA: 1})} == {(("ClusterName", "blue"),)}


def test_each_node_has_its_own_metric_if_asked_for_and_one_zero_at_the_end() -> None:
    sent = Sent(Schedule(cluster=None, per_node=True, zeros=True))
    sent.look({DMA: 0})
    sent.clock.step(10)

    assert sent.look({DMA: 1}, {DMA: ("node-1",)}) == {(DMA, ()): (1.0, 1.0), (DMA, NODE): (1.0, 1.0)}
    for _ in range(3):
        sent.clock.step(60)
        sent.look({DMA: 1}, {DMA: ("node-1",)})
    for _ in range(3):
        sent.clock.step(60)
        sent.look({DMA: 0}, {DMA: ()})

    assert [minute.get((DMA, NODE)) for minute in sent.minutes.values()] == [
        *[[(1.0, 1.0)]] * 4,
        [(0.0, 1.0)],
        None,
        None,
    ]


def test_a_node_that_ends_within_its_first_seconds_gets_its_zero_a_minute_later() -> None:
    sent = Sent(Schedule(cluster=None, per_node=True, zeros=True))
    sent.look({})
    sent.clock.step(60.5)
    sent.look({DMA: 1}, {DMA: ("node-1",)})
    sent.clock.step(2)
    sent.look({DMA: 0}, {})
    sent.clock.step(60)

    assert sent.look({DMA: 0}, {})[DMA, NODE] == (0.0, 1.0)


def test_the_dimensions_of_cluster_and_node_go_together() -> None:
    sent = Sent(Schedule(cluster="blue", per_node=True, zeros=True))

    looked = sent.look({DMA: 1}, {DMA: ("node-1",)})

    assert looked[DMA, (("ClusterName", "blue"), *NODE)] == (1.0, 1.0)


def test_stand_alone_a_machine_says_nothing_of_others() -> None:
    sent = Sent(Schedule(cluster=None, per_node=False, zeros=False))
    for second in range(300):
        sent.look({DMA: int(100 <= second < 200)})
        sent.clock.step(1)

    assert sent.calls == [{(DMA, ()): (1.0, 1.0)}] * 3


@given(st.lists(st.tuples(st.sampled_from([0.4, 1.0, 5.0, 30.0]), st.integers(0, 4)), max_size=60))
def test_no_minute_ever_tells_more_or_fewer_nodes_than_were_faulty(steps: list[tuple[float, int]]) -> None:
    sent = Sent(Schedule(cluster=None, per_node=False, zeros=True))
    seen: dict[int, list[tuple[float, int]]] = {}
    for seconds, count in steps:
        now = sent.clock.now().timestamp()
        seen.setdefault(int(now // 60), []).append((now % 60, count))
        sent.look({DMA: count})
        sent.clock.step(seconds)

    for minute, looks in seen.items():
        told = total(sent.minutes.get(minute, {}).get((DMA, ()), ()))
        assert told <= max(count for _, count in looks)
        if any(second >= 2 for second, _ in looks):
            assert told >= max(count for second, count in looks if second >= 2)


GOOD: dict[str, Any] = {
    "MetricName": DMA,
    "Dimensions": [{"Name": "NodeName", "Value": "node-1"}],
    "Values": [1.0],
    "Counts": [3.0],
}


def test_what_cloudwatch_takes_is_not_refused() -> None:
    assert refusal(GOOD) is None


@pytest.mark.parametrize(
    "bad",
    [
        {"MetricName": ""},
        {"MetricName": "x" * 256},
        {"MetricName": "naïve"},
        {"MetricName": "a\nb"},
        {"Dimensions": [{"Name": "NodeName", "Value": ""}]},
        {"Dimensions": [{"Name": "NodeName", "Value": " "}]},
        {"Dimensions": [{"Name": "NodeName", "Value": ":node"}]},
        {"Dimensions": [{"Name": "NodeName", "Value": "n" * 1025}]},
        {"Values": [math.nan]},
        {"Values": [math.inf]},
        {"Values": [-math.inf]},
        {"Values": [2.0**361]},
        {"Counts": [math.nan]},
        {"Counts": [0.0]},
        {"Counts": [-1.0]},
    ],
)
def test_what_cloudwatch_would_refuse_the_whole_call_for_is_refused(bad: dict[str, Any]) -> None:
    assert refusal(GOOD | bad) is not None
