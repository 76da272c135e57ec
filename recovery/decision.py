"""What one pass decided, as people, pages and alarms read it: nothing here decides. Pure."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from recovery.model import LedgerBody, State
from runtime.vocabulary import Action, FaultClass


class Why(enum.StrEnum):
    """Why a node waits, is blocked or is left alone: the `reason` of chipwarden_recovery_blocked_nodes."""

    # Nothing is wrong with that; time or the world will change it.
    CONFIRMING = "Confirming"
    NO_ACTION = "NoAction"
    ALREADY_DONE = "AlreadyDone"
    NOT_ENABLED = "NotEnabled"
    DRAINING = "Draining"
    TERMINATING = "Terminating"
    REPLACING = "Replacing"
    REBOOTING = "Rebooting"
    STEP_TAKEN = "StepTaken"
    # What cannot be known now.
    BLIND = "Blind"
    DISAGREE = "Disagree"
    NEEDS_PROMETHEUS = "NeedsPrometheus"
    API_UNKNOWN = "ApiUnknown"
    CLOUD_UNKNOWN = "CloudUnknown"
    ACCESS_DENIED = "AccessDenied"
    INSTANCE_UNKNOWN = "InstanceUnknown"
    IDENTITY_MISMATCH = "IdentityMismatch"
    # An operator's will.
    PAUSED = "Paused"
    OPTED_OUT = "OptedOut"
    BREAKER_TRIPPED = "BreakerTripped"
    RECURS_AFTER_REPLACEMENT = "RecursAfterReplacement"
    # The budget.
    MAX_CONCURRENT = "MaxConcurrent"
    MAX_PER_GROUP = "MaxPerGroup"
    MAX_UNHEALTHY_PERCENT = "MaxUnhealthyPercent"
    MAX_PER_HOUR = "MaxPerHour"
    NARROW_MODE = "NarrowMode"
    LEDGER_FULL = "LedgerFull"
    # The group, and others that act.
    NOT_IN_GROUP = "NotInGroup"
    INSTANCE_CHANGING = "InstanceChanging"
    STANDBY = "Standby"
    WARM_POOL = "WarmPool"
    OPERATOR_GROUP = "OperatorGroup"
    PROCESS_SUSPENDED = "ProcessSuspended"
    SCALE_IN_PROTECTED = "ScaleInProtected"
    OTHER_REMEDIATOR = "OtherRemediator"
    DELEGATED_TO_PLATFORM = "DelegatedToPlatform"
    REPLACEMENT_BLOCKED = "ReplacementBlocked"


class Kind(enum.StrEnum):
    """Why a replacement does not come."""

    CAPACITY = "capacity"
    LIMIT = "limit"
    TEMPLATE = "template"
    SUSPENDED = "suspended"
    LAUNCH_FIRST_NO_SPARE = "launchFirstNoSpare"
    HOOK = "hook"
    OTHER = "other"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about one node with a fault or an open entry.

    Args:
        group: "" = not known.
        reason: of the fault.
        state: of its ledger entry; None = it has none.
        decision: `wait`, `blocked` or `none`; in a plan also the name of the step that would be taken now.
        why: see there; StepTaken when this pass took a step and looks again in the next.
        detail: one sentence, with the words of whoever refused.
        until: when it is decided otherwise if nothing changes; None = that depends on somebody.
        would: recovery is not enabled there: nothing is touched.
    """

    node: str
    group: str
    reason: str
    fault_class: FaultClass
    action: Action
    state: State | None
    decision: str
    why: Why
    detail: str
    until: datetime | None
    would: bool


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram.

    Args:
        bounds: upper bounds in seconds, ascending, without +Inf.
        counts: in each bucket, not cumulated; one more than bounds.
        total: the sum of all values.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is known after a pass; never changed afterwards, so that pages may read it from another thread.

    Args:
        at: time of the pass; None = there was none yet.
        leader: this process leads; a follower decides nothing.
        source: why the whole source of metrics cannot be used; None = it can.
        trouble: why the pass could not be finished; None = it was.
        paused: why recovery is paused; None = it is not.
        blind: by node name, why its detector cannot be relied on.
        observations: nodes by what is known of them: healthy, ignored (no action for its fault), unconfirmed, faulty,
            disagree, blind.
        decisions: one for each node with a fault, a fence or an open entry, the gravest first.
        blocked_nodes: why to how many nodes are blocked by it now; 0 = it has blocked one before.
        ledger: as of the end of the pass.
        open_entries: by group.
        budget_remaining: by group that has a fault or an entry, how many more may be admitted now; `""` = in all.
        breaker_tripped: reason with an action, seen or tripped, to whether its breaker is tripped.
        replacement_blocked: group to kind to how many.
        oldest_open: state to when the oldest open entry came into it.
        decisions_total: decision (a step, an outcome, wait, blocked, none) to reason of the fault to how often it was
            taken anew.
        blocked_total: why to how often a node became blocked by it.
        sequence_seconds: step to how long nodes took to come to it from the one before.
    """

    at: datetime | None = None
    leader: bool = False
    source: str | None = None
    trouble: str | None = None
    paused: str | None = None
    blind: dict[str, str] = {}
    observations: dict[str, int] = {}
    decisions: tuple[Decision, ...] = ()
    blocked_nodes: dict[str, int] = {}
    ledger: LedgerBody = LedgerBody()
    open_entries: dict[str, int] = {}
    budget_remaining: dict[str, int] = {}
    breaker_tripped: dict[str, bool] = {}
    replacement_blocked: dict[str, dict[str, int]] = {}
    oldest_open: dict[str, datetime] = {}
    decisions_total: dict[str, dict[str, int]] = {}
    blocked_total: dict[str, int] = {}
    sequence_seconds: dict[str, Spread] = {}
