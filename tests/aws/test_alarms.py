"""The alarms that are shipped: valid, as the contract says, and right about what recovery sends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest
from cfnlint.decode.cfn_yaml import load  # type: ignore[import-untyped]  # it ships no types

from recovery.cloudwatch import NAMESPACE, CloudWatch
from recovery.points import ALWAYS, Schedule
from tests.aws.test_cloudwatch import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recovery.cloud import Sdk
    from tests.aws.clock import SteppedClock
    from tests.aws.surroundings import Aws

FOLDER = Path(__file__).parents[2] / "manifests" / "cloudwatch"
DMA = "NeuronHasError_DMA_ERROR"
REASONS = [name for name in ALWAYS if name.startswith("NeuronHasError_")]


def alarms(name: str, **parameters: str) -> list[dict[str, Any]]:
    """Give the properties of a template's alarms, as CloudFormation would after it has put the parameters in."""
    template = load(str(FOLDER / name))
    given = {key: value["Default"] for key, value in template["Parameters"].items()} | parameters
    conditions = {
        key: given[value["Fn::Not"][0]["Fn::Equals"][0]["Ref"]] != "" for key, value in template["Conditions"].items()
    }
    resources = template["Resources"].values()
    assert {resource["Type"] for resource in resources} == {"AWS::CloudWatch::Alarm"}
    return [resolve(resource["Properties"], given, conditions) for resource in resources]


def resolve(node: Any, given: dict[str, str], conditions: dict[str, bool]) -> Any:
    match node:
        case list():
            answer: Any = [resolve(each, given, conditions) for each in node]
        case {"Ref": name}:
            answer = given.get(name)  # AWS::NoValue is none
        case {"Fn::If": [name, yes, no]}:
            answer = resolve(yes if conditions[name] else no, given, conditions)
        case {"Fn::Sub": text}:
            answer = re.sub(r"\$\{(\w+)\}", lambda found: given[found[1]], text)
        case dict():
            found = {str(key): resolve(value, given, conditions) for key, value in node.items()}
            answer = {key: value for key, value in found.items() if value is not None}
        case _:
            answer = node
    return answer


def state(alarm: dict[str, Any], minutes: list[list[float]]) -> str:
    """Evaluate M of N, as CloudWatch does, over the samples of the last minutes."""
    breaching = 0
    nothing: list[list[float]] = [[]]
    for samples in (nothing * alarm["EvaluationPeriods"] + minutes)[-alarm["EvaluationPeriods"] :]:
        if alarm["Statistic"] == "SampleCount":
            value = float(len(samples)) if samples else None
        else:
            value = max(samples, default=None)
        if value is None:
            breaching += alarm["TreatMissingData"] == "breaching"
        elif alarm["ComparisonOperator"] == "LessThanThreshold":
            breaching += value < alarm["Threshold"]
        else:
            breaching += value >= alarm["Threshold"]
    return "ALARM" if breaching >= alarm["DatapointsToAlarm"] else "OK"


def test_cfn_lint_finds_nothing() -> None:
    linter = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), *FOLDER.iterdir()],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (linter.stdout, linter.stderr, linter.returncode) == ("", "", 0)


def test_every_metric_that_is_always_sent_has_its_alarm() -> None:
    made = alarms("alarms.yaml")

    assert sorted(alarm["MetricName"] for alarm in made) == sorted([*ALWAYS, "RecoveryBlocked"])
    for alarm in made[:-1]:
        assert (alarm["Statistic"], alarm["Period"], alarm["ComparisonOperator"], alarm["Threshold"]) == (
            "Maximum",
            60,
            "GreaterThanOrEqualToThreshold",
            1,
        )
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (3, 1)
        assert alarm["TreatMissingData"] == "notBreaching"
    assert made[-1]["TreatMissingData"] == "breaching"
    assert {alarm["Namespace"] for alarm in made} == {NAMESPACE}
    assert not any("Dimensions" in alarm or "AlarmActions" in alarm for alarm in made)


