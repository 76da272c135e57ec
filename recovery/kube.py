"""Nodes on the API server: read one, fence it, free it, drain it, write Events about it.

An edge. Nodes are read one by one; all of them are listed only to rebuild a lost ledger, because the API server can
select Nodes neither by annotation nor by taint. Must never delete a Node, nor take away what it did not add.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from recovery import api
from recovery.facts import Node, facts
from recovery.fence import Patch, copy_of, is_fenced, to_fence, to_lift
from runtime.rest import MERGE, STRATEGIC_MERGE, Rest
from runtime.vocabulary import RECOVERY_ANNOTATION

if TYPE_CHECKING:
    from recovery.drain import Drain
    from recovery.events import Events
    from recovery.model import Entry, NodeFacts
    from recovery.ports import DrainProgress

_NODES: Final = "/api/v1/nodes"
_PART: Final = 200  # Nodes in one answer of a list: with their images some 4 MB
_MOST_UIDS: Final = 1000


class KubeNodes:
    """The cluster's Nodes; implements `ports.Nodes`.

    Args:
        rest: the API server; not shared with another thread.
        drain: asks for evictions.
        events: writes Events, in a thread of its own.
    """

    def __init__(self, rest: Rest, *, drain: Drain, events: Events) -> None:
        self._rest = rest
        self._drain = drain
        self._events = events
        self._uids: collections.OrderedDict[str, str] = collections.OrderedDict()

    def read(self, name: str) -> NodeFacts:
        """Read a Node.

        Raises:
            PortError: it cannot be read; gone = there is none.
        """
        found = facts(api.get(self._rest, _path(name), Node))
        self._uids[name] = found.uid
        self._uids.move_to_end(name)
        if len(self._uids) > _MOST_UIDS:
            self._uids.popitem(last=False)
        return found

    def fenced(self) -> list[NodeFacts]:
        """List the Nodes that carry our annotation or taint: reads the whole fleet.

        Raises:
            PortError: the list could not be read to its end.
        """
        nodes = (facts(each) for each in api.listed(self._rest, _NODES, Node, part=_PART))
        return [each for each in nodes if is_fenced(each)]

    def fence(self, node: NodeFacts, entry: Entry) -> tuple[str, ...]:
        """Cordon, taint and annotate in one PATCH; nothing is sent if all of it is there already.

        Args:
            node: as it was read just now.
            entry: its class is the taint's value; its copy goes on the Node.

        Returns:
            All that we have added to this Node and not taken away: now, or before a crash.

        Raises:
            PortError: conflict = the Node has changed since it was read; gone = there is none.
        """
        patch, added = to_fence(node, entry)
        self._patch(node, patch)
        return added

    def annotate(self, node: NodeFacts, entry: Entry) -> None:
        """Bring the copy of the entry on the Node up to date.

        Raises:
            PortError: conflict = another Node has the name now.
        """
        copied = copy_of(entry)
        if node.annotations.get(RECOVERY_ANNOTATION) == copied:
            return
        body = {"metadata": {"uid": node.uid, "annotations": {RECOVERY_ANNOTATION: copied}}}
        api.ask(self._rest, "PATCH", _path(node.name), body=body, content_type=MERGE)

    def lift(self, node: NodeFacts, added: tuple[str, ...]) -> None:
        """Take away what was added, and the copy of the entry; nothing is sent if nothing of it is left.

        Args:
            node: as it was read just now.
            added: what the ledger says.

        Raises:
            PortError: conflict = the Node has changed since it was read.
        """
        self._patch(node, to_lift(node, added))

    def drain(self, node: NodeFacts) -> DrainProgress:
        """Ask for the eviction of every pod that has to go, once, and tell what is left.

        Raises:
            PortError: pods could not be listed, or eviction is not allowed to us.
        """
        return self._drain.drain(node)

    def left(self, node: NodeFacts) -> DrainProgress:
        """Tell which pods have to go, and ask for nothing.

        Raises:
            PortError: pods could not be listed.
        """
        return self._drain.left(node)

    def tell(self, node: str, reason: str, message: str, *, warning: bool) -> None:
        """Have an Event written or renewed; returns at once and never raises."""
        self._events.tell(node, self._uids.get(node, node), reason, message, warning=warning)

    def _patch(self, node: NodeFacts, patch: Patch) -> None:
        if patch:
            api.ask(self._rest, "PATCH", _path(node.name), body=patch, content_type=STRATEGIC_MERGE)


def _path(name: str) -> str:
    return f"{_NODES}/{quote(name, safe='')}"
