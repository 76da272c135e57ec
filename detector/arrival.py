"""What a Node object, met at the start, tells about this machine's past. Pure.

A verdict belongs to an instance, not to a node name: names are reused, and a new machine can find the old Node object
with the old condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from detector.model import Announcement, Condition
from runtime.vocabulary import ACCELERATED_HARDWARE_READY, OUR_MARK, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from detector.seen import NodeSeen, SeenCondition


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with what was found.

    Args:
        adopt: conditions that this instance published before.
        ready: AcceleratedHardwareReady as this instance published it before; None = it did not.
        predecessor: the instance whose True condition stands there; None = there is none such.
        ready_is_foreign: another agent owns AcceleratedHardwareReady.
    """

    adopt: tuple[Condition, ...]
    ready: Condition | None
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
    is_ours = wrote == instance
    own = tuple(_condition(condition, now) for condition in seen.conditions if condition.type in kinds)
    faulty = any(condition.status is Status.TRUE for condition in own)
    ready = next((_condition(each, now) for each in seen.conditions if each.type == ACCELERATED_HARDWARE_READY), None)
    is_foreign = ready is not None and OUR_MARK not in ready.message
    return Arrival(
        adopt=own if is_ours else (),
        ready=ready if is_ours and not is_foreign else None,
        predecessor=(wrote or "unknown") if not is_ours and faulty else None,
        ready_is_foreign=is_foreign,
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
