"""Tells what was done and why something is not done: Events, log lines, counters. Once for each change, not each pass.

Must never raise, and never decide.
"""

from __future__ import annotations

import bisect
import collections
from typing import TYPE_CHECKING, Final, TypedDict

from recovery.decision import Decision, Spread, Why
from recovery.model import Outcome, State
from runtime import logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from recovery.model import Entry
    from recovery.ports import Nodes
    from recovery.storm import Storm

_LOG = logs.get(__name__)
_BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)
_EVENTS: Final = {
    State.FENCED: "Fenced",
    State.ADMITTED: "Admitted",
    State.NOTIFIED: "Draining",
    State.TERMINATING: "Terminating",
    State.GONE: "Gone",
}
_CLOSING_EVENTS: Final = {
    Outcome.REPLACED: "Replaced",
    Outcome.REBOOTED: "Rebooted",
    Outcome.CLEARED: "Cleared",
    Outcome.RELEASED: "Released",
    Outcome.SUPERSEDED: "Released",
    Outcome.STALLED: "Stalled",
    Outcome.GONE: "Gone",
}
_BLOCKED: Final = "Blocked"
_WAITS_TOLD: Final = frozenset({Why.INSTANCE_CHANGING, Why.NOT_IN_GROUP})  # nobody knows how long they last
_MOST_NAMED: Final = 3  # pods in a sentence
_MOST_TOLD: Final = 10  # nodes, of what concerns all of them


class Counters(TypedDict):
    """All counters, by their names in a snapshot."""

    decisions_total: dict[str, dict[str, int]]
    blocked_total: dict[str, int]
    sequence_seconds: dict[str, Spread]


