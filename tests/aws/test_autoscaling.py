from __future__ import annotations

import threading
from datetime import timedelta, timezone
from typing import TYPE_CHECKING

import botocore.session
import pytest

from recovery import autoscaling
from recovery.cloud_errors import CloudError
from recovery.model import Member, Way
from recovery.ports import PortError
from recovery.standing import Found, Standing, stand
from runtime.vocabulary import Action
from tests.aws.clock import START
from tests.aws.lifecycle import STATES

if TYPE_CHECKING:
    from collections import Counter

    from recovery.autoscaling import AutoScaling
    from recovery.ports import Cloud
    from tests.aws.clock import SteppedClock
    from tests.aws.surroundings import Aws

NOBODY = "i-0123456789abcdef0"


def test_the_edge_is_the_port(cloud: AutoScaling) -> None:
    port: Cloud = cloud

    assert port.group("no-such-group", failed_since=None) is None


def test_an_instance_is_found_in_its_group(aws: Aws, cloud: AutoScaling) -> None:
    aws.player.make_group(1)
    name = aws.player.make_group(3)

    assert cloud.group_of(aws.player.instances(name)[2]) == name
    assert aws.proxy.of("autoscaling:DescribeAutoScalingInstances")[0].parameters == {
        "Version": "2011-01-01",
        "InstanceIds.member.1": aws.player.instances(name)[2],
    }


def test_a_whole_answer_without_the_instance_is_none(cloud: AutoScaling) -> None:
    assert cloud.group_of(NOBODY) is None


def test_a_group_is_read_with_its_members(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(2)
    first, second = aws.player.instances(name)
    aws.player.set_state(second, "Terminating:Wait")
    member = aws.player.member(first)
    assert member is not None
    member.protected_from_scale_in = True
    aws.player.suspend(name, "Launch", "AZRebalance")

    group = cloud.group(name, failed_since=None)

    assert group is not None
    assert (group.name, group.desired, group.suspended) == (name, 2, ("AZRebalance", "Launch"))
    assert group.members == (
        Member(instance=first, state="InService", health="Healthy", protected=True),
        Member(instance=second, state="Terminating:Wait", health="Healthy"),
    )
    assert (group.operator, group.failed_activity, group.activities_unread) == (None, None, None)
    assert not aws.proxy.of("autoscaling:DescribeScalingActivities")


def test_a_group_without_instances_is_a_group(aws: Aws, cloud: AutoScaling) -> None:
    group = cloud.group(aws.player.make_group(0), failed_since=None)

    assert group is not None
    assert group.members == ()


def test_the_operator_of_a_group_is_told(aws: Aws, cloud: AutoScaling) -> None:
    group = cloud.group(aws.player.make_group(1, operator="eks.amazonaws.com"), failed_since=None)

    assert group is not None
    assert group.operator == "eks.amazonaws.com"


@pytest.mark.parametrize(("state", "standing"), STATES.items())
def test_every_lifecycle_state_has_its_outcome(aws: Aws, cloud: AutoScaling, state: str, standing: Standing) -> None:
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)
    aws.player.set_state(instance, state)

    group = cloud.group(name, failed_since=None)

    assert group is not None
    assert group.members[0].state == state
    found = Found(way=Way.AUTOSCALING, at=START, name=name, group=group)
    assert stand(found, instance, action=Action.REPLACE, respects_protection=False).standing is standing


def test_a_lifecycle_state_that_the_sdk_learns_has_to_be_given_an_outcome_here() -> None:
    model = botocore.session.Session().get_service_model("autoscaling")

    assert set(model.shape_for("LifecycleState").enum) == STATES.keys()  # type: ignore[attr-defined]


def test_the_two_describe_calls_say_healthy_in_different_letters(aws: Aws) -> None:
    """So that nobody who compares without regard to case is thought to be overcautious."""
    name = aws.player.make_group(1)
    client = botocore.session.Session().create_client("autoscaling", region_name="us-east-1")

    instances = client.describe_auto_scaling_instances(InstanceIds=aws.player.instances(name))  # type: ignore[attr-defined]
    groups = client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])  # type: ignore[attr-defined]

    assert instances["AutoScalingInstances"][0]["HealthStatus"] == "HEALTHY"
    assert groups["AutoScalingGroups"][0]["Instances"][0]["HealthStatus"] == "Healthy"


