"""What can be found out where groups may not be described, as under the policy that AWS publishes: only what EC2 tells.

Depends on the ports alone. It is a way to go on, not a way to know: the group's size and the health of its other
instances stay unknown, and the budget takes that for the worst case.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from recovery.absence import Absence
from recovery.model import Way
from recovery.ports import PortError
from recovery.standing import Found
from runtime import logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from recovery.ports import Cloud

_LOG = logs.get(__name__)
_ROUNDS_APART: Final = timedelta(seconds=60)
_TRIED_AGAIN: Final = timedelta(minutes=10)
_DESCRIBES: Final = "autoscaling:Describe"


class Narrow:
    """Whether groups may be described, and what is asked if not.

    Args:
        cloud: EC2.
        check: raises PortError when nothing may be asked now.
    """

    def __init__(self, cloud: Cloud, check: Callable[[], None]) -> None:
        self._cloud = cloud
        self._check = check
        self._denied: dict[str, datetime] = {}  # since when, by action
        self._since: datetime | None = None
        self._is_said = False
        self._absence = Absence()

    def is_on(self, now: datetime) -> bool:
        """Tell whether groups may not be described; now and then that is tried again."""
        if self._since is not None and now - self._since >= _TRIED_AGAIN:
            self._since = None
        return self._since is not None

    def denied(self, action: str, now: datetime) -> None:
        """Take in that a call was denied: in two rounds a minute apart, and it is believed."""
        if not action.startswith(_DESCRIBES):
            return
        first = self._denied.setdefault(action, now)
        if now - first >= _ROUNDS_APART and self._since is None:
            self._since = now
            if not self._is_said:
                _LOG.warning("narrow mode: one node at a time, by tags of EC2", lacks=action)
            self._is_said = True

    def allowed(self, action: str) -> None:
        """Take in that a call was not denied."""
        self._denied.pop(action, None)
        if self._is_said and not self._denied:
            self._is_said = False
            _LOG.info("groups can be described again")

    def find(self, instance: str, nodegroup: str | None, now: datetime) -> Found:
        """Find an instance's group by its tag. Never raises: what failed is unknown.

        Args:
            instance: its id.
            nodegroup: the managed node group that its Node belongs to; None = none. Then it is in no group if no tag
                says so, else that is only not known.
            now: the time.
        """
        try:
            self._check()
            name = self._cloud.group_by_tag(instance)
            if name is not None:
                self._absence.forget(instance)
                return self._read(instance, name, now)
        except PortError as error:
            return _unknown(None, now, error)
        if nodegroup is not None:
            detail = f"{instance} has no tag of an Auto Scaling group, though its Node belongs to {nodegroup}"
            return Found(way=Way.NARROW, at=now, unknown=detail)
        if self._absence.is_final(instance, now):
            return Found(way=Way.NARROW, at=now, absent=True)
        return Found(way=Way.NARROW, at=now, unknown=f"{instance} has no tag of an Auto Scaling group, so far")

    def follow(self, instance: str, group: str, now: datetime) -> Found:
        """Look for an instance and for who runs in its place. Never raises: what failed is unknown."""
        try:
            self._check()
            return self._read(instance, group, now)
        except PortError as error:
            return _unknown(group, now, error)

    def _read(self, instance: str, group: str, now: datetime) -> Found:
        running = self._cloud.running_with_tag(group)
        ended = instance not in running and self._cloud.is_terminated(instance)
        return Found(way=Way.NARROW, at=now, name=group, running=running, ended=ended)


def _unknown(group: str | None, now: datetime, error: PortError) -> Found:
    return Found(way=Way.NARROW, at=now, name=group, unknown=str(error), denied=error.denied)
