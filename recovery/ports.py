"""What the loop needs of the world outside, as protocols: the loop and the edges never import each other.

Every call has an end of its own and raises only the error named here; what cannot be known is said, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.model import Entry, Group, LedgerBody, NodeFacts, Sighting

# Tells whether what a leader has decided may still be sent: asked as late as possible.
Permit: TypeAlias = Callable[[], bool]


class PortError(Exception):
    """Something outside refused, failed or did not answer. The outcome of an action is then unknown.

    Args:
        message: one sentence.
        denied: the name of the action that permissions lack; None = another cause.
        conflict: somebody else changed the object since it was read: read again, decide again.
        gone: the object does not exist.
        unsent: certainly nothing was done: it was not sent, or the only time that it was sent it was turned away.
    """

    def __init__(
        self,
        message: str,
        *,
        denied: str | None = None,
        conflict: bool = False,
        gone: bool = False,
        unsent: bool = False,
        answered: bool = False,
    ) -> None:
        super().__init__(message)
        self.denied = denied
        self.conflict = conflict
        self.gone = gone
        self.unsent = unsent
        self.answered = answered


class Fleet(Protocol):
    """Where detectors' metrics come from: their pages, or a Prometheus server."""

    def look(self) -> Sighting:
        """Poll once. Never raises: what cannot be read is blind."""


class DrainProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a drain has come.

    Args:
        left: pods that still have to go, by `namespace/name`.
        blocked: of those, the ones whose eviction a PodDisruptionBudget refused just now, with its words.
    """

    left: tuple[str, ...]
    blocked: dict[str, str]


class Nodes(Protocol):
    """Node objects, pods and Events on the API server."""

    def read(self, name: str) -> NodeFacts:
        """Read a Node. Raises PortError (gone=True: there is none)."""

    def fenced(self) -> list[NodeFacts]:
        """List the Nodes that carry our annotation or taint; only to rebuild a lost ledger. Raises PortError."""

    def fence(self, node: NodeFacts, entry: Entry) -> tuple[str, ...]:
        """Cordon, taint and annotate in one PATCH; return what was added. Raises PortError (conflict)."""

    def annotate(self, node: NodeFacts, entry: Entry) -> None:
        """Bring the copy of the entry on the Node up to date. Raises PortError."""

    def lift(self, node: NodeFacts, added: tuple[str, ...]) -> None:
        """Take away what was added, and only that. Raises PortError (conflict)."""

    def drain(self, node: NodeFacts) -> DrainProgress:
        """Ask for the eviction of every pod that has to go, once, and tell what is left. Raises PortError."""

    def left(self, node: NodeFacts) -> DrainProgress:
        """Tell which pods have to go, and ask for nothing. Raises PortError."""

    def tell(self, node: str, reason: str, message: str, *, warning: bool) -> None:
        """Write or renew an Event on the Node. Never raises: an Event never fails a pass."""


class Ledger(Protocol):
    """Where entries are kept, by compare-and-swap."""

    def load(self) -> LedgerBody | None:
        """Read it; None = there is none (lost, or never made). Raises PortError: unreadable."""

    def save(self, body: LedgerBody) -> None:
        """Write it if nobody has since the last load or save. Raises PortError (conflict)."""

    def paused(self) -> str | None:
        """Tell why recovery is paused; None = it is not. Unreadable = paused. Never raises."""

    def now(self) -> datetime:
        """Tell the API server's time as of its last answer, aware UTC; stand-alone the own clock."""


class Lead(Protocol):
    """Whether this process leads."""

    def is_held(self) -> bool:
        """Tell whether the Lease is ours and may be acted on (not yet expired)."""

    def is_fresh(self) -> bool:
        """Tell whether it was renewed less than 10 s ago: asked before every cloud call."""


class Cloud(Protocol):
    """Auto Scaling and EC2."""

    def begin_round(self) -> None:
        """Begin a pass: all calls until the next begin end within `cloudRound` together; later ones raise at once."""

    def group_of(self, instance: str) -> str | None:
        """Tell an instance's group; None = a complete answer without it. Raises PortError."""

    def group(self, name: str, *, failed_since: datetime | None) -> Group | None:
        """Read a group; None = a complete answer without it. Raises PortError (denied).

        Args:
            name: of the group.
            failed_since: read the newest failed scaling activity that began then or later, too; None = none is read.
        """

    def set_unhealthy(self, instance: str) -> None:
        """Mark Unhealthy, ShouldRespectGracePeriod=false; an answer without request id is a PortError too."""

    def set_healthy(self, instance: str) -> None:
        """Take the mark back. Raises PortError."""

    def terminate(self, instance: str) -> None:
        """Terminate in the group, without decrement (forceTerminate). Raises PortError."""

    def reboot(self, instance: str) -> None:
        """Reboot, one attempt. Raises PortError."""

    def group_by_tag(self, instance: str) -> str | None:
        """Narrow mode: the group from the instance's own tag; None = no such tag. Raises PortError."""

    def running_with_tag(self, group: str) -> frozenset[str]:
        """Narrow mode: running instances that bear the group's tag. Raises PortError."""

    def is_terminated(self, instance: str) -> bool:
        """Narrow mode: the instance is terminated, or EC2 no longer knows it. Raises PortError."""


class Karpenter(Protocol):
    """NodeClaims."""

    def terminate(self, node: NodeFacts) -> None:
        """Annotate and delete the node's NodeClaim with a UID precondition; done already = fine.

        Raises PortError (unsent: the Node stands and has none).
        """

    def is_gone(self, node: str, provider_id: str) -> bool:
        """Tell whether no NodeClaim has this providerID any more. Raises PortError, also if the Node never had one."""

    def size(self, nodepool: str) -> int | None:
        """Tell how many nodes a NodePool has (its status.resources.nodes); None = it does not say. Raises PortError."""


class Points(Protocol):
    """CloudWatch."""

    def publish(self, counts: dict[str, int], nodes: dict[str, tuple[str, ...]]) -> None:
        """Hand over metric values to send; returns at once, never raises, never delays recovery.

        Args:
            counts: metric name (a reason, ReplacementBlocked, RecoveryBlocked) to how many nodes; 0 = none.
            nodes: reason to the nodes it is active on, for the dimension NodeName.
        """