def test_the_newest_failed_activity_is_told(aws: Aws, clock: SteppedClock, cloud: AutoScaling) -> None:
    name = aws.player.make_group(3, slots=3, terminate_seconds=100, retry_seconds=30)
    cloud.set_unhealthy(aws.player.instances(name)[0])
    for message in ("first", "second", "third"):
        aws.player.manner(name).failure = message
        aws.player.step()
        clock.step(31)

    group = cloud.group(name, failed_since=START)

    assert group is not None
    assert group.failed_activity == "third"


def test_a_failure_before_the_call_is_not_told(aws: Aws, clock: SteppedClock, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1, slots=0)
    aws.player.group(name).desired_capacity = 2
    aws.player.step()
    clock.step(1)

    since = START + timedelta(seconds=1, microseconds=5)
    group = cloud.group(name, failed_since=since)

    assert group is not None
    assert group.failed_activity is None
    assert group.activities_unread is None


def test_the_time_since_when_is_sent_as_utc(aws: Aws, cloud: AutoScaling) -> None:
    since = START.astimezone(timezone(timedelta(hours=9)))

    cloud.group(aws.player.make_group(1), failed_since=since)

    (call,) = aws.proxy.of("autoscaling:DescribeScalingActivities")
    assert call.parameters["Filters.member.1.Values.member.1"] == "2026-11-29T10:00:00Z"


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<Other/>",
        "<AutoScalingGroups><member><AutoScalingGroupName>trn</AutoScalingGroupName></member></AutoScalingGroups>",
        "<AutoScalingGroups><member><Instances/><DesiredCapacity>1</DesiredCapacity></member></AutoScalingGroups>",
    ],
)
def test_an_answer_in_which_something_is_missing_is_none(aws: Aws, cloud: AutoScaling, inside: str) -> None:
    result = f"<DescribeAutoScalingGroupsResult>{inside}</DescribeAutoScalingGroupsResult>"
    aws.proxy.will(f"say:<DescribeAutoScalingGroupsResponse>{result}</DescribeAutoScalingGroupsResponse>")

    with pytest.raises(CloudError) as caught:
        cloud.group("trn", failed_since=None)

    assert caught.value.outcome == "incomplete"


def test_activities_are_looked_through_page_by_page(aws: Aws, clock: SteppedClock, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1, slots=1)
    aws.player.group(name).desired_capacity = 2
    aws.player.step()
    clock.step(1)
    aws.player.manner(name).slots = None
    clock.step(60)
    aws.player.group(name).desired_capacity = 4
    aws.player.step()

    group = cloud.group(name, failed_since=START)

    assert group is not None
    assert group.failed_activity == aws.player.manner(name).failure
    assert len(aws.proxy.of("autoscaling:DescribeScalingActivities")) == 2


