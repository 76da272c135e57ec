"""EC2: reboot an instance; and look at instances where permissions do not reach Auto Scaling (narrow mode).

An edge. The SDK's model of EC2 costs 18 MB, so nothing here may be called unless it is needed. A reboot is not
idempotent, so that it is sent once: only the boot id tells what came of it.

Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/ (API_DescribeInstances, API_RebootInstances; read 2026-11-29).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from recovery.cloud import Empty
from recovery.cloud_errors import CloudError
from runtime.identity import is_instance_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recovery.cloud import Rounds

GROUP_TAG: Final = "aws:autoscaling:groupName"
_TURNED_AWAY: Final = frozenset({"throttled", "credentials", "denied"})  # nobody has looked at the request itself
_MOST_PAGES: Final = 50
_PAGE: Final = 100
_WILDCARDS = re.compile(r"([*?\\])")


class _State(msgspec.Struct, frozen=True, rename="pascal"):
    name: str


class _Tag(msgspec.Struct, frozen=True, rename="pascal"):
    key: str
    value: str


class _Instance(msgspec.Struct, frozen=True, rename="pascal"):
    instance_id: str
    state: _State
    tags: list[_Tag] = []

    @property
    def group(self) -> str | None:
        return next((tag.value for tag in self.tags if tag.key == GROUP_TAG), None)


class _Reservation(msgspec.Struct, frozen=True, rename="pascal"):
    instances: list[_Instance]


class _Instances(msgspec.Struct, frozen=True, rename="pascal"):
    reservations: list[_Reservation]
    next_token: str | None = None

    def __iter__(self) -> Iterator[_Instance]:
        for reservation in self.reservations:
            yield from reservation.instances


class Ec2:
    """The part of `ports.Cloud` that speaks to EC2.

    Args:
        rounds: makes the calls.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    def reboot(self, instance: str) -> None:
        """Reboot, one attempt.

        Raises:
            CloudError: it may have been rebooted all the same; unsent=True: certainly not, as when it was throttled.
        """
        check(instance)
        try:
            self._rounds.call("ec2", "RebootInstances", Empty, attempts=1, InstanceIds=[instance])
        except CloudError as error:
            error.unsent |= error.outcome in _TURNED_AWAY
            raise

    def group_by_tag(self, instance: str) -> str | None:
        """Tell the group from the instance's own tag; None = no such tag.

        Raises:
            CloudError: gone=True: EC2 does not know the instance.
        """
        return self._instance(instance).group

    def running_with_tag(self, group: str) -> frozenset[str]:
        """List running instances that bear the group's tag.

        A filter takes wildcards, so that the name is quoted and each answer looked at again.

        Raises:
            CloudError: there is no whole answer.
        """
        filters = [
            {"Name": f"tag:{GROUP_TAG}", "Values": [_WILDCARDS.sub(r"\\\1", group)]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        found: set[str] = set()
        more: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            page = self._rounds.call("ec2", "DescribeInstances", _Instances, Filters=filters, MaxResults=_PAGE, **more)
            found.update(each.instance_id for each in page if each.group == group and each.state.name == "running")
            if not page.next_token:
                return frozenset(found)
            more = {"NextToken": page.next_token}
        raise CloudError("ec2:DescribeInstances: the pages do not end", outcome="incomplete")

    def is_terminated(self, instance: str) -> bool:
        """Tell whether the instance is terminated, or EC2 no longer knows it.

        Raises:
            CloudError: there is no whole answer.
        """
        try:
            return self._instance(instance).state.name == "terminated"
        except CloudError as error:
            if error.gone:
                return True
            raise

    def _instance(self, instance: str) -> _Instance:
        check(instance)
        page = self._rounds.call("ec2", "DescribeInstances", _Instances, InstanceIds=[instance])
        for each in page:
            if each.instance_id == instance:
                return each
        raise CloudError("ec2:DescribeInstances: an answer without the instance", outcome="incomplete")


def check(instance: str) -> None:
    """Refuse what is no instance id: an empty one makes some calls speak of all instances.

    Raises:
        CloudError: nothing was asked.
    """
    if not is_instance_id(instance):
        raise CloudError(f"{instance[:40]!r} is no instance id", outcome="refused")
