"""A stand-in for what Auto Scaling does after a call: moto stores the mark on an instance and then does nothing.

It plays groups on moto's own state, in this process, by a clock that a test steps (or by the machine's, in a thread):
replaces Unhealthy instances that are InService, in both orders, with delays; heeds suspended processes, lifecycle
hooks, the grace period, capacity, and a policy that retains instances; records scaling activities. `wording.py` has the
calls answered as AWS does where moto differs. Both are made from AWS' documentation and public reports, not from AWS.

Source: docs.aws.amazon.com/autoscaling/ec2/userguide/ (ec2-auto-scaling-health-checks, lifecycle-hooks-overview,
as-suspend-resume-processes, instance-maintenance-policy-overview-and-considerations, instance-lifecycle-policy;
read 2026-11-29).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import uuid
from typing import TYPE_CHECKING, Any

from moto.autoscaling.models import autoscaling_backends
from moto.core.models import DEFAULT_ACCOUNT_ID

from runtime.clock import SystemClock
from tests.aws.groups import make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from moto.autoscaling.models import FakeAutoScalingGroup, InstanceState

    from runtime.clock import Clock

REGION = "us-east-1"
NO_CAPACITY = (
    "We currently do not have sufficient trn1.32xlarge capacity in the Availability Zone you requested (us-east-1a). "
    "Launching EC2 instance failed."
)
_ACTIVE = ("InService", "Pending", "Pending:Wait", "Pending:Proceed")
_TICK_SECONDS = 0.05
_numbers = itertools.count(1)


@dataclasses.dataclass(kw_only=True)
class Manner:
    """How a group behaves; may be changed at any time.

    Args:
        launch_first: a replacement must be healthy before the bad instance goes (maintenance policy of 100 %).
        launch_seconds: from Pending to InService.
        terminate_seconds: from Terminating, or the end of the hook, to gone.
        hook_seconds: how long a hook holds an instance in Terminating:Wait; None = no hook.
        launch_hook_seconds: the same for Pending:Wait.
        is_retained: the hook was abandoned, and instances are then kept in Terminating:Retained.
        grace_seconds: the health check grace period.
        slots: how many instances there can be at a time, those on their way out included; None = any number.
        failure: what a launch without a free slot fails with.
        retry_seconds: from a failed launch to the next.
        operator: the service that alone may change the group.
    """

    launch_first: bool = False
    launch_seconds: float = 0.0
    terminate_seconds: float = 0.0
    hook_seconds: float | None = None
    launch_hook_seconds: float | None = None
    is_retained: bool = False
    grace_seconds: float = 0.0
    slots: int | None = None
    failure: str = NO_CAPACITY
    retry_seconds: float = 60.0
    operator: str | None = None


class Player:
    """Plays the groups of one Region.

    Args:
        clock: by which it plays.
        on_gone: called with an instance's id when it is gone, as a cloud controller would then remove its Node.
    """

    def __init__(self, clock: Clock | None = None, on_gone: Callable[[str], None] = lambda _: None) -> None:
        self.lock = threading.RLock()
        self.clock = clock or SystemClock()
        self.on_gone = on_gone
        self.activities: list[dict[str, Any]] = []  # newest first
        self._backend = autoscaling_backends[DEFAULT_ACCOUNT_ID][REGION]
        self._manners: dict[str, Manner] = {}
        self._since: dict[str, float] = {}  # by instance: when its state began
        self._born: dict[str, float] = {}
        self._replaced_by: dict[str, str] = {}  # launch first
        self._not_before: dict[str, float] = {}

    def make_group(self, size: int, *, name: str = "", tags: dict[str, str] | None = None, **manner: Any) -> str:
        """Make a group whose instances are InService and Healthy; return its name."""
        with self.lock:
            name = name or f"trn-{next(_numbers)}"
            make(self._backend, name, size, tags or {})
            self._manners[name] = Manner(**manner)
            for instance in self.instances(name):
                self._born[instance] = self.clock.monotonic()
            return name

    def manner(self, name: str) -> Manner:
        """Tell how a group behaves, to change it."""
        return self._manners[name]

    def instances(self, name: str) -> list[str]:
        """List the instances of a group, oldest first."""
        return [member.instance_id for member in self.group(name).instance_states]

    def group(self, name: str) -> FakeAutoScalingGroup:
        """Give moto's own object."""
        return self._backend.autoscaling_groups[name]

    def names(self) -> list[str]:
        """List the groups."""
        return list(self._manners)

    def members(self) -> list[InstanceState]:
        """List the instances of all groups, as moto's own objects."""
        return [member for group in self._groups() for member in group.instance_states]

    def member(self, instance: str) -> InstanceState | None:
        """Find an instance in whichever group has it."""
        return next((member for member in self.members() if member.instance_id == instance), None)

    def set_state(self, instance: str, state: str) -> None:
        """Put an instance into a lifecycle state; any text."""
        member = self.member(instance)
        assert member is not None
        member.lifecycle_state = state
        self._since[instance] = self.clock.monotonic()

    def suspend(self, name: str, *processes: str) -> None:
        """Suspend processes of a group; none = resume all."""
        self.group(name)._suspended_processes = list(processes)

    def age_seconds(self, instance: str) -> float:
        """Tell how old an instance is."""
        return self.clock.monotonic() - self._born[instance]

    def step(self) -> None:
        """Do what is due by now, until nothing more is."""
        with self.lock:
            for group in self._groups():
                while self._step(group, self._manners[group.name]):
                    pass

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Play by itself, in a thread."""
        ended = threading.Event()

        def play() -> None:
            while not ended.wait(_TICK_SECONDS):
                self.step()

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def close(self) -> None:
        """Take the groups away."""
        with self.lock:
            for name in self._manners:
                self._backend.autoscaling_groups.pop(name, None)

    def begin_terminating(self, member: InstanceState) -> dict[str, Any]:
        """Have an instance begin to go, and record it."""
        manner = self._manners[member.auto_scaling_group_name]
        self.set_state(member.instance_id, "Terminating" if manner.hook_seconds is None else "Terminating:Wait")
        cause = "an instance was taken out of service in response to a user health-check."
        return self._record(member.auto_scaling_group_name, f"Terminating EC2 instance: {member.instance_id}", cause)

    def end(self, member: InstanceState) -> None:
        """Have an instance be gone: out of the group, terminated in EC2."""
        group = self.group(member.auto_scaling_group_name)
        group.instance_states = [each for each in group.instance_states if each is not member]
        group.ec2_backend.terminate_instances([member.instance_id])
        for activity in self.activities:
            if activity["Description"].endswith(member.instance_id) and activity["StatusCode"] == "InProgress":
                activity |= {"StatusCode": "Successful", "Progress": 100, "EndTime": self.clock.now()}
        self.on_gone(member.instance_id)

    def _groups(self) -> list[FakeAutoScalingGroup]:
        return [self.group(name) for name in self._manners]

    def _step(self, group: FakeAutoScalingGroup, manner: Manner) -> bool:
        """Take one step; tell whether there was one to take."""
        suspended = {each["ProcessName"] for each in group.suspended_processes}
        return (
            any(self._move(member, manner) for member in list(group.instance_states))
            or ("ReplaceUnhealthy" not in suspended and self._replace(group, manner, suspended))
            or ("Launch" not in suspended and self._fill(group, manner))
        )

    def _move(self, member: InstanceState, manner: Manner) -> bool:
        """Move an instance on whose time in its state is over."""
        waits: dict[str, tuple[float | None, str]] = {
            "Pending": (manner.launch_seconds, "InService" if manner.launch_hook_seconds is None else "Pending:Wait"),
            "Pending:Wait": (manner.launch_hook_seconds, "InService"),
            "Terminating:Wait": (
                manner.hook_seconds,
                "Terminating:Retained" if manner.is_retained else "Terminating:Proceed",
            ),
            "Terminating:Proceed": (manner.terminate_seconds, ""),
            "Terminating": (manner.terminate_seconds, ""),
        }
        seconds, state = waits.get(member.lifecycle_state, (None, ""))
        began = self._since.get(member.instance_id, self._born[member.instance_id])
        if seconds is None or self.clock.monotonic() - began < seconds:
            return False
        if state:
            self.set_state(member.instance_id, state)
        else:
            self.end(member)
        return True

    def _replace(self, group: FakeAutoScalingGroup, manner: Manner, suspended: set[str]) -> bool:
        """Begin to replace an Unhealthy instance that is InService; any other state is left alone."""
        for member in group.instance_states:
            if member.lifecycle_state != "InService" or member.health_status.lower() != "unhealthy":
                continue
            if manner.launch_first and not self._is_replaced(member):
                if "Launch" in suspended or member.instance_id in self._replaced_by:
                    continue
                if launched := self._launch(group, manner):
                    self._replaced_by[member.instance_id] = launched
                    return True
            elif "Terminate" not in suspended:
                self.begin_terminating(member)
                return True
        return False

    def _is_replaced(self, member: InstanceState) -> bool:
        other = self.member(self._replaced_by.get(member.instance_id, ""))
        return other is not None and other.lifecycle_state == "InService"

    def _fill(self, group: FakeAutoScalingGroup, manner: Manner) -> bool:
        """Launch what is missing to the desired capacity."""
        active = sum(member.lifecycle_state in _ACTIVE for member in group.instance_states)
        return active < (group.desired_capacity or 0) and self._launch(group, manner) is not None

    def _launch(self, group: FakeAutoScalingGroup, manner: Manner) -> str | None:
        """Launch an instance, or fail and say so."""
        now = self.clock.monotonic()
        if now < self._not_before.get(group.name, now):
            return None
        if manner.slots is not None and len(group.instance_states) >= manner.slots:
            self._not_before[group.name] = now + manner.retry_seconds
            activity = self._record(group.name, f"Launching a new EC2 instance.  Status Reason: {manner.failure}", "")
            activity |= {"StatusCode": "Failed", "StatusMessage": manner.failure, "EndTime": self.clock.now()}
            return None
        group.replace_autoscaling_group_instances(1, group.get_propagated_tags())
        member = group.instance_states[-1]
        self._born[member.instance_id] = now
        self.set_state(member.instance_id, "Pending")
        activity = self._record(group.name, f"Launching a new EC2 instance: {member.instance_id}", "")
        activity |= {"StatusCode": "Successful", "Progress": 100, "EndTime": self.clock.now()}
        return member.instance_id

    def _record(self, name: str, description: str, cause: str) -> dict[str, Any]:
        now: datetime = self.clock.now()
        activity: dict[str, Any] = {
            "ActivityId": str(uuid.uuid4()),
            "AutoScalingGroupName": name,
            "Description": description,
            "Cause": f"At {now:%Y-%m-%dT%H:%M:%SZ} {cause or 'an instance was launched.'}",
            "StartTime": now,
            "StatusCode": "InProgress",
            "Progress": 50,
        }
        self.activities.insert(0, activity)
        return activity
