"""What the tests of the pure modules are made of: records, rules, and a node that reads them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from detector.health import NodeHealth
from detector.matcher import Matcher
from detector.model import (
    ClearRequest,
    Condition,
    ConditionDefault,
    Finding,
    KernelMessage,
    Metadata,
    Rule,
    RuleSet,
    State,
    Threshold,
)
from detector.parse import to_record
from detector.rules import Catalog, combine
from runtime.durations import Duration

if TYPE_CHECKING:
    from detector.model import Announcement
    from runtime.vocabulary import Status

START = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
OURS, THEIRS = "i-0a1b2c3d4e5f60718", "i-0ffffffffffffffff"
KERN, USER, DAEMON = 0, 1, 3


def at(seconds: float) -> datetime:
    """Tell the time so many seconds after the start of a test."""
    return START + timedelta(seconds=seconds)


def message(text: str | bytes, *, facility: int = KERN, sequence: int = 1, seconds: float = 0.0) -> KernelMessage:
    body = text.encode() if isinstance(text, str) else text
    return KernelMessage(
        facility=facility, level=3, sequence=sequence, timestamp_us=round(seconds * 1e6), flags="-", text=body
    )


def record(text: str | bytes, *, facility: int = KERN, sequence: int = 1, seconds: float = 0.0) -> bytes:
    return to_record(message(text, facility=facility, sequence=sequence, seconds=seconds))


def rule(pattern: str = "broken", **keys: Any) -> Rule:
    return Rule(pattern=pattern, **{"reason": "ChipBroken", "condition": "ChipHasError"} | keys)


def threshold(count: int, window_seconds: float) -> Threshold:
    return Threshold(count=count, window=Duration(window_seconds))


def rule_set(*rules: Rule, name: str = "made", ignore: tuple[str, ...] = ()) -> RuleSet:
    kinds = dict.fromkeys(rule.condition for rule in rules if rule.condition)
    return RuleSet(
        api_version="chipwarden.io/v1",
        kind="RuleSet",
        metadata=Metadata(name=name),
        conditions=tuple(ConditionDefault(type=kind, reason=f"{kind}Not", message="all is well") for kind in kinds),
        ignore=ignore,
        rules=rules,
    )


def catalog(*rules: Rule) -> Catalog:
    return combine((rule_set(*rules),))


def finding(rule_: Rule, **details: str) -> Finding:
    return Finding(
        rule=rule_, rule_set="made", details={name.replace("_", "-"): text for name, text in details.items()}
    )


def rule_file(**keys: Any) -> dict[str, Any]:
    """Make the content of a good rule file, with some keys replaced; None takes one out."""
    document = {
        "apiVersion": "chipwarden.io/v1",
        "kind": "RuleSet",
        "metadata": {"name": "made"},
        "conditions": [{"type": "ChipHasError", "reason": "ChipHasNoError"}],
        "rules": [{"reason": "ChipBroken", "condition": "ChipHasError", "pattern": "broken"}],
    } | keys
    return {key: value for key, value in document.items() if value is not None}


def with_rule(**keys: Any) -> dict[str, Any]:
    """Make the content of a good rule file, with some keys of its rule replaced."""
    return rule_file(rules=[rule_file()["rules"][0] | keys])


def written(document: Any) -> bytes:
    """Write a rule file (JSON is YAML too)."""
    return json.dumps(document).encode()


class Node:
    """A node: rules, the matcher and the health that is fed by it.

    Args:
        loaded: the rules.
        state: what an earlier run left.
        seconds: when the program starts, after the start of the test.
    """

    def __init__(
        self,
        loaded: Catalog,
        *,
        boot: str = "boot-1",
        instance: str | None = OURS,
        state: State | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.loaded, self.boot, self.instance = loaded, boot, instance
        self.matcher = Matcher(loaded.rule_sets)
        self.health = NodeHealth(loaded, boot=boot, instance=instance, now=at(seconds), state=state)

    def say(self, *texts: str | bytes, seconds: float = 0.0, facility: int = KERN) -> None:
        """Have the kernel print lines, all at once, and the node read them."""
        self.read([record(text, seconds=seconds, facility=facility) for text in texts], seconds=seconds)

    def read(self, records: list[bytes], *, seconds: float = 0.0) -> None:
        for hit in self.matcher.batch(records):
            self.health.apply(hit, first_at=at(seconds), last_at=at(seconds), now=at(seconds))

    def restarted(self, *, seconds: float, **keys: Any) -> Node:
        """End the program and start it again with what the state file keeps."""
        text = msgspec.json.encode(self.health.state(sequence=7))
        state = msgspec.json.decode(text, type=State)
        how: dict[str, Any] = {"loaded": self.loaded, "boot": self.boot, "instance": self.instance} | keys
        return Node(how.pop("loaded"), state=state, seconds=seconds, **how)

    def clear(self, reason: str, *, seconds: float) -> bool:
        """Have an operator who has seen everything clear a reason, or all."""
        return self.health.clear(ClearRequest(reason=reason, faults=self.health.faults), at(seconds))

    def condition(self, kind: str = "ChipHasError") -> Condition:
        return next(condition for condition in self.health.view().conditions if condition.type == kind)

    def status(self, kind: str = "ChipHasError") -> Status:
        return self.condition(kind).status

    def told(self) -> list[Announcement]:
        return self.health.announcements()