class Account:
    """What was told and counted since the process began to lead.

    Args:
        nodes: takes Events.
        is_dry: say nothing, only count.
    """

    def __init__(self, nodes: Nodes, *, is_dry: bool) -> None:
        self._decisions: dict[str, dict[str, int]] = {}
        self._blocked: dict[str, int] = {}
        self._counts: dict[str, list[int]] = {}
        self._totals: dict[str, float] = {}
        self._last: dict[str, tuple[str, str, Why]] = {}
        self._all: Why | None = None
        self._all_told: set[str] = set()
        self._all_struck: tuple[str, ...] = ()
        self._held_up: set[str] = set()  # entries
        self._nodes = nodes
        self._is_dry = is_dry

    def stepped(self, before: Entry | None, after: Entry, detail: str, now: datetime) -> None:
        """Tell of a step that was written down."""
        step = after.state.value if after.outcome is None else after.outcome.value
        moved = before is None or (before.state, before.outcome) != (after.state, after.outcome)
        if not moved:
            if before is not None and after.kind not in (None, before.kind):
                self._tell(after, "ReplacementBlocked", detail, warning=True)
            _LOG.info("step again", node=after.node, state=after.state, detail=detail)
            return
        self._count(step, after.reason)
        if not after.would:
            self._time(step, before, after, now)
        self._say(after, step, detail)

    def _say(self, entry: Entry, step: str, detail: str) -> None:
        _LOG.info(
            "step",
            step=step,
            node=entry.node,
            instance=entry.instance,
            group=entry.group,
            reason=entry.reason,
            would=entry.would,
            detail=detail,
        )
        event = _EVENTS.get(entry.state) if entry.outcome is None else _CLOSING_EVENTS.get(entry.outcome)
        if event is not None:
            self._tell(entry, event, detail, warning=False)
        elif entry.outcome is not None:
            self._tell(entry, _BLOCKED, f"{entry.outcome}: {detail}", warning=True)

    def decided(self, decision: Decision) -> None:
        """Tell of what is decided about a node, if it is something else than before."""
        key = (decision.decision, decision.reason, decision.why)
        if self._last.get(decision.node) == key:
            return
        self._last[decision.node] = key
        self._count(decision.decision, decision.reason)
        if decision.decision == "wait":
            self._say_wait(decision)
        if decision.decision != "blocked":
            return
        self._blocked[decision.why] = self._blocked.get(decision.why, 0) + 1
        if decision.why is not Why.BREAKER_TRIPPED:
            self._say_blocked(decision)

    def _say_wait(self, decision: Decision) -> None:
        if decision.why is Why.STEP_TAKEN:  # the step was told
            return
        _LOG.info("waits", **_words(decision))
        if decision.why in _WAITS_TOLD and not decision.would and not self._is_dry:
            self._nodes.tell(decision.node, _BLOCKED, f"{decision.why}: {decision.detail}", warning=True)

    def held_up(self, entry: Entry, blocked: Mapping[str, str]) -> None:
        """Tell which pods may not be evicted, once for each entry.

        Args:
            entry: of the node that is emptied.
            blocked: pods, and the words of those who refused.
        """
        if not blocked or entry.id in self._held_up:
            return
        self._held_up.add(entry.id)
        words = "; ".join(f"{pod}: {said}" for pod, said in list(blocked.items())[:_MOST_NAMED])
        detail = f"{len(blocked)} pods may not be evicted now: {words}"
        _LOG.info("held up", node=entry.node, group=entry.group, reason=entry.reason, detail=detail)
        self._tell(entry, _EVENTS[State.NOTIFIED], detail, warning=False)

    def _say_blocked(self, decision: Decision) -> None:
        _LOG.warning("blocked", **_words(decision))
        if decision.would or self._is_dry:
            return
        if decision.why is Why.DISAGREE:
            self._nodes.tell(decision.node, "Disagree", decision.detail, warning=True)
        elif decision.why is not Why.REPLACEMENT_BLOCKED:  # told when its kind was found
            self._nodes.tell(decision.node, _BLOCKED, f"{decision.why}: {decision.detail}", warning=True)

    @property
    def is_all_blocked(self) -> bool:
        """Whether nothing can be done about any node."""
        return self._all is not None

    def all_blocked(self, why: Why, detail: str, struck: Iterable[str]) -> None:
        """Tell that nothing can be done at all.

        Args:
            why: told and counted anew only if this is another one.
            detail: one sentence.
            struck: nodes with a fault; the first few are told, each once.
        """
        self._all_struck = tuple(struck)
        if self._all is not why:
            self._all = why
            self._blocked[why] = self._blocked.get(why, 0) + 1
            _LOG.warning("blocked", why=why, detail=detail)
        for node in self._all_struck:
            if len(self._all_told) < _MOST_TOLD and node not in self._all_told and not self._is_dry:
                self._all_told.add(node)
                self._nodes.tell(node, _BLOCKED, f"{why}: {detail}", warning=True)

    def goes_on(self) -> None:
        """Take in that everything can be seen and written down again."""
        if self._all is not None:
            _LOG.info("everything is seen and written down again", before=self._all)
        self._all = None
        self._all_struck = ()
        self._all_told.clear()

    def blocked_nodes(self, decisions: Iterable[Decision]) -> dict[str, int]:
        """Count the nodes that are blocked now, by why; 0 = that has blocked one before, and blocks none now.

        Args:
            decisions: of the last pass; a node with a fault is counted once, under what blocks all if anything does.
        """
        whys = {each.node: each.why for each in decisions if each.decision == "blocked"}
        if self._all is not None:
            whys |= dict.fromkeys(self._all_struck, self._all)
        return {**dict.fromkeys(self._blocked, 0), **collections.Counter(whys.values())}

    def keep_only(self, nodes: set[str]) -> None:
        """Forget nodes about which nothing is decided any more."""
        for node in [node for node in self._last if node not in nodes]:
            del self._last[node]
        if not nodes:
            self._held_up.clear()

    def tripped(self, storm: Storm) -> None:
        """Tell that a breaker tripped, once."""
        detail = (
            f"{storm.reason} began on {storm.nodes} nodes at once, at most {storm.most} are believed: nothing more is "
            f"done about it until `reset-breaker {storm.reason}`"
        )
        _LOG.warning("breaker tripped", reason=storm.reason, nodes=storm.nodes, most=storm.most)
        if not self._is_dry:
            self._nodes.tell(storm.node, "BreakerTripped", detail, warning=True)

    def group_blocked(self, entry: Entry, why: str) -> None:
        """Tell that a group was blocked."""
        _LOG.warning("group blocked", group=entry.group, why=why)

    def counters(self) -> Counters:
        """Give a copy of all counters, as a snapshot has them."""
        spreads = {
            step: Spread(bounds=_BOUNDS, counts=tuple(counts), total=self._totals[step])
            for step, counts in self._counts.items()
        }
        return {
            "decisions_total": {decision: dict(reasons) for decision, reasons in self._decisions.items()},
            "blocked_total": dict(self._blocked),
            "sequence_seconds": spreads,
        }

    def _tell(self, entry: Entry, event: str, detail: str, *, warning: bool) -> None:
        if not entry.would and not self._is_dry:
            self._nodes.tell(entry.node, event, f"{entry.reason}: {detail}", warning=warning)

    def _count(self, decision: str, reason: str) -> None:
        of = self._decisions.setdefault(decision, {})
        of[reason] = of.get(reason, 0) + 1

    def _time(self, step: str, before: Entry | None, after: Entry, now: datetime) -> None:
        since = after.observed_at if before is None else before.entered_at
        if since is None:
            return
        seconds = max(0.0, (now - since).total_seconds())
        counts = self._counts.setdefault(step, [0] * (len(_BOUNDS) + 1))
        counts[bisect.bisect_left(_BOUNDS, seconds)] += 1
        self._totals[step] = self._totals.get(step, 0.0) + seconds


def _words(decision: Decision) -> dict[str, object]:
    """Give what the log says of a decision that something waits."""
    return {
        "node": decision.node,
        "group": decision.group,
        "reason": decision.reason,
        "why": decision.why,
        "detail": decision.detail,
        "until": decision.until,
        "would": decision.would,
    }
