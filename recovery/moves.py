"""What is known when one node's next move is decided, and what a move can be: the words of the sequence. Pure."""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import Final

import msgspec

from recovery.confirm import Judgement
from recovery.decision import Why
from recovery.model import Entry, LedgerBody, NodeFacts, Seen
from recovery.policy import Rules
from recovery.ports import DrainProgress
from recovery.standing import Found

CALL_AGAIN: Final = timedelta(seconds=30)  # a call is repeated at most this often


class Act(enum.StrEnum):
    """What is done outside after the ledger was written."""

    NONE = "none"
    FENCE = "fence"
    LIFT = "lift"
    MARK = "mark"  # SetInstanceHealth Unhealthy
    UNMARK = "unmark"  # SetInstanceHealth Healthy
    FORCE = "force"  # TerminateInstanceInAutoScalingGroup
    REBOOT = "reboot"
    RELEASE_CLAIM = "release_claim"  # delete the NodeClaim


ON_CLOUD: Final = frozenset({Act.MARK, Act.UNMARK, Act.FORCE, Act.REBOOT, Act.RELEASE_CLAIM})


class Need(enum.StrEnum):
    """What has to be found out before the move can be decided."""

    GROUP = "group"  # an answer of the last minute will do
    GROUP_NOW = "group_now"
    FOLLOW = "follow"  # the group of an entry, by the name that the entry has
    DRAIN = "drain"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Write this entry, then do this.

    Args:
        blocks_group: why the entry's group is blocked from now on, instead of writing the entry; None = it is not.
    """

    entry: Entry
    act: Act = Act.NONE
    detail: str = ""
    blocks_group: str | None = None


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Do nothing now.

    Args:
        blocked: somebody or something refuses it; else it is just not time yet.
        until: see Decision.
        unmade: the last call was certainly not made; whoever made it may know why.
    """

    why: Why
    detail: str = ""
    until: datetime | None = None
    blocked: bool = False
    unmade: bool = False


Move = Step | Wait | Need


class View(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one node in this pass.

    Args:
        seen: its detector's word; None = blind or not listed.
        facts: its Node; None = not read, or gone.
        is_gone: there is no such Node.
        unread: why the Node could not be read; None = it was, or it is gone.
        judgement: what follows from both.
        found: its group; None = not asked yet.
        progress: of the drain; None = not asked yet.
        drain_trouble: why it could not be asked.
    """

    node: str
    seen: Seen | None
    facts: NodeFacts | None
    is_gone: bool
    unread: str | None
    judgement: Judgement
    found: Found | None = None
    progress: DrainProgress | None = None
    drain_trouble: str | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all nodes of a pass.

    Args:
        paused: why; None = not.
        fleet: how many nodes have a detector; None = unknown.
    """

    rules: Rules
    body: LedgerBody
    paused: str | None
    fleet: int | None
    now: datetime
