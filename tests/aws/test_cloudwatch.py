"""What reaches CloudWatch, and that nobody waits for it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import pytest

from recovery.cloudwatch import CloudWatch
from recovery.points import ALWAYS, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recovery.cloud import Sdk
    from recovery.ports import Points
    from tests.aws.clock import SteppedClock
    from tests.aws.surroundings import Aws

DMA = "NeuronHasError_DMA_ERROR"
PUT = "cloudwatch:PutMetricData"


@pytest.fixture
def points(hasty_sdk: Sdk, clock: SteppedClock) -> Iterator[CloudWatch]:
    clock.step(10)  # away from the edge of a minute
    points = CloudWatch(hasty_sdk, Schedule(cluster=None, per_node=True, zeros=True), clock)
    points.start()
    yield points
    points.close()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def data(aws: Aws, call: int = -1) -> dict[str, dict[str, Any]]:
    """Give what a call put, by metric; those without dimensions."""
    elements = aws.proxy.of(PUT)[call].parameters["MetricData"]
    return {each["MetricName"]: each for each in elements if not each.get("Dimensions")}


def test_the_edge_is_the_port(points: CloudWatch) -> None:
    port: Points = points

    port.publish({}, {})


def test_all_metrics_go_in_one_call_without_a_time_of_ours(aws: Aws, points: CloudWatch) -> None:
    points.publish({DMA: 2, "OwnReason": 0}, {})
    until(lambda: aws.proxy.of(PUT))

    assert aws.proxy.of(PUT)[0].parameters["Namespace"] == "NeuronHealthCheck"
    put = data(aws)
    assert put.keys() == {*ALWAYS, "OwnReason"}
    assert put[DMA] == {
        "MetricName": DMA,
        "Dimensions": [],
        "Values": [1.0],
        "Counts": [2.0],
        "StorageResolution": 60,
    }
    assert put["OwnReason"]["Values"] == [0.0]


def test_an_idle_fleet_is_one_call_a_minute_and_no_other(aws: Aws, points: CloudWatch, clock: SteppedClock) -> None:
    for _ in range(36):  # from 10:00:10 to 10:03:05
        points.publish({DMA: 0}, {})
        until(lambda: points._latest._value is None)
        clock.step(5)
    points.close()

    assert len(aws.proxy.calls) == 4
    assert aws.proxy.actions() == {PUT}


def test_a_bad_number_costs_its_own_point_only(aws: Aws, points: CloudWatch) -> None:
    points.publish({DMA: 1, "Broken": math.nan, "Naïve": 1}, {DMA: ("", "node-1")})  # type: ignore[dict-item]
    until(lambda: aws.proxy.of(PUT))

    assert data(aws).keys() == set(ALWAYS)
    nodes = [each["Dimensions"] for each in aws.proxy.of(PUT)[0].parameters["MetricData"] if each.get("Dimensions")]
    assert nodes == [[{"Name": "NodeName", "Value": "node-1"}]]


def test_more_than_a_thousand_points_go_in_several_calls(aws: Aws, points: CloudWatch) -> None:
    points.publish({DMA: 1500}, {DMA: tuple(f"node-{number}" for number in range(1500))})
    until(lambda: len(aws.proxy.of(PUT)) == 2)

    assert [len(call.parameters["MetricData"]) for call in aws.proxy.of(PUT)] == [1000, 500 + len(ALWAYS)]


@pytest.mark.parametrize("fault", ["hang", "rst", "done:rst", "err:400:Throttling", "200html", "502doctype"])
def test_a_lost_point_is_not_sent_again_and_nobody_waits_for_it(
    aws: Aws, points: CloudWatch, clock: SteppedClock, fault: str
) -> None:
    aws.proxy.will(fault)
    began = time.monotonic()
    points.publish({DMA: 1}, {})
    assert time.monotonic() - began < 0.1
    until(lambda: points._is_failing)

    points.publish({DMA: 1}, {})
    clock.step(60)
    points.publish({DMA: 1}, {})

    until(lambda: len(aws.proxy.calls) == 2)
    until(lambda: not points._is_failing)
    assert [call.fault for call in aws.proxy.calls] == [fault, "pass"]


def test_a_loop_that_hangs_is_silence(aws: Aws, points: CloudWatch, clock: SteppedClock) -> None:
    points.publish({DMA: 1}, {})
    until(lambda: aws.proxy.of(PUT))

    clock.step(600)
    time.sleep(0.1)  # nothing may happen

    assert len(aws.proxy.calls) == 1


def test_closing_does_not_wait_for_an_endpoint_that_hangs(aws: Aws, hasty_sdk: Sdk, clock: SteppedClock) -> None:
    aws.proxy.always("hang")
    points = CloudWatch(hasty_sdk, Schedule(cluster=None, per_node=False, zeros=True), clock)
    points.start()
    points.publish({}, {})
    until(lambda: aws.proxy.calls)

    began = time.monotonic()
    points.close()

    assert time.monotonic() - began < 1.5