def test_with_a_cluster_name_alarms_have_the_dimension_that_is_sent() -> None:
    made = alarms("alarms.yaml", ClusterName="blue", Topic="arn:aws:sns:us-east-1:123456789012:oncall")

    assert {alarm["AlarmName"] for alarm in made} >= {f"chipwarden-blue-{name}" for name in ALWAYS}
    for alarm in made:
        assert alarm["Dimensions"] == [{"Name": "ClusterName", "Value": "blue"}]
        assert alarm["AlarmActions"] == alarm["OKActions"] == ["arn:aws:sns:us-east-1:123456789012:oncall"]


@pytest.mark.parametrize("name", ["alarms.yaml", "anywhere.yaml"])
def test_cloudwatch_takes_each_alarm_as_it_is(aws: Aws, name: str) -> None:
    assert aws.proxy.url
    client: Any = botocore.session.Session().create_client("cloudwatch", region_name="us-east-1")
    for alarm in alarms(name, Topic="arn:aws:sns:us-east-1:123456789012:oncall"):
        client.put_metric_alarm(**alarm)

        (described,) = client.describe_alarms(AlarmNames=[alarm["AlarmName"]])["MetricAlarms"]
        assert {key: described[key] for key in alarm if key != "Metrics"} == {
            key: value for key, value in alarm.items() if key != "Metrics"
        }


def test_the_queries_ask_for_every_reason_as_the_guide_does() -> None:
    queries = [alarm["Metrics"][0]["Expression"] for alarm in alarms("anywhere.yaml")]

    asked = [re.fullmatch(r"SELECT MAX\((\w+)\) FROM NeuronHealthCheck", query) for query in queries]
    assert [query and query[1] for query in asked] == REASONS


class Told:
    """The samples that CloudWatch was sent through the proxy, by metric and minute."""

    def __init__(self, aws: Aws, points: CloudWatch, clock: SteppedClock) -> None:
        self.minutes: dict[str, list[list[float]]] = {name: [] for name in ALWAYS}
        self._aws, self._points, self._clock = aws, points, clock

    def minute(self, counts: dict[str, int] | None) -> None:
        """Let a minute pass, in which these nodes are faulty; None = recovery is down."""
        before = len(self._aws.proxy.calls)
        for _ in range(3):
            if counts is not None:
                self._points.publish(counts, {})
                until(lambda: self._points._latest._value is None)
            self._clock.step(20)
        until(lambda: counts is None or len(self._aws.proxy.calls) > before)
        samples: dict[str, list[float]] = {name: [] for name in ALWAYS}
        for call in self._aws.proxy.calls[before:]:
            for datum in call.parameters["MetricData"]:
                samples[datum["MetricName"]] += datum["Values"] * int(datum["Counts"][0])
        for name, found in samples.items():
            self.minutes[name].append(found)

    def alarming(self) -> set[str]:
        """Tell which alarms are in ALARM."""
        return {
            alarm["AlarmName"].removeprefix("chipwarden-")
            for alarm in alarms("alarms.yaml")
            if state(alarm, self.minutes[alarm["MetricName"]]) == "ALARM"
        }


@pytest.fixture
def told(aws: Aws, hasty_sdk: Sdk, clock: SteppedClock) -> Iterator[Told]:
    clock.step(5)
    points = CloudWatch(hasty_sdk, Schedule(cluster=None, per_node=False, zeros=True), clock)
    points.start()
    yield Told(aws, points, clock)
    points.close()


def test_alarms_follow_a_fault_and_its_end(told: Told) -> None:
    for _ in range(6):
        told.minute({})
    assert told.alarming() == set()

    told.minute({DMA: 2})
    assert told.alarming() == {DMA}
    told.minute({DMA: 2, "ReplacementBlocked": 1})
    assert told.alarming() == {DMA, "ReplacementBlocked"}

    for _ in range(3):
        told.minute({})
    assert told.alarming() == set()


def test_a_lost_point_lets_no_alarm_flap(aws: Aws, told: Told) -> None:
    for _ in range(6):
        told.minute({DMA: 1})
    aws.proxy.will("503empty")
    told.minute({DMA: 1})
    told.minutes[DMA][-1] = []  # it did not arrive

    assert told.alarming() == {DMA}


def test_a_recovery_that_is_down_is_an_alarm_of_its_own_and_no_other(told: Told) -> None:
    for _ in range(6):
        told.minute({DMA: 1})
    for _ in range(4):
        told.minute(None)
    assert told.alarming() == set()

    told.minute(None)

    assert told.alarming() == {"silence"}
