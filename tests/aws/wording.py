"""Has moto answer Auto Scaling's calls as AWS does, where the two differ; the player acts on them.

The texts of errors are those of public reports: AWS documents none of them.

Source: aws/aws-cli#171 (grace period), many reports of `No managed instance found`, boto/boto#3620 (HEALTHY); botocore
1.44.8, autoscaling (read 2026-11-29).
"""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from unittest import mock

from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult, EmptyResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moto.autoscaling.models import InstanceState

    from tests.aws.player import Player

_INSTANCE_ID = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")
_LEAVING = ("Terminating", "Terminated", "Detaching", "Detached")


@contextlib.contextmanager
def spoken_by(player: Player, page: int = 50) -> Iterator[None]:
    """Have this process' moto speak for a player.

    Args:
        player: whose groups they are.
        page: how many elements an answer holds at most, where AWS pages.
    """
    wording = _Wording(player, page)
    handlers = {
        "describe_auto_scaling_instances": wording.describe_instances,
        "describe_auto_scaling_groups": wording.describe_groups,
        "describe_scaling_activities": wording.describe_activities,
        "set_instance_health": wording.set_health,
        "terminate_instance_in_auto_scaling_group": wording.terminate,
    }
    with contextlib.ExitStack() as stack:
        for name, handler in handlers.items():
            stack.enter_context(mock.patch.object(AutoScalingResponse, name, _method(handler, player)))
        yield


def _method(handler: Any, player: Player) -> Any:
    def method(response: AutoScalingResponse) -> object:
        try:
            with player.lock:
                answer: object = handler(response._get_params())
        except _DeniedError as denied:
            error = f"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>{denied}</Message></Error>"
            return f"<ErrorResponse>{error}<RequestId>0</RequestId></ErrorResponse>", {"status": 403}
        return answer

    return method


class _DeniedError(Exception):
    """Moto's model of Auto Scaling has no such error."""


class _Wording:
    def __init__(self, player: Player, page: int) -> None:
        self._player = player
        self._page = page

    def describe_instances(self, asked: dict[str, Any]) -> ActionResult:
        ids = asked.get("InstanceIds") or []
        if len(ids) > 50:
            raise ValidationError("The number of instance ids that may be passed in is limited to 50")
        found = [
            {
                "InstanceId": member.instance_id,
                "InstanceType": member.instance_type,
                "AutoScalingGroupName": member.auto_scaling_group_name,
                "AvailabilityZone": member.availability_zone,
                "LifecycleState": member.lifecycle_state,
                "HealthStatus": member.health_status.upper(),
                "ProtectedFromScaleIn": bool(member.protected_from_scale_in),
            }
            for member in self._player.members()
            if not ids or member.instance_id in ids
        ]
        return self._paged("AutoScalingInstances", found, asked)

    def describe_groups(self, asked: dict[str, Any]) -> ActionResult:
        names = asked.get("AutoScalingGroupNames") or []
        found = [self._group(name) for name in self._player.names() if not names or name in names]
        return self._paged("AutoScalingGroups", found, asked)

    def describe_activities(self, asked: dict[str, Any]) -> ActionResult:
        filters = {each["Name"]: each["Values"] for each in asked.get("Filters") or []}
        since = datetime.fromisoformat(filters.get("StartTimeLowerBound", ["1970-01-01T00:00:00Z"])[0])
        found = [
            each
            for each in self._player.activities
            if each["AutoScalingGroupName"] == asked.get("AutoScalingGroupName") and each["StartTime"] >= since
        ]
        return self._paged("Activities", found, asked)

    def set_health(self, asked: dict[str, Any]) -> ActionResult:
        member = self._member(asked["InstanceId"])
        if asked["HealthStatus"].lower() not in ("healthy", "unhealthy"):
            raise ValidationError("Valid instance health states are: [Healthy, Unhealthy].")
        grace = self._player.manner(member.auto_scaling_group_name).grace_seconds
        age = self._player.age_seconds(member.instance_id)
        if age < grace and asked.get("ShouldRespectGracePeriod", True):
            raise ValidationError(
                f"The age of the instance ({age:.0f} seconds) is less than the configured grace period of "
                f"{grace:.0f} seconds"
            )
        member.health_status = asked["HealthStatus"].capitalize()
        return EmptyResult()

    def terminate(self, asked: dict[str, Any]) -> ActionResult:
        member = self._member(asked["InstanceId"], is_leaving_fine=True)
        group = self._player.group(member.auto_scaling_group_name)
        if asked["ShouldDecrementDesiredCapacity"]:
            group.desired_capacity = (group.desired_capacity or 0) - 1
        is_retained = member.lifecycle_state == "Terminating:Retained"
        activity = self._player.begin_terminating(member)
        if is_retained:
            self._player.end(member)
        return ActionResult({"Activity": activity})

    def _member(self, instance: str, *, is_leaving_fine: bool = False) -> InstanceState:
        member = self._player.member(instance) if _INSTANCE_ID.fullmatch(instance) else None
        if member is None or (not is_leaving_fine and member.lifecycle_state.startswith(_LEAVING)):
            raise ValidationError(f"Instance Id not found - No managed instance found for instance ID: {instance}")
        if operator := self._player.manner(member.auto_scaling_group_name).operator:
            raise _DeniedError(f"Only {operator} may change this group")
        return member

    def _group(self, name: str) -> dict[str, Any]:
        group, operator = self._player.group(name), self._player.manner(name).operator
        answer: dict[str, Any] = {
            "AutoScalingGroupName": name,
            "MinSize": group.min_size,
            "MaxSize": group.max_size,
            "DesiredCapacity": group.desired_capacity,
            "DefaultCooldown": 300,
            "AvailabilityZones": group.availability_zones,
            "HealthCheckType": "EC2",
            "CreatedTime": self._player.clock.now(),
            "SuspendedProcesses": [
                {"ProcessName": each["ProcessName"], "SuspensionReason": "User suspended at 2026-11-29T10:00:00Z"}
                for each in group.suspended_processes
            ],
            "Tags": [],
            "Instances": [
                {
                    "InstanceId": member.instance_id,
                    "InstanceType": member.instance_type,
                    "AvailabilityZone": member.availability_zone,
                    "LifecycleState": member.lifecycle_state,
                    "HealthStatus": member.health_status,
                    "ProtectedFromScaleIn": bool(member.protected_from_scale_in),
                }
                for member in group.instance_states
            ],
        }
        return answer | ({"Operator": {"Principal": operator}} if operator else {})

    def _paged(self, key: str, found: list[Any], asked: dict[str, Any]) -> ActionResult:
        start = int(asked.get("NextToken") or 0)
        answer: dict[str, Any] = {key: found[start : start + self._page]}
        if len(found) > start + self._page:
            answer["NextToken"] = str(start + self._page)
        return ActionResult(answer)
