"""Walks nodes through their moves during one pass: ask what is needed, write the ledger, act, look again.

Several steps may follow each other in one pass, so that no step waits for a poll; after a call to the cloud the walk
ends, for only a later answer tells what came of it. A pass may take a minute, and in it somebody may have paused
recovery, opted a node out or cleared its fault: nothing that begins with a node, empties it or gives it away is done
unless it is decided once more of a pause and a Node that were read just then. Must never decide.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from recovery import entries
from recovery.decide import decide
from recovery.decision import Decision, Why
from recovery.following import is_overdue
from recovery.guard import identity, is_enabled
from recovery.model import State, Way
from recovery.moves import ON_CLOUD, Act, Context, Need, Step, Wait
from recovery.ports import PortError
from recovery.residue import Residue, residue
from recovery.standing import Found

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.account import Account
    from recovery.book import Book
    from recovery.hands import Hands
    from recovery.lookup import Lookup
    from recovery.model import Entry, LedgerBody
    from recovery.moves import Move, View
    from recovery.policy import Rules
    from recovery.ports import Lead, Nodes
    from recovery.sights import Sights

_MOST_MOVES: Final = 24  # of one node in a pass: its longest way has some fifteen
_DECIDED_TWICE: Final = (ON_CLOUD - {Act.UNMARK}) | {Act.FENCE}  # what undoes something is never held up
_LONGEST: Final = timedelta(seconds=60)  # a pass: what it has seen is too old then, and its loop would pass for stuck
_QUIET: Final = frozenset({Why.NO_ACTION, Why.ALREADY_DONE, Why.NOT_ENABLED})


class Tools(NamedTuple):
    """What a pass works with, the same for all passes."""

    rules: Rules
    nodes: Nodes
    lead: Lead
    lookup: Lookup
    hands: Hands
    account: Account
    is_dry: bool


class _Taken(NamedTuple):
    written: Entry | None
    view: View
    trouble: Wait | None
    is_last: bool


class Walk:
    """One pass over nodes.

    Args:
        tools: what is the same for all passes.
        book: the ledger.
        sights: what is seen.
        paused: why recovery is paused; None = it is not.
        fleet: how many nodes have a detector; None = unknown.
        now: the time of the pass.
    """

    def __init__(
        self, tools: Tools, book: Book, sights: Sights, *, paused: str | None, fleet: int | None, now: datetime
    ) -> None:
        self._tools = tools
        self._book = book
        self._sights = sights
        self._paused = paused
        self._fleet = fleet
        self._now = now

    @property
    def paused(self) -> str | None:
        """Why recovery is paused, as far as was seen last."""
        return self._paused

    def is_over(self) -> bool:
        """Tell whether the pass has taken so long that the next node has to wait for a new look at the fleet."""
        return self._book.now() - self._now >= _LONGEST

    def node(self, name: str) -> Decision | None:
        """Take the steps of a node that can be taken now.

        Returns:
            What is decided about it at the end; None = nothing is wrong with it, or it is over.

        Raises:
            PortError: the ledger could not be written: nothing may be done any more in this pass.
        """
        view = self._sights.view(name, self._book.open_of(name))
        written: Entry | None = None
        sure: Move | None = None
        is_fresh = True  # nothing was asked or done since the Node was read
        for number in range(_MOST_MOVES):
            if number and self.is_over():
                break
            entry = self._book.open_of(name)
            move = decide(entry, view, self._context())
            if isinstance(move, Wait):
                return self._waits(move, entry, view, written)
            if self._is_grave(move) and move != sure:
                view, sure, is_fresh = self._looked_at_again(view, entry, reads=not is_fresh), move, True
                continue
            is_fresh = False
            if isinstance(move, Need):
                view = self._learn(move, entry, view)
                continue
            taken = self._take(move, entry, view)
            written, view = taken.written or written, taken.view
            is_fresh = move.act is Act.FENCE
            if taken.is_last:
                self._copy(written, view)
                return self._last(move, view, taken.trouble)
        self._copy(written, view)
        trouble = Wait(why=Why.STEP_TAKEN, detail="goes on in the next pass")
        return self._decision(self._book.open_of(name), view, trouble)

    def residue(self, entry: Entry) -> Decision | None:
        """See to a fence that was left.

        Args:
            entry: closed, its fence not lifted.

        Returns:
            Why it should be lifted and is not; None = it is, or it should stay.
        """
        view = self._sights.view(entry.node, entry)
        fate = residue(entry, view, self._tools.rules)
        if self._tools.is_dry or fate is Residue.KEEP:
            return None
        if fate is Residue.FORGET:
            self._book.remember(replace(entry, added=()))
            return None
        trouble = self._tools.hands.do(Act.LIFT, entry, view.facts, self._book, self._now)
        if trouble is None or not trouble.blocked:
            return None
        return self._told(entry, replace(trouble, detail=f"its fence is not lifted: {trouble.detail}"))

    def _context(self, body: LedgerBody | None = None) -> Context:
        return Context(
            rules=self._tools.rules,
            body=body or self._book.body,
            paused=self._paused,
            fleet=self._fleet,
            now=self._now,
        )

    def _is_grave(self, move: Move) -> bool:
        """Tell whether a move begins with a node, empties it or gives it away."""
        if self._tools.is_dry or not isinstance(move, Step):
            return move is Need.DRAIN and not self._tools.is_dry
        begins = move.entry.state is State.ADMITTED and move.entry.outcome is None
        return not move.entry.would and (begins or move.act in _DECIDED_TWICE)

    def _looked_at_again(self, view: View, entry: Entry | None, *, reads: bool = True) -> View:
        """Look at a Node anew, then for a pause; what was asked of others stays as it was answered."""
        if reads:
            fresh = self._sights.view(view.node, entry)
            view = replace(fresh, found=view.found, progress=view.progress, drain_trouble=view.drain_trouble)
        self._paused = self._book.paused()
        return view

    def _learn(self, need: Need, entry: Entry | None, view: View) -> View:
        """Find out what a decision needs."""
        if need is not Need.DRAIN:
            return replace(view, found=self._found(need, entry, view))
        nodes, is_dry = self._tools.nodes, self._tools.is_dry
        if view.facts is None or not (is_dry or self._tools.lead.is_held()):
            return replace(view, drain_trouble="pods are not asked for now")
        try:
            return replace(view, progress=nodes.left(view.facts) if is_dry else nodes.drain(view.facts))
        except PortError as error:
            return replace(view, drain_trouble=str(error))

    def _found(self, need: Need, entry: Entry | None, view: View) -> Found:
        lookup, fresh, facts = self._tools.lookup, need is Need.GROUP_NOW, view.facts
        if entry is not None and (need is Need.FOLLOW or facts is None or entries.is_followed_only(entry)):
            late = is_overdue(entry, self._tools.rules, self._now)
            return lookup.follow(entry, fresh=fresh, failed_since=entry.terminating_at if late else None)
        if facts is None:
            return Found(way=Way.AUTOSCALING, at=self._now, unknown="the Node was not read")
        return lookup.find(facts, identity(facts) or "", fresh=fresh)

    def _take(self, step: Step, before: Entry | None, view: View) -> _Taken:
        """Write a step, then do it, if it is still right when it is written."""
        tools, entry = self._tools, step.entry
        refused = tools.hands.refuse(step.act)
        if refused is not None or tools.is_dry:
            return _Taken(None, view, refused or Wait(why=Why.STEP_TAKEN, detail=step.detail), is_last=True)
        if step.blocks_group is not None:
            blocked = {**self._book.body.blocked_groups, entry.group: step.blocks_group}
            self._book.write(replace(self._book.body, blocked_groups=blocked))
            tools.account.group_blocked(entry, step.blocks_group)
            return _Taken(None, view, None, is_last=False)
        body = self._book.body
        known = next((old for old in body.entries if old.id == entry.id), None)
        is_new = entry != known  # a fence that is put up once more was written down before
        if is_new:
            self._book.put(entry)
        if step.act in _DECIDED_TWICE and not entry.would:
            view = self._looked_at_again(view, before)
            refused = tools.hands.refuse(step.act)
            if refused is not None or decide(before, view, self._context(body)) != step:
                self._book.take_back(body)
                return _Taken(None, view, refused, is_last=refused is not None)
        if is_new:
            tools.account.stepped(known, entry, step.detail, self._now)
        trouble = tools.hands.do(step.act, entry, view.facts, self._book, self._now)
        if trouble is None and step.act in ON_CLOUD:
            trouble = Wait(why=Why.STEP_TAKEN, detail=step.detail)
        if trouble is None and step.act is Act.FENCE:
            view = self._sights.view(view.node, entry)
        return _Taken(entry, view, trouble, is_last=trouble is not None or entry.outcome is not None)

    def _waits(self, wait: Wait, entry: Entry | None, view: View, written: Entry | None) -> Decision | None:
        """Tell how a walk ended with nothing to do now."""
        if entry is not None and view.progress is not None:
            self._tools.account.held_up(entry, view.progress.blocked)
        self._copy(written, view)
        return self._decision(entry, view, wait)

    def _last(self, step: Step, view: View, trouble: Wait | None) -> Decision | None:
        """Tell how a walk ended with a step."""
        entry = step.entry
        if self._tools.is_dry and trouble is not None:
            name = entry.state if entry.outcome is None else entry.outcome
            return replace(self._told(entry, trouble), decision=name.value)
        if trouble is None or entry.outcome is not None:
            return None
        return self._told(self._book.open_of(view.node) or entry, trouble)

    def _copy(self, written: Entry | None, view: View) -> None:
        """Bring the copy on the Node up to date; where a fence was lifted there is none."""
        if written is None:
            return
        now = next((entry for entry in self._book.body.entries if entry.id == written.id), written)
        if now.outcome is None or now.added:
            self._tools.hands.copy(now, view.facts)

    def _decision(self, entry: Entry | None, view: View, wait: Wait) -> Decision | None:
        fault = view.judgement.fault
        if entry is not None or fault is None:
            return None if entry is None else self._told(entry, wait)
        would = entries.would_of(self._book.body, view.node, fault.reason)
        return Decision(
            node=view.node,
            group="" if view.found is None else view.found.name or "",
            reason=fault.reason,
            fault_class=fault.fault_class,
            action=fault.action,
            state=None if would is None else would.state,
            decision=_name(wait),
            why=wait.why,
            detail=wait.detail,
            until=wait.until,
            would=is_enabled(view.seen, self._tools.rules) is False,
        )

    def _told(self, entry: Entry, wait: Wait) -> Decision:
        why = self._tools.hands.unmade(entry) or wait if wait.unmade else wait
        return Decision(
            node=entry.node,
            group=entry.group,
            reason=entry.reason,
            fault_class=entry.class_,
            action=entry.action,
            state=entry.state,
            decision=_name(wait),
            why=why.why,
            detail=why.detail,
            until=wait.until,
            would=entry.would,
        )


def _name(wait: Wait) -> str:
    if wait.why in _QUIET:
        return "none"
    return "blocked" if wait.blocked else "wait"
