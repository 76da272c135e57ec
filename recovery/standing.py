"""What a group's answer means for one instance: the table of the contract's section 5. Pure.

What was not answered in full concludes nothing, and a state that is not in the table is waited for, never guessed.

Source: botocore 1.44.8, autoscaling 2011-01-01, enum LifecycleState (read 2026-11-29); EC2 Auto Scaling user guide,
suspend and resume processes, instance scale-in protection, warm pools (read 2026-11-29).
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final

import msgspec

from recovery.decision import Why
from recovery.model import Group, Member, Way
from runtime.vocabulary import Action

RETAINED: Final = "terminating:retained"
_HEALTHY: Final = "healthy"
_UNHEALTHY: Final = "unhealthy"
_IN_SERVICE: Final = "inservice"
_ENDED: Final = "terminated"
_LEAVING: Final = ("terminating", "terminated", "detaching", "detached")
_CHANGING: Final = ("pending", "replacingrootvolume", "rootvolumereplaced", "enteringstandby")
_ACTS_ON_MARK: Final = ("replaceunhealthy", "terminate")
_LAUNCHES: Final = "launch"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What could be found out about an instance's group, and when.

    Args:
        way: who replaces it.
        at: when it was asked.
        name: of the group or NodePool; None = not known.
        group: Auto Scaling's answer; None = it was not asked, or not answered.
        absent: complete answers, as often as it takes, do not have the instance (or the group) at all.
        unknown: why nothing can be concluded; None = the rest can be relied on.
        denied: the action that permissions lack; then `unknown` is set too.
        running: narrow mode: running instances with the group's tag.
        ended: narrow mode: the instance is terminated; Karpenter: its NodeClaim is gone.
        size: how many instances the group should have; None = not known.
    """

    way: Way
    at: datetime
    name: str | None = None
    group: Group | None = None
    absent: bool = False
    unknown: str | None = None
    denied: str | None = None
    running: frozenset[str] = frozenset()
    ended: bool = False
    size: int | None = None


class Standing(enum.StrEnum):
    """What may be done with an instance."""

    GO = "go"
    DOING = "doing"  # it is already being replaced
    WAIT = "wait"
    BLOCKED = "blocked"  # an operator's business
    ABSENT = "absent"


class Stand(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done, why, and what the group lists of the instance.

    Args:
        member: None = not listed, or nothing lists it.
    """

    standing: Standing
    why: Why = Why.STEP_TAKEN
    detail: str = ""
    member: Member | None = None


def stand(found: Found, instance: str, *, action: Action, respects_protection: bool) -> Stand:
    """Tell what may be done with an instance.

    Args:
        found: what is known of its group.
        instance: its id.
        action: a reboot takes nothing from the group, so that only the instance's own state counts.
        respects_protection: protection from scale-in blocks, too.
    """
    if found.unknown is not None:
        why = Why.ACCESS_DENIED if found.denied else Why.CLOUD_UNKNOWN
        return Stand(standing=Standing.WAIT, why=why, detail=found.unknown)
    if found.absent:
        return Stand(standing=Standing.ABSENT, why=Why.NOT_IN_GROUP, detail=f"{instance} is in no Auto Scaling group")
    if found.group is None:
        return Stand(standing=Standing.DOING if found.ended else Standing.GO)
    member = member_of(found.group, instance)
    if member is None:
        detail = f"{found.group.name} does not list {instance}"
        return Stand(standing=Standing.WAIT, why=Why.NOT_IN_GROUP, detail=detail)
    return _by_state(found.group, member, action=action, respects_protection=respects_protection)


def member_of(group: Group, instance: str) -> Member | None:
    """Find an instance in a group's list; None = it is not there."""
    return next((member for member in group.members if member.instance == instance), None)


def present(found: Found) -> frozenset[str]:
    """List whom a group has."""
    return found.running if found.group is None else frozenset(member.instance for member in found.group.members)


def is_unlisted(found: Found, instance: str) -> bool:
    """Tell whether complete answers no longer have the instance."""
    if found.unknown is not None:
        return False
    return found.absent if found.group is None else member_of(found.group, instance) is None


def is_serving(member: Member) -> bool:
    """Tell whether an instance is InService and Healthy."""
    return is_in_service(member) and member.health.lower() == _HEALTHY


def is_marked(member: Member) -> bool:
    """Tell whether it is Unhealthy, in whatever state."""
    return member.health.lower() == _UNHEALTHY


def is_leaving(member: Member) -> bool:
    """Tell whether it is on its way out, or out."""
    return member.state.lower().startswith(_LEAVING)


def is_in_service(member: Member) -> bool:
    """Tell whether it is InService, Healthy or not."""
    return member.state.lower() == _IN_SERVICE


def has_ended(member: Member) -> bool:
    """Tell whether nothing of it is left to wait for."""
    return member.state.lower() == _ENDED


def not_serving(group: Group) -> frozenset[str]:
    """List the instances that are not InService and Healthy."""
    return frozenset(member.instance for member in group.members if not is_serving(member))


def blocks_mark(group: Group) -> list[str]:
    """List the suspended processes without which a mark does nothing now, and kills when they are resumed."""
    return [name for name in group.suspended if name.lower() in _ACTS_ON_MARK]


def blocks_launch(group: Group) -> bool:
    """Tell whether nothing would be launched in its place."""
    return any(name.lower() == _LAUNCHES for name in group.suspended)


def _by_state(group: Group, member: Member, *, action: Action, respects_protection: bool) -> Stand:
    said = f"{member.instance} is {member.state}, {member.health} in {group.name}"
    replaces = action is not Action.REBOOT
    refusal = _group_refusal(group) if replaces else None
    held = refusal or (_suspension(group, blocks_mark(group)) if is_marked(member) else None)
    if is_leaving(member) or (is_marked(member) and held is None):
        return Stand(standing=Standing.DOING, detail=said, member=member)
    if held is not None:
        return msgspec.structs.replace(held, member=member)
    if not is_serving(member):
        return _out_of_service(member, said)
    if replaces and member.protected and respects_protection:
        return Stand(
            standing=Standing.BLOCKED,
            why=Why.SCALE_IN_PROTECTED,
            detail=f"{said}, protected from scale-in (budget.respectScaleInProtection)",
            member=member,
        )
    note = ", protected from scale-in, which does not stop a health replacement" if member.protected else ""
    return Stand(standing=Standing.GO, detail=said + note, member=member)


def _out_of_service(member: Member, said: str) -> Stand:
    state = member.state.lower()
    if state == "standby":
        return Stand(standing=Standing.BLOCKED, why=Why.STANDBY, detail=said, member=member)
    if state.startswith("warmed:"):
        return Stand(standing=Standing.BLOCKED, why=Why.WARM_POOL, detail=said, member=member)
    detail = said if state.startswith(_CHANGING) else f"{said}: a state that is not known here"
    return Stand(standing=Standing.WAIT, why=Why.INSTANCE_CHANGING, detail=detail, member=member)


def _group_refusal(group: Group) -> Stand | None:
    if group.operator is not None:
        detail = f"{group.name} is operated by {group.operator}, which alone may change it"
        return Stand(standing=Standing.BLOCKED, why=Why.OPERATOR_GROUP, detail=detail)
    return _suspension(group, blocks_mark(group) + (["Launch"] if blocks_launch(group) else []))


def _suspension(group: Group, blocking: list[str]) -> Stand | None:
    if not blocking:
        return None
    detail = f"{', '.join(blocking)} suspended in {group.name}"
    return Stand(standing=Standing.BLOCKED, why=Why.PROCESS_SUSPENDED, detail=detail)
