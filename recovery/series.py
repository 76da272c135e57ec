"""What a Prometheus server says about the fleet: the queries, and what their answers add up to; pure.

The queries are written so that a quiet fleet of 10,000 costs a few values a node, whatever the number of rules. A node
counts as seen only if every answer speaks of it once, now, and with a value that the detector can have.

Source: prometheus.io/docs/prometheus/latest/querying/{api,basics,functions} (read 2026-11-29): an instant query returns
the last sample of up to five minutes ago with the time of the query, and only `timestamp()` tells how old it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from recovery.model import Seen
from recovery.page import (
    FAULT_SINCE,
    INSTANCE_INFO,
    PLATFORM_REPAIR,
    READER_UP,
    RECOVERY_ENABLED,
    RULE_INFO,
    UnusableError,
    drop_twins,
    fault,
    problem,
    switch,
)
from runtime.vocabulary import PROBLEM_GAUGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from recovery.model import FaultSeen
    from recovery.page import Problem

_INSTANCE_ID = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")


class Point(NamedTuple):
    """One element of an instant vector."""

    labels: Mapping[str, str]
    value: float


Vector = list[Point]


class Queries(NamedTuple):
    """What is asked in each poll, in this order.

    The first four speak only of nodes with a fault; the next three are empty unless something is wrong.

    Args:
        faults: gauges that are not 0, NaN too.
        fault_times: when those were scraped.
        rules: the rules that they belong to.
        since: when each began.
        down: detectors that cannot read the kernel log.
        twins: nodes that several detectors speak for.
        lacking: nodes whose rules lack a gauge: one that is dropped on the way must not pass for healthy.
        times: when each detector was scraped last; this names the fleet.
        loaded: how many rules each has.
        enabled: its ENABLE_RECOVERY.
        platform: whether the platform repairs it.
        instances: its own instance id.
        reasons: all problems known in the fleet.
    """

    faults: str
    fault_times: str
    rules: str
    since: str
    down: str
    twins: str
    lacking: str
    times: str
    loaded: str
    enabled: str
    platform: str
    instances: str
    reasons: str


class Answers(NamedTuple):
    """The vectors, named as their queries."""

    faults: Vector
    fault_times: Vector
    rules: Vector
    since: Vector
    down: Vector
    twins: Vector
    lacking: Vector
    times: Vector
    loaded: Vector
    enabled: Vector
    platform: Vector
    instances: Vector
    reasons: Vector


def queries(selector: str) -> Queries:
    """Write the queries.

    Args:
        selector: label matchers that narrow every one, such as `cluster="a"`; "" = none.
    """
    only = f"{{{selector}}}" if selector else ""
    typed = f'{{type!="",{selector}}}' if selector else '{type!=""}'
    active = f"{PROBLEM_GAUGE}{only} != 0"
    return Queries(
        faults=active,
        fault_times=f"timestamp({PROBLEM_GAUGE}{only}) and {active}",
        rules=f"{RULE_INFO}{only} and on (node, type, reason) ({active})",
        since=f"{FAULT_SINCE}{only}",
        down=f"{READER_UP}{only} != 1",
        twins=f"count by (node) ({READER_UP}{only}) > 1",
        lacking=f"count by (node) ({RULE_INFO}{typed} unless on (node, type, reason) {PROBLEM_GAUGE}{only})",
        times=f"min by (node) (timestamp({READER_UP}{only}))",
        loaded=f"count by (node) ({RULE_INFO}{only})",
        enabled=f"sum by (node) ({RECOVERY_ENABLED}{only})",
        platform=f"sum by (node) ({PLATFORM_REPAIR}{only})",
        instances=f"count by (node, instance, exported_instance) ({INSTANCE_INFO}{only} == 1)",
        reasons=f"count by (type, reason) ({RULE_INFO}{typed})",
    )


def sight(answers: Answers, *, oldest: float) -> tuple[dict[str, Seen], dict[str, str]]:
    """Put the answers together.

    Args:
        answers: to all queries, as of one time.
        oldest: Unix seconds; what was scraped before is stale.

    Returns:
        By node name: each that was seen, and why each other is blind.

    Raises:
        UnusableError: the answers cannot be used at all.
    """
    fleet = _Fleet(answers, oldest)
    seen: dict[str, Seen] = {}
    blind: dict[str, str] = {}
    for node in fleet.nodes():
        try:
            seen[node] = fleet.seen(node)
        except UnusableError as error:
            blind[node] = str(error)
    drop_twins(seen, blind)
    return seen, blind


class _Fleet:
    """The answers, by node."""

    def __init__(self, answers: Answers, oldest: float) -> None:
        self._oldest = oldest
        self._times = _by_node(answers.times)
        self._faults = _many_by_node(answers.faults)
        self._fault_times = _many_by_node(answers.fault_times)
        self._rules = _many_by_node(answers.rules)
        self._since = _many_by_node(answers.since)
        self._down = _many_by_node(answers.down)
        self._twins = _many_by_node(answers.twins)
        self._lacking = _many_by_node(answers.lacking)
        self._loaded = _by_node(answers.loaded)
        self._enabled = _by_node(answers.enabled)
        self._platform = _by_node(answers.platform)
        self._instances = _many_by_node(answers.instances)
        self._reasons = tuple(sorted({problem(point.labels)[1] for point in answers.reasons}))

    def nodes(self) -> list[str]:
        """Name every node that any answer speaks of."""
        return [node for node in self._times | self._faults | self._loaded if node]

    def seen(self, node: str) -> Seen:
        """Put together what is known about a node.

        Raises:
            UnusableError: it is not enough, or contradicts itself.
        """
        self._check(node)
        return Seen(
            node=node,
            faults=tuple(self._faults_of(node)) if node in self._faults else (),
            enabled=switch(RECOVERY_ENABLED, _value(self._enabled, node, RECOVERY_ENABLED)),
            platform_repair=switch(PLATFORM_REPAIR, _value(self._platform, node, PLATFORM_REPAIR)),
            instance=self._instance(node),
            reasons=self._reasons,
        )

    def _check(self, node: str) -> None:
        if not _value(self._times, node, READER_UP) >= self._oldest:
            raise UnusableError("what Prometheus has of it is stale")
        if node in self._twins:
            raise UnusableError("several detectors speak for it")
        if node in self._down:
            raise UnusableError("the detector cannot read the kernel log")
        if node in self._lacking:
            raise UnusableError(f"{PROBLEM_GAUGE} lacks some of its reasons")
        _value(self._loaded, node, RULE_INFO)

    def _faults_of(self, node: str) -> Iterable[FaultSeen]:
        times = _by_problem(self._fault_times.get(node, ()), f"timestamp of {PROBLEM_GAUGE}")
        rules = _by_problem(self._rules.get(node, ()), RULE_INFO)
        since = _by_problem(self._since.get(node, ()), FAULT_SINCE)
        for key, point in _by_problem(self._faults[node], PROBLEM_GAUGE).items():
            switch(PROBLEM_GAUGE, point.value)
            if key not in times or not times[key].value >= self._oldest:
                raise UnusableError(f"what Prometheus has of {key[1]} is stale")
            began = since[key].value if key in since else None
            yield fault(key, rules[key].labels if key in rules else None, began)

    def _instance(self, node: str) -> str | None:
        """Read the own instance id: Prometheus keeps the label `instance` to itself and renames the detector's.

        Source: prometheus.io/docs/prometheus/latest/configuration/configuration, honor_labels (read 2026-11-29).
        """
        points = self._instances.get(node, ())
        if not points:
            return None
        if len(points) > 1:
            raise UnusableError(f"{INSTANCE_INFO} is ambiguous")
        renamed, plain = (points[0].labels.get(name, "") for name in ("exported_instance", "instance"))
        if not renamed and not _INSTANCE_ID.fullmatch(plain):
            raise UnusableError(f"{INSTANCE_INFO} has lost its instance")
        return renamed or plain


def _many_by_node(vector: Vector) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for point in vector:
        found.setdefault(point.labels.get("node", ""), []).append(point)
    return found


def _by_node(vector: Vector) -> dict[str, float]:
    """Sort an aggregate: one value a node, or it is none that was asked for."""
    found = {point.labels.get("node", ""): point.value for point in vector}
    if len(found) != len(vector):
        raise UnusableError("several values for a node, where one was asked for")
    return found


def _by_problem(points: Sequence[Point], name: str) -> dict[Problem, Point]:
    found = {problem(point.labels): point for point in points}
    if len(found) != len(points):
        raise UnusableError(f"{name} stands there several times")
    return found


def _value(values: Mapping[str, float], node: str, name: str) -> float:
    if node not in values:
        raise UnusableError(f"there is no {name}")
    return values[node]
