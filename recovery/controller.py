"""The loop's pass: look, confirm, decide, write the ledger, act, follow.

It depends on the ports only, and whatever they do a pass comes to its end: without a ledger nothing is done, and what
was written and not done is found by the next pass, here or at another leader's.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from recovery import entries, panorama
from recovery.account import Account
from recovery.attention import attend
from recovery.book import Book
from recovery.decision import Snapshot, Why
from recovery.guard import is_enabled
from recovery.hands import Hands
from recovery.lookup import Lookup
from recovery.ports import PortError
from recovery.rebuild import rebuilt
from recovery.sights import Sights
from recovery.storm import storms
from recovery.walk import Tools, Walk
from recovery.watch import Watch
from runtime import logs

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.attention import Attention
    from recovery.decision import Decision
    from recovery.model import Entry, LedgerBody, Sighting
    from recovery.policy import Rules
    from recovery.ports import Cloud, Fleet, Karpenter, Lead, Ledger, Nodes, Points

_LOG = logs.get(__name__)
_AGAIN_SECONDS: Final = 0.2  # after somebody else has written the ledger
_SOONEST_SECONDS: Final = 0.05
_RESIDUE_LOOKED_AT: Final = timedelta(seconds=30)
_MOST_REMEMBERED: Final = 4096


class Controller:
    """Recovery's loop; whoever runs it calls `step` and waits for as long as that says.

    Args:
        rules: what the operator has decided.
        fleet: where metrics come from.
        nodes: Nodes, pods, Events.
        ledger: where entries are kept.
        lead: whether this process leads.
        cloud: Auto Scaling and EC2.
        karpenter: NodeClaims.
        points: CloudWatch.
        poll_seconds: between polls while nothing is wrong.
        busy_seconds: between polls while a fault is active or an entry open.
        is_dry: only tell what would be done now: write nothing, do nothing, say nothing.
    """

    def __init__(
        self,
        *,
        rules: Rules,
        fleet: Fleet,
        nodes: Nodes,
        ledger: Ledger,
        lead: Lead,
        cloud: Cloud,
        karpenter: Karpenter,
        points: Points,
        poll_seconds: float = 5.0,
        busy_seconds: float = 1.0,
        is_dry: bool = False,
    ) -> None:
        self.snapshot = Snapshot()
        self._fleet = fleet
        self._ledger = ledger
        self._points = points
        self._poll_seconds = poll_seconds
        self._busy_seconds = min(busy_seconds, poll_seconds)
        lookup = Lookup(cloud, karpenter, lead)
        self._tools = Tools(
            rules=rules,
            nodes=nodes,
            lead=lead,
            lookup=lookup,
            hands=Hands(nodes, cloud, karpenter, lead, lookup),
            account=Account(nodes, is_dry=is_dry),
            is_dry=is_dry,
        )
        self._watch = Watch()
        self._residue_at: dict[str, datetime] = {}
        self._decisions: dict[str, Decision] = {}
        self._unlifted: dict[str, Decision] = {}  # by entry
        self._left: list[str] = []  # nodes that the last pass did not come to

    def step(self) -> float:
        """Do one pass.

        Returns:
            Seconds until the next one is due.
        """
        if not self._tools.lead.is_held():
            self._watch = Watch()  # what another leader has seen meanwhile is not known here
            self.snapshot = Snapshot()
            return self._poll_seconds
        sighting = self._fleet.look()
        self._publish(sighting)
        try:
            return self._pass(sighting)
        except PortError as error:
            self._say_source(sighting, error)
            self.snapshot = replace(
                self.snapshot,
                leader=True,
                source=sighting.why_blind,
                trouble=str(error),
                observations={},  # those of before would look as if somebody still looked
                blocked_nodes=self._tools.account.blocked_nodes(self._decisions.values()),
                **self._tools.account.counters(),
            )
            return _AGAIN_SECONDS if error.conflict else self._busy_seconds

    def _publish(self, sighting: Sighting) -> None:
        """Hand counts over, but none if nothing was seen: silence is an alarm of its own."""
        if sighting.why_blind is None and not self._tools.is_dry:
            counts, nodes = panorama.fault_points(sighting)
            account = self._tools.account
            decisions, body = self.snapshot.decisions, self.snapshot.ledger
            blocked = panorama.blocked_points(decisions, body, is_all_blocked=account.is_all_blocked)
            self._points.publish({**counts, **blocked}, nodes)

    def _pass(self, sighting: Sighting) -> float:
        book = Book(self._ledger, self._load(), is_dry=self._tools.is_dry)
        paused, now = self._ledger.paused(), self._ledger.now()
        self._watch.look(sighting, now)
        self._tools.lookup.begin(now)
        self._tidy(book, sighting, now)
        attention = attend(sighting, book.body, self._tools.rules, self._watch, now)
        sights = Sights(self._tools.nodes, sighting, self._tools.rules, self._watch, now)
        walk = Walk(self._tools, book, sights, paused=paused, fleet=sighting.fleet, now=now)
        waiting = (*attention.read, *attention.unread)  # who is not reached keeps what was decided about it
        decisions = {name: self._decisions[name] for name in waiting if name in self._decisions}
        for decision in panorama.set_aside(attention.stopped, attention.ignored, sighting, self._tools.rules):
            decisions[decision.node] = decision
        trouble = self._walk(walk, attention, book, decisions, now)
        for decision in decisions.values():
            self._tools.account.decided(decision)
        self._tools.account.keep_only(set(decisions))
        self._decisions = decisions
        self._say_source(sighting, trouble)
        self.snapshot = Snapshot(
            at=now,
            leader=True,
            source=sighting.why_blind,
            trouble=None if trouble is None else str(trouble),
            paused=walk.paused,
            blind=sighting.blind,
            observations=panorama.observations(sighting, sights.health, attention.ignored),
            decisions=panorama.gravest_first(decisions.values()),
            blocked_nodes=self._tools.account.blocked_nodes(decisions.values()),
            ledger=book.body,
            open_entries=panorama.open_entries(book.body),
            budget_remaining=self._remaining(book.body, decisions, sighting, now),
            breaker_tripped=panorama.breakers(sighting, book.body, self._tools.rules),
            replacement_blocked=panorama.replacements_blocked(book.body),
            oldest_open=panorama.oldest_open(book.body),
            **self._tools.account.counters(),
        )
        if trouble is not None:
            return _AGAIN_SECONDS if trouble.conflict else self._busy_seconds
        return self._delay(sighting, book.body, decisions, now)

    def _load(self) -> LedgerBody:
        """Load the ledger, or make a lost one anew before anything is begun. Raises PortError."""
        body = self._ledger.load()
        if body is not None:
            return body
        body = rebuilt(self._tools.nodes.fenced(), self._ledger.now())
        if body.entries:
            _LOG.warning("the ledger was lost, made anew of the Nodes that are fenced", entries=len(body.entries))
        if not self._tools.is_dry:
            self._ledger.save(body)
        return body

    def _say_source(self, sighting: Sighting, trouble: PortError | None) -> None:
        """Tell what keeps everything from being done; another's write is nothing to tell, the next pass comes at once.

        Args:
            sighting: the poll.
            trouble: what ended the pass early; None = nothing did.
        """
        account, rules = self._tools.account, self._tools.rules
        if trouble is not None and not trouble.conflict:
            struck = sorted(name for name, seen in sighting.seen.items() if seen.faults and is_enabled(seen, rules))
            account.all_blocked(Why.API_UNKNOWN, str(trouble), struck)
        elif sighting.why_blind is not None:
            needs = sighting.why_blind.startswith(Why.NEEDS_PROMETHEUS)
            account.all_blocked(Why.NEEDS_PROMETHEUS if needs else Why.BLIND, sighting.why_blind, ())
        elif trouble is None:
            account.goes_on()

    def _tidy(self, book: Book, sighting: Sighting, now: datetime) -> None:
        """Write down what follows from the poll alone: storms, and what would be done no longer. Raises PortError."""
        body = entries.tidy(
            book.body,
            now,
            healed=panorama.healed(book.body, sighting),
            enabled=[name for name, seen in sighting.seen.items() if is_enabled(seen, self._tools.rules)],
        )
        new = storms(sighting, body, self._tools.rules, self._watch, now)
        if new:
            body = replace(body, tripped={**body.tripped, **{storm.reason: now for storm in new}})
        if body is not book.body:
            book.write(body)
        for storm in new:
            self._tools.account.tripped(storm)

    def _walk(
        self, walk: Walk, attention: Attention, book: Book, decisions: dict[str, Decision], now: datetime
    ) -> PortError | None:
        """Walk the nodes, then see to fences that were left; tell what ended it early."""
        try:
            self._walk_nodes(walk, attention.read, decisions)
            self._walk_residues(walk, entries.residues(book.body), decisions, now)
            book.flush()
        except PortError as error:
            return error
        return None

    def _walk_nodes(self, walk: Walk, names: list[str], decisions: dict[str, Decision]) -> None:
        """Walk nodes until the pass has taken too long; the next one begins with those that are left."""
        places = {name: place for place, name in enumerate(self._left)}
        turn = sorted(names, key=lambda name: places.get(name, len(places)))
        self._left = []
        for number, name in enumerate(turn):
            if number and walk.is_over():
                self._left = turn[number:]
                _LOG.warning("pass ended early: it has taken too long", left=len(self._left))
                return
            decision = walk.node(name)
            decisions.pop(name, None)
            if decision is not None:
                decisions[name] = decision

    def _walk_residues(self, walk: Walk, residues: list[Entry], decisions: dict[str, Decision], now: datetime) -> None:
        """See to fences that were left; one that should be lifted and is not stays told until it is looked at again."""
        self._unlifted = {entry.id: self._unlifted[entry.id] for entry in residues if entry.id in self._unlifted}
        for number, entry in enumerate(residues):
            if self._is_due(entry, now) and not (number and walk.is_over()):
                told = walk.residue(entry)
                self._unlifted.pop(entry.id, None)
                if told is not None:
                    self._unlifted[entry.id] = told
            if entry.id in self._unlifted:
                decisions.setdefault(entry.node, self._unlifted[entry.id])

    def _is_due(self, entry: Entry, now: datetime) -> bool:
        """Tell whether it is time to look at a fence that was left; those that should be gone in each pass."""
        last = self._residue_at.get(entry.id)
        if entry.outcome not in entries.LIFTED_AT_ONCE and last is not None and now - last < _RESIDUE_LOOKED_AT:
            return False
        if len(self._residue_at) > _MOST_REMEMBERED:
            self._residue_at.clear()
        self._residue_at[entry.id] = now
        return True

    def _remaining(
        self, body: LedgerBody, decisions: dict[str, Decision], sighting: Sighting, now: datetime
    ) -> dict[str, int]:
        groups = {decision.group for decision in decisions.values()} | set(panorama.open_entries(body))
        known = {group: self._tools.lookup.known(group) for group in groups if group}
        return panorama.budget_remaining(body, known, self._tools.rules, sighting.fleet, now)

    def _delay(self, sighting: Sighting, body: LedgerBody, decisions: dict[str, Decision], now: datetime) -> float:
        """Tell when the next pass is due: sooner while something is wrong, and when something is known to change."""
        is_busy = any(seen.faults for seen in sighting.seen.values()) or any(map(entries.is_open, body.entries))
        delay = self._busy_seconds if is_busy else self._poll_seconds
        for decision in decisions.values():
            if decision.until is not None and decision.until > now:
                delay = min(delay, (decision.until - now).total_seconds())
        return max(delay, _SOONEST_SECONDS)
