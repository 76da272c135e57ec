"""Recovery's nouns: what is seen, what is written down, what is decided. Frozen structs, no decision in them.

Unknown is a value: a source that failed is blind, which is neither healthy nor faulty.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final

import msgspec

from runtime.vocabulary import Action, FaultClass


class State(enum.StrEnum):
    """How far a node's recovery has come; an entry is written with a state before the step of that name is taken."""

    OBSERVED = "observed"
    FENCED = "fenced"
    ADMITTED = "admitted"
    NOTIFIED = "notified"
    DRAINED = "drained"
    TERMINATING = "terminating"
    REBOOTING = "rebooting"
    GONE = "gone"
    RETURNED = "returned"
    REPLACED = "replaced"


class Outcome(enum.StrEnum):
    """How an entry was closed."""

    REPLACED = "replaced"
    REBOOTED = "rebooted"
    CLEARED = "cleared"
    RELEASED = "released"
    STALLED = "stalled"
    FAILED = "failed"
    RETAINED = "retained"
    GONE = "gone"
    REFUSED = "refused"
    SUPERSEDED = "superseded"


class Way(enum.StrEnum):
    """Who replaces an instance, and how much of that may be read."""

    AUTOSCALING = "autoscaling"
    NARROW = "narrow"  # an Auto Scaling group that may not be described: only EC2 tells
    KARPENTER = "karpenter"


# What a fence consists of, as Entry.added names it.
CORDON: Final = "cordon"
TAINT: Final = "taint"
SCALE_DOWN_DISABLED: Final = "scaleDownDisabled"


class FaultSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One `problem_gauge` of 1.

    Args:
        type: the condition type.
        fault_class: from `rule_info`; None = not exposed.
        action: from `rule_info`; None = not exposed.
        since: from `fault_since_timestamp_seconds`; None = not exposed.
    """

    type: str
    reason: str
    fault_class: FaultClass | None
    action: Action | None
    since: datetime | None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one node's detector says.

    Args:
        faults: its gauges of 1; () = it says that nothing is wrong.
        enabled: its ENABLE_RECOVERY.
        platform_repair: it publishes AcceleratedHardwareReady, so that the platform acts.
        instance: its own instance id; None = unknown to it.
        reasons: all reasons with a condition type that it knows, for the metrics of a quiet fleet.
    """

    node: str
    faults: tuple[FaultSeen, ...]
    enabled: bool
    platform_repair: bool
    instance: str | None
    reasons: tuple[str, ...]


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """One poll of the whole fleet.

    Args:
        seen: by node name, each detector that answered in full.
        blind: by node name, why its detector's answer cannot be used.
        why_blind: why the whole source cannot be used; None = it can. Then `seen` is empty.
        fleet: how many detectors there should be (the DaemonSet's desiredNumberScheduled); None = unknown.
    """

    seen: dict[str, Seen]
    blind: dict[str, str]
    why_blind: str | None
    fleet: int | None


class Taint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A taint on a Node, whole: a list of taints is written back as it was read."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A Node object, as far as it concerns recovery. Only Nodes that matter are read.

    Args:
        instance: of the `chipwarden.io/detector` annotation; None = not there.
        provider_instance: the id at the end of spec.providerID; None = not there.
        provider_id: spec.providerID whole.
        conditions: type to (status, reason, message).
        boot: status.nodeInfo.bootID.
        ready: its Ready condition is True.
        deleting: it has a deletion timestamp.
        nodepool: label karpenter.sh/nodepool; None = not Karpenter's.
        nodegroup: label eks.amazonaws.com/nodegroup; None = not a managed group's.
    """

    name: str
    uid: str
    resource_version: str
    created_at: datetime
    instance: str | None
    provider_instance: str | None
    provider_id: str
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    conditions: dict[str, tuple[str, str, str]]
    boot: str
    ready: bool
    deleting: bool

    @property
    def nodepool(self) -> str | None:
        """The NodePool of a Karpenter node."""
        return self.labels.get("karpenter.sh/nodepool")

    @property
    def nodegroup(self) -> str | None:
        """The managed node group."""
        return self.labels.get("eks.amazonaws.com/nodegroup")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of an Auto Scaling group; `state` and `health` in the service's own words, any case."""

    instance: str
    state: str
    health: str
    protected: bool = False


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """An Auto Scaling group, read just now.

    Args:
        suspended: names of suspended processes.
        operator: the service that alone may change it; None = anybody may.
        failed_activity: message of the newest failed scaling activity since a time; None = none.
        activities_unread: why scaling activities could not be read, so that `failed_activity` is unknown; None = they
            could, or nobody asked. It never hides the group itself: activities only explain.
    """

    name: str
    desired: int
    members: tuple[Member, ...]
    suspended: tuple[str, ...] = ()
    operator: str | None = None
    failed_activity: str | None = None
    activities_unread: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False, rename={"class_": "class"}):
    """One node's recovery in the ledger; the contract's section 6 names the fields.

    Args:
        id: unique; also tells a repeated step from a new one.
        uid: of the Node object.
        class_: the fault class.
        would: recovery is not enabled there: recorded, nothing touched.
        added: what we put on the Node: cordon, taint, scaleDownDisabled. Only that is ever taken away.
        kind: why a replacement does not come; None = nothing known.
        members: ids that the group had before, so that a new one is known as new.
        boot: of the Node before a reboot.
        serial: serial number of the device in the fault's line, to know it again.
        outcome: None = open. A closed entry whose `added` is not empty has a fence that is still to be lifted.
        type: the condition type of the fault.
        way: who replaces the instance.
        provider_id: spec.providerID of the Node, to find its NodeClaim when the Node is gone.
        observed_at: when the fault began.
        entered_at: when the present state was entered.
        terminating_at: when `terminating` was entered first; the replacement's time limit runs from here.
        called_at: of the last call that replaces or reboots; written before the call, so that none is made twice.
        accepted: that call was answered with success.
        unmarked_at: when the mark Unhealthy was taken back, or was about to be.
        blind_at: since when nothing confirms the fault, though a slot is held; None = something does.
        young: the node had joined its group shortly before the fault, or is its own predecessor's machine: counts
            for recurrence until an operator resumes the group.
        replacement: the instance that took the place.
    """

    id: str
    node: str
    uid: str
    instance: str
    group: str
    reason: str
    class_: FaultClass
    action: Action
    state: State
    would: bool = False
    added: tuple[str, ...] = ()
    kind: str | None = None
    observed_at: datetime | None = None
    fenced_at: datetime | None = None
    admitted_at: datetime | None = None
    updated_at: datetime | None = None
    ended_at: datetime | None = None
    called_at: datetime | None = None
    outcome: Outcome | None = None
    members: tuple[str, ...] = ()
    boot: str | None = None
    serial: str | None = None
    reboots_failed: int = 0
    type: str = ""
    way: Way = Way.AUTOSCALING
    provider_id: str = ""
    entered_at: datetime | None = None
    terminating_at: datetime | None = None
    accepted: bool = False
    unmarked_at: datetime | None = None
    blind_at: datetime | None = None
    young: bool = False
    replacement: str | None = None


class LedgerBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ledger: the truth about what recovery has begun.

    Args:
        v: format version.
        tripped: reason to the time its storm breaker tripped.
        blocked_groups: group to why it is blocked until an operator resumes it.
        reset: reason to the time its breaker was reset: faults that began before do not trip it again.
    """

    v: int = 1
    tripped: dict[str, datetime] = {}
    blocked_groups: dict[str, str] = {}
    entries: tuple[Entry, ...] = ()
    reset: dict[str, datetime] = {}
