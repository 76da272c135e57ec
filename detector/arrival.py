"""What a Node object, met at the start, tells about this machine's past. Pure.

A verdict belongs to an instance, not to a node name: names are reused, and a new machine can find the old Node object
with the old condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from detector.model import Announcement, Condition
from runtime.vocabulary import ACCELERATED_HARDWARE_READY, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from detector.model import NodeSeen, SeenCondition

OUR_MARK = "(chipwarden-detector)"  # in the message of AcceleratedHardwareReady, to know our own again


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with what was found.

    Args:
        adopt: conditions that this instance published before.
        predecessor: the instance whose True condition stands there; None = there is none such.
        ready_is_foreign: another agent owns AcceleratedHardwareReady.
    """

    adopt: tuple[Condition, ...]
    predecessor: str | None
    ready_is_foreign: bool


def arrive(seen: NodeSeen, *, instance: str | None, kinds: Collection[str], now: datetime) -> Arrival:
    """Decide whose the conditions on the Node are.

    Args:
        seen: the Node.
        instance: our own id; None = unknown. Two unknown ones count as the same.
        kinds: our condition types.
        now: stands in for times that the Node does not tell.
    """
    wrote = seen.owner.instance if seen.owner else None
    own = tuple(_condition(condition, now) for condition in seen.conditions if condition.type in kinds)
    faulty = any(condition.status is Status.TRUE for condition in own)
    ready = [condition for condition in seen.conditions if condition.type == ACCELERATED_HARDWARE_READY]
    return Arrival(
        adopt=own if wrote == instance else (),
        predecessor=(wrote or "unknown") if wrote != instance and faulty else None,
        ready_is_foreign=any(OUR_MARK not in condition.message for condition in ready),
    )


def predecessor_cleared(predecessor: str, instance: str | None, now: datetime) -> Announcement:
    """Say that another machine's fault no longer stands on this Node."""
    return Announcement(
        reason=Reason.PREDECESSOR_CLEARED,
        message=f"the fault on this Node was of instance {predecessor}; this is {instance or 'another one'}",
        warning=False,
        key=f"{Reason.PREDECESSOR_CLEARED} {predecessor}",
        at=now,
    )


def _condition(seen: SeenCondition, now: datetime) -> Condition:
    return Condition(
        type=seen.type,
        status=seen.status,
        reason=seen.reason,
        message=seen.message,
        last_transition_at=seen.last_transition_time or now,
        last_heartbeat_at=seen.last_heartbeat_time or now,
    )
