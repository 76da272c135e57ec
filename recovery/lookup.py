"""Finds out about groups through the ports: asks as seldom as will do, and concludes nothing from half an answer.

Must never act. All Auto Scaling calls of an account share one throttle bucket, so that what was answered a moment ago
is used again, and one read of a group serves all of its instances.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from recovery.absence import Absence
from recovery.model import Way
from recovery.narrow import Narrow
from recovery.ports import PortError
from recovery.standing import Found, member_of

if TYPE_CHECKING:
    from recovery.model import Entry, NodeFacts
    from recovery.ports import Cloud, Karpenter, Lead

USED_AGAIN: Final = timedelta(seconds=5)
_SIZE_USED_AGAIN: Final = timedelta(seconds=60)
_REASON_USED_AGAIN: Final = timedelta(seconds=60)
_MOST_KEPT: Final = 4096


class Lookup:
    """What is known of groups.

    Args:
        cloud: Auto Scaling and EC2.
        karpenter: NodeClaims.
        lead: asked before each call.
    """

    def __init__(self, cloud: Cloud, karpenter: Karpenter, lead: Lead) -> None:
        self._cloud = cloud
        self._karpenter = karpenter
        self._lead = lead
        self._now = datetime.min.replace(tzinfo=UTC)
        self._names: dict[str, str] = {}  # of groups, by instance
        self._groups: dict[str, Found] = {}  # by name
        self._answers: dict[str, Found] = {}  # by instance: all else that was found
        self._sizes: dict[str, Found] = {}  # by NodePool
        self._reasons: dict[str, tuple[datetime, str | None, str | None]] = {}  # of failed launches, by group
        self._absence = Absence()
        self._narrow = Narrow(cloud, self._check_lead)

    def begin(self, now: datetime) -> None:
        """Begin a pass."""
        self._now = now
        self._cloud.begin_round()
        for known in (self._names, self._groups, self._answers, self._sizes):
            if len(known) > _MOST_KEPT:
                known.clear()
        old = [name for name, (at, _, _) in self._reasons.items() if now - at > _REASON_USED_AGAIN]
        for name in old:
            del self._reasons[name]

    def forget(self, entry: Entry) -> None:
        """Ask anew next time: something was just done to the entry's machine."""
        self._groups.pop(entry.group, None)
        self._answers.pop(entry.instance, None)

    def known(self, group: str) -> Found | None:
        """Give what was last answered about a group, however old; None = nothing."""
        return self._groups.get(group) or self._sizes.get(group)

    def find(self, facts: NodeFacts, instance: str, *, fresh: bool) -> Found:
        """Find an instance's group. Never raises: what failed is unknown.

        Args:
            facts: its Node.
            instance: its id.
            fresh: an answer of a moment ago will not do.
        """
        if facts.nodepool is not None:
            return self._pool(facts.nodepool)
        kept = None if fresh else self._recent(self._answers.get(instance))
        if kept is not None:
            return kept
        if self._narrow.is_on(self._now):
            found = self._narrow.find(instance, facts.nodegroup, self._now)
        else:
            found = self._described(instance, facts.nodegroup, fresh=fresh)
            if self._narrow.is_on(self._now):  # as was just found out, for the first time or again
                found = self._narrow.find(instance, facts.nodegroup, self._now)
        if found.group is None:
            self._answers[instance] = found
        return found

    def follow(self, entry: Entry, *, fresh: bool, failed_since: datetime | None) -> Found:
        """Look at the group of an entry. Never raises: what failed is unknown.

        Args:
            entry: it knows its group and who replaces it.
            fresh: an answer of a moment ago will not do.
            failed_since: read the newest failed activity since then, too; None = none is read.
        """
        kept = None if fresh else self._recent(self._answers.get(entry.instance))
        if kept is not None and kept.way is not Way.AUTOSCALING:
            return kept
        if entry.way is Way.KARPENTER:
            found = self._claim(entry)
        elif not entry.group:
            found = Found(way=entry.way, at=self._now, absent=True)
        elif entry.way is Way.NARROW or self._narrow.is_on(self._now):
            found = self._narrow.follow(entry.instance, entry.group, self._now)
        else:
            found = self._followed(entry.group, fresh=fresh, failed_since=failed_since)
            if not self._narrow.is_on(self._now):
                return found
            found = self._narrow.follow(entry.instance, entry.group, self._now)
        self._answers[entry.instance] = found
        return found

    def _followed(self, group: str, *, fresh: bool, failed_since: datetime | None) -> Found:
        try:
            found = self._group(group, fresh=fresh, failed_since=failed_since)
        except PortError as error:
            return self._trouble(group, error)
        if found is not None:
            self._absence.forget(group)
            return found
        if self._absence.is_final(group, self._now):
            return Found(way=Way.AUTOSCALING, at=self._now, name=group, absent=True)
        return self._unsure(f"Auto Scaling has no group {group}, so far", group)

    def _described(self, instance: str, nodegroup: str | None, *, fresh: bool) -> Found:
        try:
            name = self._name(instance)
            found = None if name is None else self._group(name, fresh=fresh, failed_since=None)
        except PortError as error:
            return self._trouble(None, error)
        if found is not None and found.group is not None and member_of(found.group, instance) is not None:
            self._absence.forget(instance)
            return found
        self._names.pop(instance, None)
        if name is not None:
            return self._unsure(f"{name} does not list {instance}, so far", name)
        if nodegroup is not None:
            return self._unsure(f"{instance} is in no Auto Scaling group, though its Node belongs to {nodegroup}")
        if self._absence.is_final(instance, self._now):
            return Found(way=Way.AUTOSCALING, at=self._now, absent=True)
        return self._unsure(f"{instance} is in no Auto Scaling group, so far")

    def _name(self, instance: str) -> str | None:
        """Tell an instance's group: known, listed by a group that was just read, or asked for; None = in none."""
        if instance not in self._names:
            listed = (name for name, found in self._groups.items() if self._lists(found, instance))
            name = next(listed, None) or self._ask_group_of(instance)
            if name is None:
                return None
            self._names[instance] = name
        return self._names[instance]

    def _lists(self, found: Found, instance: str) -> bool:
        is_listed = found.group is not None and member_of(found.group, instance) is not None
        return is_listed and self._recent(found) is not None

    def _ask_group_of(self, instance: str) -> str | None:
        self._check_lead()
        name = self._cloud.group_of(instance)
        self._narrow.allowed("autoscaling:DescribeAutoScalingInstances")
        return name

    def _group(self, name: str, *, fresh: bool, failed_since: datetime | None) -> Found | None:
        """Read a group; None = a complete answer without it."""
        known = self._recent(self._groups.get(name))
        asks_why = failed_since is not None and name not in self._reasons
        if known is not None and not asks_why and (known.at == self._now or not fresh):
            return known
        self._check_lead()
        group = self._cloud.group(name, failed_since=failed_since if asks_why else None)
        self._narrow.allowed("autoscaling:DescribeAutoScalingGroups")
        if group is None:
            self._groups.pop(name, None)
            return None
        if asks_why:
            self._reasons[name] = (self._now, group.failed_activity, group.activities_unread)
        elif failed_since is not None:
            _, failed, unread = self._reasons[name]
            group = replace(group, failed_activity=failed, activities_unread=unread)
        found = Found(way=Way.AUTOSCALING, at=self._now, name=name, group=group, size=group.desired)
        self._groups[name] = found
        return found

    def _claim(self, entry: Entry) -> Found:
        try:
            ended = self._karpenter.is_gone(entry.node, entry.provider_id)
        except PortError as error:
            return Found(way=Way.KARPENTER, at=self._now, name=entry.group, unknown=str(error), denied=error.denied)
        return Found(way=Way.KARPENTER, at=self._now, name=entry.group, ended=ended)

    def _pool(self, name: str) -> Found:
        """Tell how large a NodePool is; unknown is the worst case for the budget, not a reason to do nothing."""
        known = self._sizes.get(name)
        if known is None or self._now - known.at > _SIZE_USED_AGAIN:
            try:
                size = self._karpenter.size(name)
            except PortError:
                size = None
            known = Found(way=Way.KARPENTER, at=self._now, name=name, size=size)
            self._sizes[name] = known
        return Found(way=Way.KARPENTER, at=self._now, name=name, size=known.size)

    def _recent(self, found: Found | None) -> Found | None:
        return found if found is not None and self._now - found.at <= USED_AGAIN else None

    def _check_lead(self) -> None:
        """Refuse to ask the cloud for a leader that may have been replaced. Raises PortError."""
        if not self._lead.is_fresh():
            raise PortError("the Lease was not renewed in time, so that the cloud is not asked")

    def _trouble(self, name: str | None, error: PortError) -> Found:
        if error.denied is not None:
            self._narrow.denied(error.denied, self._now)
        return Found(way=Way.AUTOSCALING, at=self._now, name=name, unknown=str(error), denied=error.denied)

    def _unsure(self, why: str, name: str | None = None) -> Found:
        return Found(way=Way.AUTOSCALING, at=self._now, name=name, unknown=why)
