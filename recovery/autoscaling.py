"""Auto Scaling: read a group, mark an instance Unhealthy, and, where an operator allows it, terminate in the group.

An edge. It tells what the service says, in the service's own words, and decides nothing. Only a whole answer is one: no
error and no cut answer ever reads as "not in a group". Must never change a capacity, complete a hook, or touch a group.

Source: docs.aws.amazon.com/autoscaling/ec2/APIReference/ (API_SetInstanceHealth, API_DescribeAutoScalingInstances,
API_DescribeAutoScalingGroups, API_DescribeScalingActivities, API_TerminateInstanceInAutoScalingGroup; read 2026-11-29).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from recovery.cloud import Empty
from recovery.cloud_errors import CloudError
from recovery.ec2 import Ec2, check
from recovery.model import Group, Member

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVICE: Final = "autoscaling"
_MOST_PAGES: Final = 50
_MOST_ACTIVITY_PAGES: Final = 5  # 500 activities, newest first
_FAILED: Final = frozenset({"failed", "cancelled"})


class _Where(msgspec.Struct, frozen=True, rename="pascal"):
    instance_id: str
    auto_scaling_group_name: str


class _Instances(msgspec.Struct, frozen=True, rename="pascal"):
    auto_scaling_instances: list[_Where]
    next_token: str | None = None


class _Instance(msgspec.Struct, frozen=True, rename="pascal"):
    instance_id: str
    lifecycle_state: str
    health_status: str
    protected_from_scale_in: bool = False


class _Process(msgspec.Struct, frozen=True, rename="pascal"):
    process_name: str


class _Operator(msgspec.Struct, frozen=True, rename="pascal"):
    principal: str


class _Group(msgspec.Struct, frozen=True, rename="pascal"):
    auto_scaling_group_name: str
    desired_capacity: int
    instances: list[_Instance]
    suspended_processes: list[_Process] = []
    operator: _Operator | None = None


class _Groups(msgspec.Struct, frozen=True, rename="pascal"):
    auto_scaling_groups: list[_Group]
    next_token: str | None = None


class _Activity(msgspec.Struct, frozen=True, rename="pascal"):
    start_time: datetime
    status_code: str
    status_message: str = ""
    description: str = ""
    cause: str = ""


class _Activities(msgspec.Struct, frozen=True, rename="pascal"):
    activities: list[_Activity]
    next_token: str | None = None


_Page = TypeVar("_Page", _Instances, _Groups, _Activities)


class AutoScaling(Ec2):
    """`ports.Cloud`: groups here, single machines in `Ec2`, whose client is only made when it is needed."""

    def begin_round(self) -> None:
        """Begin a pass: all calls until the next begin end within one limit together."""
        self._rounds.begin()

    def group_of(self, instance: str) -> str | None:
        """Tell an instance's group; None = a complete answer without it.

        Raises:
            CloudError: there is no whole answer.
        """
        check(instance)
        for page in self._pages("DescribeAutoScalingInstances", _Instances, InstanceIds=[instance]):
            for each in page.auto_scaling_instances:
                if each.instance_id == instance:
                    return each.auto_scaling_group_name
        return None

    def group(self, name: str, *, failed_since: datetime | None) -> Group | None:
        """Read a group; None = a complete answer without it.

        Args:
            name: of the group.
            failed_since: read the newest failed scaling activity that began then or later, too; None = none is read.

        Raises:
            CloudError: there is no whole answer about the group. Activities only explain: a failure to read them is
                told in the group.
        """
        found = self._group(name)
        if found is None:
            return None
        failed = unread = None
        if failed_since is not None:
            try:
                failed = self._newest_failure(name, failed_since)
            except CloudError as error:
                unread = str(error)
        return Group(
            name=name,
            desired=found.desired_capacity,
            members=tuple(
                Member(
                    instance=each.instance_id,
                    state=each.lifecycle_state,
                    health=each.health_status,
                    protected=each.protected_from_scale_in,
                )
                for each in found.instances
            ),
            suspended=tuple(sorted(each.process_name for each in found.suspended_processes)),
            operator=found.operator.principal if found.operator else None,
            failed_activity=failed,
            activities_unread=unread,
        )

    def set_unhealthy(self, instance: str) -> None:
        """Mark Unhealthy, without regard to the grace period: a young instance would be refused.

        Raises:
            CloudError: unknown outcome; gone=True: the service says that no group has it, which only a read can prove.
        """
        self._set_health(instance, "Unhealthy")

    def set_healthy(self, instance: str) -> None:
        """Take the mark back.

        Raises:
            CloudError: unknown outcome.
        """
        self._set_health(instance, "Healthy")

    def terminate(self, instance: str) -> None:
        """Terminate in the group, which keeps its capacity.

        Raises:
            CloudError: unknown outcome.
        """
        check(instance)
        self._rounds.call(
            _SERVICE,
            "TerminateInstanceInAutoScalingGroup",
            Empty,
            InstanceId=instance,
            ShouldDecrementDesiredCapacity=False,
        )

    def _set_health(self, instance: str, status: str) -> None:
        check(instance)
        self._rounds.call(
            _SERVICE,
            "SetInstanceHealth",
            Empty,
            InstanceId=instance,
            HealthStatus=status,
            ShouldRespectGracePeriod=False,
        )

    def _group(self, name: str) -> _Group | None:
        if not name:
            raise CloudError("a group without a name", outcome="refused")
        for page in self._pages("DescribeAutoScalingGroups", _Groups, AutoScalingGroupNames=[name]):
            for each in page.auto_scaling_groups:
                if each.auto_scaling_group_name == name:
                    return each
        return None

    def _newest_failure(self, name: str, since: datetime) -> str | None:
        """Find the newest failed or cancelled activity; whatever filter the service applies, each is looked at."""
        newest: _Activity | None = None
        pages = self._pages(
            "DescribeScalingActivities",
            _Activities,
            most=_MOST_ACTIVITY_PAGES,
            AutoScalingGroupName=name,
            Filters=[{"Name": "StartTimeLowerBound", "Values": [f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"]}],
        )
        for page in pages:
            for each in page.activities:
                if each.status_code.lower() not in _FAILED or each.start_time < since.replace(microsecond=0):
                    continue
                if newest is None or each.start_time > newest.start_time:
                    newest = each
            if newest is not None:
                break  # newest first
        if newest is None:
            return None
        return newest.status_message or newest.description or newest.cause or newest.status_code

    def _pages(
        self, operation: str, into: type[_Page], *, most: int = _MOST_PAGES, **parameters: Any
    ) -> Iterator[_Page]:
        """Give page after page; a list that does not end is no whole answer."""
        for _ in range(most):
            page = self._rounds.call(_SERVICE, operation, into, **parameters)
            yield page
            if not page.next_token:
                return
            parameters["NextToken"] = page.next_token
        raise CloudError(f"{_SERVICE}:{operation}: the pages do not end", outcome="incomplete")
