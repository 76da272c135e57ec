"""Why a replacement does not come, in one word for alarms, and in the group's own words for people. Pure.

Source: EC2 Auto Scaling user guide, "Troubleshoot Amazon EC2 Auto Scaling: EC2 instance launch failures", and EC2 API
error codes InsufficientInstanceCapacity, ReservationCapacityExceeded, VcpuLimitExceeded, InstanceLimitExceeded (read
2026-11-29). Texts are not an interface: what is not recognized is `other`, with the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from recovery.decision import Kind
from recovery.standing import blocks_launch, blocks_mark, is_in_service, is_marked, member_of

if TYPE_CHECKING:
    from recovery.model import Entry, Group, Member
    from recovery.standing import Found

# In this order: "You have requested more vCPU capacity than your current vCPU limit of 32 allows" is a limit.
_WORDS: Final = (
    (Kind.LIMIT, re.compile(r"limit|quota|MaxSpotInstanceCountExceeded", re.IGNORECASE)),
    (Kind.CAPACITY, re.compile(r"capacity", re.IGNORECASE)),
    (
        Kind.TEMPLATE,
        re.compile(
            r"template|launch configuration|\bAMI\b|\bimage\b|security group|key ?pair|subnet|instance profile"
            r"|not (?:authorized|supported)|unsupported|invalid|does not exist|malformed",
            re.IGNORECASE,
        ),
    ),
)
_WAITS_FOR_HOOK: Final = ("terminating:wait", "pending:wait")


def hindrance(entry: Entry, found: Found) -> tuple[Kind, str]:
    """Name what holds a replacement up.

    Args:
        entry: whose replacement has taken too long.
        found: its group now, with failed activities since.

    Returns:
        The kind, and the words for it; "" = there are none.
    """
    group = found.group
    if group is None:
        return Kind.OTHER, ""
    words = group.failed_activity or ""
    suspended = blocks_mark(group) + (["Launch"] if blocks_launch(group) else [])
    if suspended:
        return Kind.SUSPENDED, f"{', '.join(suspended)} suspended in {group.name}"
    waiting = _waiting_for_hook(entry, group)
    if waiting is not None:
        return Kind.HOOK, f"{waiting.instance} is {waiting.state}: a lifecycle hook of {group.name} is waited for"
    member = member_of(group, entry.instance)
    if member is not None and is_marked(member) and is_in_service(member):
        return Kind.LAUNCH_FIRST_NO_SPARE, words or f"{group.name} launches first, and nothing new is in service"
    if words or group.activities_unread is None:
        return _by_words(words), words
    known = next((kind for kind, _ in _WORDS if kind == entry.kind), Kind.OTHER)  # nothing says that it is another now
    return known, f"scaling activities could not be read: {group.activities_unread}"


def _waiting_for_hook(entry: Entry, group: Group) -> Member | None:
    """Find the old or a new instance that waits for a lifecycle hook."""
    old = set(entry.members) - {entry.instance}
    for member in group.members:
        if member.state.lower() in _WAITS_FOR_HOOK and member.instance not in old:
            return member
    return None


def _by_words(words: str) -> Kind:
    return next((kind for kind, pattern in _WORDS if pattern.search(words)), Kind.OTHER)
