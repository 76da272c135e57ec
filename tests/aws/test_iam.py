"""The permissions that are shipped: all that is called, nothing that is not, and no mistake that a checker knows."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recovery.cloudwatch import NAMESPACE, CloudWatch
from recovery.points import Schedule
from recovery.ports import PortError
from tests.aws.clock import START
from tests.aws.permissions import FOLDER, actions, statements
from tests.aws.test_cloudwatch import until

if TYPE_CHECKING:
    from recovery.autoscaling import AutoScaling
    from recovery.cloud import Sdk
    from tests.aws.clock import SteppedClock
    from tests.aws.surroundings import Aws

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it imports pkg_resources
    from parliament import analyze_policy_string  # type: ignore[import-untyped]  # it ships no types

KINDS = ("irsa", "pod-identity")
POLICIES = ("policy.json", "reboot.json", "force-terminate.json")
OF_PROMETHEUS = "managed-prometheus.json"
# What the guide of AWS Neuron publishes, its placeholders filled in.
# Source: awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/tutorials/
# k8s-neuron-problem-detector-and-recovery-irsa.html (read 2026-11-29).
OF_THE_GUIDE: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["autoscaling:SetInstanceHealth", "autoscaling:DescribeAutoScalingInstances"],
            "Resource": "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:1:autoScalingGroupName/trn",
        },
        {
            "Effect": "Allow",
            "Action": ["ec2:DescribeInstances"],
            "Resource": "*",
            "Condition": {"ForAllValues:StringEquals": {"ec2:ResourceTag/aws:autoscaling:groupName": "trn"}},
        },
        {
            "Effect": "Allow",
            "Action": ["cloudwatch:PutMetricData"],
            "Resource": "*",
            "Condition": {"StringEquals": {"cloudwatch:Namespace": "NeuronHealthCheck"}},
        },
    ],
}


def findings(policy: str) -> list[str]:
    text = policy.replace("ACCOUNT_ID", "123456789012").replace("WORKSPACE_ID", "ws-0123456789abcdef0")
    return [finding.issue for finding in analyze_policy_string(text).findings]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*POLICIES, OF_PROMETHEUS])
def test_parliament_finds_nothing_in_a_policy(kind: str, name: str) -> None:
    assert findings((FOLDER / kind / name).read_text()) == []


def test_parliament_finds_the_group_arn_that_the_guide_gives_to_a_describe_call() -> None:
    assert "RESOURCE_MISMATCH" in findings(json.dumps(OF_THE_GUIDE))


@pytest.mark.parametrize("name", [*POLICIES, OF_PROMETHEUS])
def test_the_policies_of_both_kinds_differ_in_how_the_cluster_is_named_only(name: str) -> None:
    text = (FOLDER / "pod-identity" / name).read_text()

    assert (FOLDER / "irsa" / name).read_text() == text.replace("${aws:PrincipalTag/eks-cluster-name}", "CLUSTER_NAME")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", POLICIES)
def test_whatever_changes_anything_is_held_to_the_cluster_or_the_namespace(kind: str, name: str) -> None:
    for statement in statements(FOLDER / kind / name):
        if statement["Resource"] != "*":
            (condition,) = statement["Condition"]["StringEquals"]
            assert condition == "aws:ResourceTag/eks:cluster-name"
            assert ":ACCOUNT_ID:" in statement["Resource"]
        elif statement["Action"] == "cloudwatch:PutMetricData":
            assert statement["Condition"] == {"StringEquals": {"cloudwatch:namespace": NAMESPACE}}
        else:
            assert all(action.startswith("autoscaling:Describe") for action in statement["Action"])


def test_each_optional_call_is_a_file_of_its_own() -> None:
    assert actions("reboot.json") == {"ec2:RebootInstances"}
    assert actions("force-terminate.json") == {"autoscaling:TerminateInstanceInAutoScalingGroup"}
    assert actions(OF_PROMETHEUS) == {"aps:QueryMetrics"}


def test_what_is_called_is_what_is_allowed(aws: Aws, cloud: AutoScaling, hasty_sdk: Sdk, clock: SteppedClock) -> None:
    name = aws.player.make_group(2)
    first, second = aws.player.instances(name)
    points = CloudWatch(hasty_sdk, Schedule(cluster=None, per_node=False, zeros=True), clock)
    points.start()

    cloud.group_of(first)
    cloud.group(name, failed_since=START)
    cloud.set_unhealthy(first)
    cloud.set_healthy(first)
    points.publish({}, {})
    until(lambda: aws.proxy.of("cloudwatch:PutMetricData"))
    points.close()
    assert aws.proxy.actions() == actions("policy.json")

    cloud.reboot(first)
    cloud.terminate(second)
    assert aws.proxy.actions() == actions("policy.json", "reboot.json", "force-terminate.json")


def test_under_the_policy_of_the_guide_the_narrow_calls_are_left(aws: Aws, cloud: AutoScaling) -> None:
    aws.proxy.asked.is_narrow = True
    name = aws.player.make_group(2)
    first, second = aws.player.instances(name)
    for action in (
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeScalingActivities",
    ):
        aws.proxy.always("err:403:AccessDenied", action=action)

    with pytest.raises(PortError) as denied:
        cloud.group_of(first)
    assert denied.value.denied == "autoscaling:DescribeAutoScalingInstances"
    with pytest.raises(PortError) as denied:
        cloud.group(name, failed_since=START)
    assert denied.value.denied == "autoscaling:DescribeAutoScalingGroups"

    assert cloud.group_by_tag(first) == name
    cloud.set_unhealthy(first)
    aws.player.step()
    assert cloud.is_terminated(first)
    new = cloud.running_with_tag(name)
    assert len(new) == 2
    assert first not in new
    assert second in new


def test_a_role_may_be_taken_by_recovery_of_one_cluster_only() -> None:
    (of_pods,) = statements(FOLDER / "pod-identity" / "trust.json")
    (of_irsa,) = statements(FOLDER / "irsa" / "trust.json")

    assert of_pods["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert set(of_pods["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    assert of_pods["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-name": "CLUSTER_NAME",
        "aws:RequestTag/kubernetes-namespace": "neuron-healthcheck-system",
        "aws:RequestTag/kubernetes-service-account": "node-problem-detector",
    }
    assert of_irsa["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert of_irsa["Condition"]["StringEquals"]["OIDC_PROVIDER:sub"] == (
        "system:serviceaccount:neuron-healthcheck-system:node-problem-detector"
    )


def test_the_guide_tells_of_every_file_and_every_action() -> None:
    text = (Path(__file__).parents[2] / "docs" / "iam.md").read_text()

    for kind in KINDS:
        for path in (FOLDER / kind).iterdir():
            assert path.name in text
    for action in actions(*POLICIES, OF_PROMETHEUS):
        assert action in text
