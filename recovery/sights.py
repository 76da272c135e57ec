"""Looks at nodes during one pass: the detector's word, the Node, and what follows from both.

Reads through the port, one Node at a time, and gives up reading when the API server fails again and again: a pass has
an end. Must never act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from recovery.confirm import Health, Judgement, agreeing, disagrees, faults_of, judge
from recovery.moves import View
from recovery.ports import PortError

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.model import Entry, NodeFacts, Seen, Sighting
    from recovery.policy import Rules
    from recovery.ports import Nodes
    from recovery.watch import Watch

_FAILURES_IN_A_ROW: Final = 3


class Sights:
    """What one pass sees of nodes.

    Args:
        nodes: reads Nodes.
        sighting: the poll of this pass.
        rules: the policies.
        watch: what is remembered from earlier polls.
        now: the time of the pass.
    """

    def __init__(self, nodes: Nodes, sighting: Sighting, rules: Rules, watch: Watch, now: datetime) -> None:
        self.health: dict[str, Health] = {}
        self._nodes = nodes
        self._sighting = sighting
        self._rules = rules
        self._watch = watch
        self._now = now
        self._failures = 0
        self._why = ""

    def view(self, name: str, entry: Entry | None) -> View:
        """Look at a node.

        Args:
            name: of the node.
            entry: of the node, open or with a fence left; None = it has none.
        """
        facts, is_gone, unread = self._read(name)
        seen = self._sighting.seen.get(name)
        judgement = self._judge(name, seen, facts, "" if entry is None else entry.type)
        self.health[name] = judgement.health
        return View(node=name, seen=seen, facts=facts, is_gone=is_gone, unread=unread, judgement=judgement)

    def _read(self, name: str) -> tuple[NodeFacts | None, bool, str | None]:
        if self._failures >= _FAILURES_IN_A_ROW:
            return None, False, f"not read, the API server failed {self._failures} times: {self._why}"
        try:
            facts = self._nodes.read(name)
        except PortError as error:
            is_well = error.gone or error.answered  # one Node that nobody can read must not hide all others
            self._failures = 0 if is_well else self._failures + 1
            self._why = str(error)
            return None, error.gone, None if error.gone else str(error)
        self._failures = 0
        return facts, False, None

    def _judge(self, name: str, seen: Seen | None, facts: NodeFacts | None, type_held: str) -> Judgement:
        if seen is None:
            return Judgement(health=Health.BLIND, detail=f"its detector: {self._why_blind(name)}")
        faults = faults_of(seen, self._rules, self._watch, self._now)
        if facts is None:
            fault = faults[0] if faults else None
            return Judgement(health=Health.BLIND, fault=fault, detail="its Node is gone or cannot be read")
        agree = [fault.reason for fault in agreeing(faults, facts)]
        disagree = disagrees(seen, faults, facts, type_held)
        self._watch.compare(name, agree=agree, disagree=disagree, now=self._now)
        return judge(seen, facts, type_held=type_held, rules=self._rules, watch=self._watch, now=self._now)

    def _why_blind(self, name: str) -> str:
        return self._sighting.why_blind or self._sighting.blind.get(name) or "not among those that were found"
