"""What a Node object says, as far as it concerns us: read by the edge, judged by others."""

from __future__ import annotations

from datetime import datetime

import msgspec

from runtime.vocabulary import Status


class SeenCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition on the Node object, anybody's."""

    type: str
    status: Status
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_heartbeat_time: datetime | None = None


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote our conditions on a Node: the content of the annotation."""

    instance: str | None = None
    boot: str | None = None


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What the Node object says that concerns us.

    Args:
        uid: of the object.
        instance: the instance in spec.providerID; None = none there.
        owner: who wrote our conditions; None = nobody of ours.
        clear: what an operator wants cleared; None = nothing.
        conditions: all of them.
    """

    uid: str
    instance: str | None
    owner: Owner | None
    clear: str | None
    conditions: tuple[SeenCondition, ...]
