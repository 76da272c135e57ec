"""The stand-in for Auto Scaling: it has to behave as AWS' documentation says, or tests against it prove nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from tests.aws.surroundings import Aws

if TYPE_CHECKING:
    from recovery.autoscaling import AutoScaling
    from tests.aws.clock import SteppedClock


def states(aws: Aws, name: str) -> list[str]:
    """Tell the states of a group's members, oldest first, those marked with a star."""
    return [
        member.lifecycle_state + "*" * (member.health_status == "Unhealthy")
        for member in aws.player.group(name).instance_states
    ]


def test_nothing_happens_to_a_healthy_group(aws: Aws, clock: SteppedClock) -> None:
    name = aws.player.make_group(3)
    before = aws.player.instances(name)

    clock.step(86_400)
    aws.player.step()

    assert aws.player.instances(name) == before
    assert not aws.player.activities


def test_a_marked_instance_goes_first_and_its_replacement_comes_meanwhile(
    aws: Aws, clock: SteppedClock, cloud: AutoScaling
) -> None:
    gone: list[str] = []
    aws.player.on_gone = gone.append
    aws.proxy.asked.is_narrow = True
    name = aws.player.make_group(2, terminate_seconds=60, launch_seconds=90)
    bad = aws.player.instances(name)[0]

    cloud.set_unhealthy(bad)
    assert states(aws, name) == ["InService*", "InService"]
    aws.player.step()
    assert states(aws, name) == ["Terminating*", "InService", "Pending"]
    clock.step(60)
    aws.player.step()
    assert states(aws, name) == ["InService", "Pending"]
    assert gone == [bad]
    assert cloud.is_terminated(bad)
    clock.step(30)
    aws.player.step()
    assert states(aws, name) == ["InService", "InService"]
    assert aws.player.activities[-1]["Description"] == f"Terminating EC2 instance: {bad}"
    assert "user health-check" in aws.player.activities[-1]["Cause"]
    assert {activity["StatusCode"] for activity in aws.player.activities} == {"Successful"}


def test_launch_first_keeps_the_marked_instance_until_the_new_one_is_in_service(
    aws: Aws, clock: SteppedClock, cloud: AutoScaling
) -> None:
    name = aws.player.make_group(1, launch_first=True, launch_seconds=90)
    cloud.set_unhealthy(aws.player.instances(name)[0])

    aws.player.step()
    assert states(aws, name) == ["InService*", "Pending"]
    clock.step(90)
    aws.player.step()
    assert states(aws, name) == ["InService"]


def test_launch_first_without_a_free_slot_is_stuck_until_there_is_one(
    aws: Aws, clock: SteppedClock, cloud: AutoScaling
) -> None:
    name = aws.player.make_group(1, launch_first=True, slots=1)
    bad = aws.player.instances(name)[0]
    cloud.set_unhealthy(bad)
    for _ in range(3):
        aws.player.step()
        clock.step(60)

    assert states(aws, name) == ["InService*"]
    assert [activity["StatusCode"] for activity in aws.player.activities] == ["Failed"] * 3
    aws.player.manner(name).slots = 2
    aws.player.step()
    assert states(aws, name) == ["InService"]
    assert aws.player.instances(name) != [bad]


def test_the_first_launch_into_a_full_block_fails_and_a_later_one_does_not(
    aws: Aws, clock: SteppedClock, cloud: AutoScaling
) -> None:
    name = aws.player.make_group(2, slots=2, terminate_seconds=100)
    cloud.set_unhealthy(aws.player.instances(name)[0])
    aws.player.step()
    assert states(aws, name) == ["Terminating*", "InService"]
    assert aws.player.activities[0]["StatusMessage"].startswith("We currently do not have sufficient")

    clock.step(100)
    aws.player.step()

    assert states(aws, name) == ["InService", "InService"]


def test_a_hook_holds_the_old_instance_beside_the_new_one(aws: Aws, clock: SteppedClock, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1, hook_seconds=1800)
    cloud.set_unhealthy(aws.player.instances(name)[0])
    aws.player.step()
    assert states(aws, name) == ["Terminating:Wait*", "InService"]

    clock.step(1799)
    aws.player.step()
    assert states(aws, name) == ["Terminating:Wait*", "InService"]
    clock.step(1)
    aws.player.step()

    assert states(aws, name) == ["InService"]


