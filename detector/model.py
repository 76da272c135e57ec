"""The detector's nouns: frozen structs, with the names that the contract gives them in YAML and JSON.

They hold values and simple derivations only; whoever decides something does it elsewhere.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from runtime.durations import Duration
from runtime.vocabulary import Action, ClearsOn, Facility, FaultClass, Status

NonEmpty = Annotated[str, Meta(min_length=1)]
# What Kubernetes takes as a condition type or reason (apimachinery validation, `qualifiedNameFmt`).
ConditionName = Annotated[str, Meta(pattern=r"^[A-Za-z]([A-Za-z0-9_,:.-]*[A-Za-z0-9_])?\Z", max_length=128)]
_ANY_DEVICE = ("hostname", "instance-id", "action")  # fields that do not tell devices of one node apart


class KernelMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the kernel log, parsed.

    Args:
        facility: 0 kern, 1 user, 3 daemon, ... (upper bits of the priority).
        level: 0 emerg to 7 debug.
        sequence: number of the record since boot.
        timestamp_us: microseconds on the kernel's own clock since boot; drifts against every other clock.
        flags: `-`, or `c` for a fragment of a longer line.
        text: the first line, unescaped; bytes, for a kernel log has no encoding.
        dictionary: `KEY=value` lines of device prints.
    """

    facility: int
    level: int
    sequence: int
    timestamp_us: int
    flags: str = "-"
    text: bytes
    dictionary: dict[str, str] = {}


class Threshold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a line must come before it is a fault: `count` lines of one device within `window` of kernel time."""

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1
    window: Duration = Duration(0)


class Examples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Lines that a rule must and must not match, checked whenever the rule is loaded."""

    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One pattern and what a line that it matches means.

    Args:
        reason: CamelCase reason for the condition, the Event and the metrics.
        pattern: RE2, searched in the unescaped text of one record.
        condition: type of the condition that becomes True; None = temporary: Event and counter only.
        fallback: counts only if no other rule of its set matched the record.
        facilities: who may have written the line.
    """

    reason: ConditionName
    pattern: NonEmpty
    condition: ConditionName | None = None
    fault_class: FaultClass = FaultClass.SUSPECT
    action: Action = Action.NONE
    clears_on: ClearsOn = ClearsOn.OPERATOR
    threshold: Threshold = Threshold()
    fallback: bool = False
    facilities: Annotated[tuple[Facility, ...], Meta(min_length=1)] = (Facility.KERN, Facility.USER)
    source: str = ""
    examples: Examples = Examples()


class ConditionDefault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a condition says while nothing is wrong."""

    type: ConditionName
    reason: ConditionName
    message: str = ""


class Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a rule set, for messages and `replay`."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z", max_length=63)]


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The rules of one accelerator family.

    Args:
        ignore: patterns of text that a user can choose: what one of them matches is never a fault of this set.
    """

    api_version: Literal["chipwarden.io/v1"]
    kind: Literal["RuleSet"]
    metadata: Metadata
    conditions: tuple[ConditionDefault, ...] = ()
    ignore: tuple[NonEmpty, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def name(self) -> str:
        """The name in the metadata."""
        return self.metadata.name


class NpdRuleSet(RuleSet, frozen=True, kw_only=True):
    """Rules from a node-problem-detector file, which has two ideas more.

    Args:
        lookback: records older than this at the start of the program do not count.
        buffer_lines: how many records a pattern may span; every pattern ends where the newest record ends.
    """

    lookback: Duration = Duration(0)
    buffer_lines: int = 1


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that counts for one line.

    Args:
        rule: the rule.
        rule_set: the name of its set.
        details: named groups and known `key=value` fields of the line.
    """

    rule: Rule
    rule_set: str
    details: dict[str, str]

    @property
    def device(self) -> tuple[tuple[str, str], ...]:
        """The details that tell one device of this node from another."""
        return device_of(self.details)


def device_of(details: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Pick the details that tell one device of a node from another, sorted."""
    return tuple(sorted(item for item in details.items() if item[0] not in _ANY_DEVICE))


class Fault(msgspec.Struct, frozen=True, kw_only=True, rename={"fault_class": "faultClass", "clears_on": "clearsOn"}):
    """An active fault of one device, as `/conditions` and the state file show it.

    Args:
        count: how many lines said so.
        first_at: when the first line was written (aware UTC).
        last_at: when the newest was.
    """

    reason: str
    condition: str
    fault_class: FaultClass
    action: Action
    clears_on: ClearsOn
    count: int
    first_at: datetime
    last_at: datetime
    details: dict[str, str] = {}


class Condition(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"last_transition_at": "lastTransitionTime", "last_heartbeat_at": "lastHeartbeatTime"},
):
    """A NodeCondition, times in whole seconds as the API server keeps them."""

    type: str
    status: Status
    reason: str
    message: str
    last_transition_at: datetime
    last_heartbeat_at: datetime


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell people once: an Event on the Node, a log line.

    Args:
        reason: the Event's reason.
        message: one sentence.
        warning: True for faults, False for good news.
        key: announcements with the same key are one Event whose count grows.
        count: how many lines this key stands for by now.
        at: when it happened.
    """

    reason: str
    message: str
    warning: bool
    key: str
    count: int = 1
    at: datetime


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of one device that have not reached their rule's threshold.

    Args:
        stamps_us: when they were written, kernel time in microseconds since boot.
    """

    reason: str
    details: dict[str, str]
    stamps_us: tuple[int, ...]


class Mention(msgspec.Struct, frozen=True, kw_only=True):
    """A temporary problem of one device: Events tell how often it came, no condition does."""

    reason: str
    details: dict[str, str]
    count: int


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What must survive a restart of the program; the content of the state file.

    Args:
        v: format version; another one is not ours to read.
        boot: the boot that `seq`, `pending` and `mentioned` belong to.
        instance: the instance that all of it belongs to; None = unknown.
        seq: number of the last record read; None = none.
        awaits_node: it was begun without an earlier one, and what the Node says has not been taken in yet.
    """

    v: Literal[1] = 1
    boot: str
    instance: str | None
    seq: int | None
    conditions: tuple[Condition, ...] = ()
    faults: tuple[Fault, ...] = ()
    pending: tuple[Pending, ...] = ()
    awaits_node: bool = False
    mentioned: tuple[Mention, ...] = ()


class ClearRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's request to end faults.

    Args:
        reason: of the faults, or `all`.
        faults: as they were when it was made: it cannot mean one that came, or came again, later.
    """

    reason: str
    faults: tuple[Fault, ...]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the node at one moment, for whoever publishes it.

    Args:
        revision: grows when a condition changes in more than counts and times.
        problems: matched lines that counted, by reason, since the program started; all reasons from the start.
        foreign: lines that spoke about another instance.
    """

    revision: int
    conditions: tuple[Condition, ...]
    faults: tuple[Fault, ...]
    problems: dict[str, int]
    foreign: int