def test_activities_that_may_not_be_read_do_not_hide_the_group(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    aws.proxy.always("err:403:AccessDenied", action="autoscaling:DescribeScalingActivities")

    group = cloud.group(name, failed_since=START)

    assert group is not None
    assert group.failed_activity is None
    assert group.activities_unread == "autoscaling:DescribeScalingActivities: AccessDenied made up"


def test_activities_without_end_are_given_up(aws: Aws, clock: SteppedClock, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    aws.player.group(name).desired_capacity = 12
    aws.player.step()
    clock.step(1)

    group = cloud.group(name, failed_since=START)

    assert group is not None
    assert group.activities_unread == "autoscaling:DescribeScalingActivities: the pages do not end"


def test_an_instance_is_marked_without_regard_to_the_grace_period(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(2, grace_seconds=1500)
    first, second = aws.player.instances(name)

    cloud.set_unhealthy(second)

    group = cloud.group(name, failed_since=None)
    assert group is not None
    assert [(member.instance, member.health) for member in group.members] == [
        (first, "Healthy"),
        (second, "Unhealthy"),
    ]
    (call,) = aws.proxy.of("autoscaling:SetInstanceHealth")
    assert call.parameters == {
        "Version": "2011-01-01",
        "InstanceId": second,
        "HealthStatus": "Unhealthy",
        "ShouldRespectGracePeriod": "false",
    }


def test_a_mark_can_be_taken_back(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)
    aws.player.suspend(name, "ReplaceUnhealthy")
    cloud.set_unhealthy(instance)
    aws.player.step()

    cloud.set_healthy(instance)
    aws.player.suspend(name)
    aws.player.step()

    assert aws.player.instances(name) == [instance]


def test_marking_what_no_group_has_says_so_and_proves_nothing(cloud: AutoScaling) -> None:
    with pytest.raises(PortError, match="No managed instance found") as caught:
        cloud.set_unhealthy(NOBODY)

    assert caught.value.gone
    assert caught.value.denied is None


def test_a_pending_update_elsewhere_is_tried_again_once(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    aws.proxy.will("err:500:ResourceContention", action="autoscaling:SetInstanceHealth")

    cloud.set_unhealthy(aws.player.instances(name)[0])

    assert len(aws.proxy.of("autoscaling:SetInstanceHealth")) == 2


def test_a_group_of_an_operator_refuses_the_mark(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1, operator="eks.amazonaws.com")

    with pytest.raises(PortError) as caught:
        cloud.set_unhealthy(aws.player.instances(name)[0])

    assert caught.value.denied == "autoscaling:SetInstanceHealth"


def test_terminating_in_the_group_keeps_its_capacity(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(3)
    bad = aws.player.instances(name)[1]

    cloud.terminate(bad)
    aws.player.step()

    group = cloud.group(name, failed_since=None)
    assert group is not None
    assert group.desired == 3
    assert len(group.members) == 3
    assert bad not in {member.instance for member in group.members}
    (call,) = aws.proxy.of("autoscaling:TerminateInstanceInAutoScalingGroup")
    assert call.parameters["ShouldDecrementDesiredCapacity"] == "false"


@pytest.mark.parametrize("instance", ["", "i-", "i-123", "I-0123456789abcdef0", "i-0123456789abcdef0\n", "trn1"])
def test_what_is_no_instance_id_is_never_sent(aws: Aws, cloud: AutoScaling, instance: str) -> None:
    calls = (
        cloud.group_of,
        cloud.set_unhealthy,
        cloud.set_healthy,
        cloud.terminate,
        cloud.reboot,
        cloud.group_by_tag,
        cloud.is_terminated,
    )
    for call in calls:
        with pytest.raises(PortError, match="no instance id"):
            call(instance)

    assert not aws.proxy.calls


def test_a_group_without_a_name_is_never_asked_for(aws: Aws, cloud: AutoScaling) -> None:
    with pytest.raises(PortError):
        cloud.group("", failed_since=None)

    assert not aws.proxy.calls


def test_pages_without_end_are_no_answer(aws: Aws, cloud: AutoScaling) -> None:
    aws.player.make_group(120)

    with pytest.raises(CloudError, match="do not end"):
        list(cloud._pages("DescribeAutoScalingInstances", autoscaling._Instances))


def test_calls_are_counted_with_their_outcome(aws: Aws, cloud: AutoScaling, counted: Counter[tuple[str, str]]) -> None:
    cloud.group_of(NOBODY)
    aws.proxy.will("err:403:AccessDenied", "err:403:ExpiredToken", "200html")
    for _ in range(3):
        with pytest.raises(PortError):
            cloud.group_of(NOBODY)

    operation = "DescribeAutoScalingInstances"
    assert counted == {(operation, outcome): 1 for outcome in ("ok", "denied", "credentials", "incomplete")}


def test_one_thread_makes_the_calls_however_many_there_are(cloud: AutoScaling) -> None:
    cloud.group_of(NOBODY)
    for _ in range(20):
        cloud.group_of(NOBODY)

    assert [thread.name for thread in threading.enumerate()].count("cloud") == 1
