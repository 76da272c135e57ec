"""Does outside what the ledger says was begun: each act through a port, each failure one sentence.

Must never decide, and never act for a leader that may have been replaced. What failed may have happened all the same:
the next look at the world tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from recovery import entries
from recovery.decision import Why
from recovery.model import State
from recovery.moves import ON_CLOUD, Act, Wait
from recovery.ports import PortError
from runtime import logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from recovery.book import Book
    from recovery.lookup import Lookup
    from recovery.model import Entry, NodeFacts
    from recovery.ports import Cloud, Karpenter, Lead, Nodes

_LOG = logs.get(__name__)
_MOST_REMEMBERED: Final = 1000
_GIVING_AWAY: Final = frozenset({Act.MARK, Act.REBOOT, Act.RELEASE_CLAIM})


class Hands:
    """What acts.

    Args:
        nodes: the API server.
        cloud: Auto Scaling and EC2.
        karpenter: NodeClaims.
        lead: whether this process may act.
        lookup: told when what it knows has changed.
    """

    def __init__(self, nodes: Nodes, cloud: Cloud, karpenter: Karpenter, lead: Lead, lookup: Lookup) -> None:
        self._nodes = nodes
        self._cloud = cloud
        self._karpenter = karpenter
        self._lead = lead
        self._lookup = lookup
        self._unmade: dict[str, Wait] = {}

    def unmade(self, entry: Entry) -> Wait | None:
        """Tell why the last call for an entry was certainly not made; None = not known here."""
        return self._unmade.get(entry.id)

    def refuse(self, act: Act) -> Wait | None:
        """Tell why an act must not even be written down; None = it may."""
        may = self._lead.is_fresh() if act in ON_CLOUD else self._lead.is_held()
        return None if may else Wait(why=Why.API_UNKNOWN, detail="the Lease was not renewed in time")

    def do(self, act: Act, entry: Entry, facts: NodeFacts | None, book: Book, now: datetime) -> Wait | None:
        """Do what was written down.

        Args:
            act: what.
            entry: as it was written.
            facts: the Node as it was read in this pass; None = it is gone.
            book: takes what has to be remembered.
            now: the time.

        Returns:
            Why it may not have been done; None = it was.
        """
        if act is Act.NONE:
            return None
        refused = self.refuse(act)
        if refused is not None:
            return refused
        try:
            if act in ON_CLOUD:
                self._call(act, entry, facts)
                book.remember(replace(entry, accepted=True))
            else:
                self._change_node(act, entry, facts, book)
        except PortError as error:
            return self._failed(act, entry, error, book, now)
        finally:
            if act in ON_CLOUD:
                self._lookup.forget(entry)
        return None

    def copy(self, entry: Entry, facts: NodeFacts | None) -> None:
        """Bring the copy on the Node up to date, if that is possible: it is for people, and for a lost ledger."""
        if facts is None or entry.would or not self._lead.is_held():
            return
        try:
            self._nodes.annotate(facts, entry)
        except PortError as error:
            _LOG.info("the copy of an entry on its Node is not up to date", node=entry.node, error=str(error))

    def _change_node(self, act: Act, entry: Entry, facts: NodeFacts | None, book: Book) -> None:
        if facts is None:
            raise PortError("the Node was not read")
        if act is Act.LIFT:
            self._nodes.lift(facts, entry.added)
            book.remember(replace(entry, added=()))
            return
        added = self._nodes.fence(facts, entry)
        book.remember(replace(entry, added=tuple(sorted({*entry.added, *added}))))

    def _call(self, act: Act, entry: Entry, facts: NodeFacts | None) -> None:
        calls: dict[Act, Callable[[str], None]] = {
            Act.MARK: self._cloud.set_unhealthy,
            Act.UNMARK: self._cloud.set_healthy,
            Act.FORCE: self._cloud.terminate,
            Act.REBOOT: self._cloud.reboot,
        }
        if act in calls:
            calls[act](entry.instance)
        elif facts is not None:
            self._karpenter.terminate(facts)
        else:
            raise PortError("the Node was not read")

    def _failed(self, act: Act, entry: Entry, error: PortError, book: Book, now: datetime) -> Wait:
        """Tell what failed.

        A call that was denied or never sent was certainly not made. The entry goes back to where everything can still
        be undone: else a fault that is over, an opt-out or a pause would be of no effect as long as the permission
        lacks, though the machine was never given away.
        """
        why = Why.CLOUD_UNKNOWN if act in ON_CLOUD else Why.API_UNKNOWN
        why = why if error.denied is None else Why.ACCESS_DENIED
        if act in _GIVING_AWAY and (error.denied is not None or error.unsent):
            book.remember(entries.enter(entry, State.DRAINED, now, terminating_at=None, members=()))
            if len(self._unmade) > _MOST_REMEMBERED:
                self._unmade.clear()
            self._unmade[entry.id] = Wait(why=why, detail=str(error), blocked=True)
            return self._unmade[entry.id]
        return Wait(why=why, detail=str(error), blocked=not error.conflict)
