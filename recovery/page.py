"""What a detector's page says about its node; pure.

A page counts only whole and unambiguous: everything that the detector always exposes is there once, every value is one
that it can have, and nothing on it is old. Any doubt makes it unusable, which is neither healthy nor faulty.
"""

from __future__ import annotations

import collections
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from recovery.model import FaultSeen, Seen
from recovery.parse import read_series
from runtime.vocabulary import DETECTOR_METRICS, PROBLEM_GAUGE, Action, FaultClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from recovery.parse import Series

RULE_INFO: Final = DETECTOR_METRICS + "rule_info"
FAULT_SINCE: Final = DETECTOR_METRICS + "fault_since_timestamp_seconds"
RECOVERY_ENABLED: Final = DETECTOR_METRICS + "recovery_enabled"
PLATFORM_REPAIR: Final = DETECTOR_METRICS + "platform_repair"
INSTANCE_INFO: Final = DETECTOR_METRICS + "instance_info"
READER_UP: Final = DETECTOR_METRICS + "reader_up"
_WANTED: Final = frozenset(
    (PROBLEM_GAUGE, RULE_INFO, FAULT_SINCE, RECOVERY_ENABLED, PLATFORM_REPAIR, INSTANCE_INFO, READER_UP)
)

Problem = tuple[str, str]  # a condition type and a reason


class UnusableError(ValueError):
    """What was read cannot be relied on; the message says why. The node is neither healthy nor faulty."""


def read_page(text: str, node: str, *, oldest: datetime, open_metrics: bool = False) -> Seen:
    """Read what a detector says.

    Args:
        text: its page.
        node: the Node that it runs on.
        oldest: a series with a timestamp before this is stale.
        open_metrics: the page is in that format.

    Raises:
        ParseError: the text is no page of metrics, or half of one.
        UnusableError: it is one, and cannot be relied on.
    """
    by_name: dict[str, list[Series]] = {name: [] for name in _WANTED}
    for series in read_series(text, _WANTED, open_metrics=open_metrics):
        if series.at is not None and not series.at >= oldest.timestamp():
            raise UnusableError(f"{series.name} is stale")
        by_name[series.name].append(series)
    if not switch(READER_UP, _single(by_name[READER_UP], READER_UP)):
        raise UnusableError("the detector cannot read the kernel log")
    gauges = {problem(series.labels): switch(PROBLEM_GAUGE, series.value) for series in by_name[PROBLEM_GAUGE]}
    rules = _rules(by_name[RULE_INFO])
    if missing := [reason for kind, reason in rules if kind and (kind, reason) not in gauges]:
        raise UnusableError(f"{PROBLEM_GAUGE} lacks {missing[0]}")
    since = {problem(series.labels): series.value for series in by_name[FAULT_SINCE]}
    return Seen(
        node=node,
        faults=tuple(fault(key, rules.get(key), since.get(key)) for key, active in gauges.items() if active),
        enabled=switch(RECOVERY_ENABLED, _single(by_name[RECOVERY_ENABLED], RECOVERY_ENABLED)),
        platform_repair=switch(PLATFORM_REPAIR, _single(by_name[PLATFORM_REPAIR], PLATFORM_REPAIR)),
        instance=_instance(by_name[INSTANCE_INFO]),
        reasons=tuple(dict.fromkeys(reason for kind, reason in (*rules, *gauges) if kind)),
    )


def switch(name: str, value: float) -> bool:
    """Read a value that is 0 or 1.

    Raises:
        UnusableError: it is anything else, NaN too.
    """
    if value not in (0.0, 1.0):
        raise UnusableError(f"{name} is {value:g}")
    return value == 1.0


def problem(labels: Mapping[str, str]) -> Problem:
    """Tell which problem a series is about.

    Raises:
        UnusableError: it has no reason, or no type.
    """
    kind, reason = labels.get("type"), labels.get("reason")
    if kind is None or not reason:
        raise UnusableError("a series without type or reason")
    return kind, reason


def fault(key: Problem, rule: Mapping[str, str] | None, since: float | None) -> FaultSeen:
    """Put together what is known about an active problem.

    Args:
        key: its type and reason.
        rule: the labels of its `rule_info`; None = not exposed.
        since: Unix seconds; None = not exposed.

    Raises:
        UnusableError: the time is none.
    """
    labels = rule or {}
    kind, reason = key
    fault_class, action = labels.get("fault_class"), labels.get("action")
    return FaultSeen(
        type=kind,
        reason=reason,
        fault_class=FaultClass(fault_class) if fault_class in set(FaultClass) else None,
        action=Action(action) if action in set(Action) else None,
        since=None if since is None else _time(since),
    )


def drop_twins(seen: dict[str, Seen], blind: dict[str, str]) -> None:
    """Believe none of several nodes that claim to be the same instance."""
    claims = collections.Counter(one.instance for one in seen.values() if one.instance is not None)
    for node in [node for node, one in seen.items() if one.instance is not None and claims[one.instance] > 1]:
        blind[node] = f"{seen.pop(node).instance} is claimed by several nodes"


def _time(value: float) -> datetime:
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError) as error:  # NaN, infinite, or in no year
        raise UnusableError(f"{FAULT_SINCE} is {value:g}") from error


def _single(series: list[Series], name: str) -> float:
    if len(series) != 1:
        raise UnusableError(f"{name} stands there {len(series)} times")
    return series[0].value


def _rules(series: Iterable[Series]) -> dict[Problem, Mapping[str, str]]:
    rules: dict[Problem, Mapping[str, str]] = {}
    for one in series:
        key = problem(one.labels)
        if key in rules or one.value != 1.0:
            raise UnusableError(f"{RULE_INFO} is ambiguous about {key[1]}")
        rules[key] = one.labels
    if not rules:
        raise UnusableError(f"there is no {RULE_INFO}: this is no detector's page")
    return rules


def _instance(series: list[Series]) -> str | None:
    """Read the own instance; None = the detector does not know it."""
    ids = [one.labels.get("instance", "") for one in series]
    if len(ids) > 1 or ids == [""]:
        raise UnusableError(f"{INSTANCE_INFO} is ambiguous")
    return ids[0] if ids else None