def test_a_retained_instance_stays_until_somebody_ends_it(aws: Aws, clock: SteppedClock, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1, hook_seconds=30, is_retained=True)
    bad = aws.player.instances(name)[0]
    cloud.set_unhealthy(bad)
    aws.player.step()
    clock.step(86_400)
    aws.player.step()
    assert states(aws, name) == ["Terminating:Retained*", "InService"]

    cloud.terminate(bad)
    aws.player.step()

    assert states(aws, name) == ["InService"]


def test_a_hook_holds_a_new_instance_too(aws: Aws, clock: SteppedClock, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1, launch_hook_seconds=300)
    cloud.set_unhealthy(aws.player.instances(name)[0])
    aws.player.step()
    assert states(aws, name) == ["Pending:Wait"]

    clock.step(300)
    aws.player.step()

    assert states(aws, name) == ["InService"]


@pytest.mark.parametrize(
    ("process", "found"),
    [
        ("ReplaceUnhealthy", ["InService*", "InService"]),
        ("Terminate", ["InService*", "InService"]),
        ("Launch", ["InService"]),
        ("HealthCheck", ["InService", "InService"]),
    ],
)
def test_suspended_processes_are_heeded_and_made_up_for_on_resume(
    aws: Aws, cloud: AutoScaling, process: str, found: list[str]
) -> None:
    name = aws.player.make_group(2)
    bad = aws.player.instances(name)[0]
    aws.player.suspend(name, process)
    cloud.set_unhealthy(bad)
    aws.player.step()
    assert states(aws, name) == found

    aws.player.suspend(name)
    aws.player.step()

    assert states(aws, name) == ["InService", "InService"]
    assert bad not in aws.player.instances(name)


def test_a_mark_in_standby_goes_off_later(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    (bad,) = aws.player.instances(name)
    aws.player.set_state(bad, "Standby")
    aws.player.group(name).desired_capacity = 0
    cloud.set_unhealthy(bad)
    aws.player.step()
    assert states(aws, name) == ["Standby*"]

    aws.player.set_state(bad, "InService")
    aws.player.group(name).desired_capacity = 1
    aws.player.step()

    assert bad not in aws.player.instances(name)


def test_protection_from_scale_in_does_not_save_a_marked_instance(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    (bad,) = aws.player.instances(name)
    member = aws.player.member(bad)
    assert member is not None
    member.protected_from_scale_in = True

    cloud.set_unhealthy(bad)
    aws.player.step()

    assert bad not in aws.player.instances(name)


def test_a_young_instance_is_refused_where_the_grace_period_is_respected(aws: Aws, clock: SteppedClock) -> None:
    name = aws.player.make_group(1, grace_seconds=1500)
    (young,) = aws.player.instances(name)
    client: Any = botocore.session.Session().create_client("autoscaling", region_name="us-east-1")
    clock.step(986)

    with pytest.raises(ClientError, match=r"age of the instance \(986 seconds\) is less than the configured grace"):
        client.set_instance_health(InstanceId=young, HealthStatus="Unhealthy")

    clock.step(1000)
    client.set_instance_health(InstanceId=young, HealthStatus="Unhealthy")
    assert states(aws, name) == ["InService*"]


def test_marking_what_is_already_going_is_refused(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1, terminate_seconds=60)
    (bad,) = aws.player.instances(name)
    cloud.set_unhealthy(bad)
    cloud.set_unhealthy(bad)  # the same mark again harms nothing
    aws.player.step()

    with pytest.raises(Exception, match="No managed instance found"):
        cloud.set_unhealthy(bad)


def test_by_the_machines_clock_it_plays_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.aws.surroundings import set_environment
    from tests.aws.test_cloudwatch import until

    with Aws() as aws:
        set_environment(monkeypatch, aws)
        name = aws.player.make_group(1)
        (bad,) = aws.player.instances(name)
        member = aws.player.member(bad)
        assert member is not None
        member.health_status = "Unhealthy"

        until(lambda: aws.player.instances(name) not in ([], [bad]))
