"""NodeClaims: how the machine of a Karpenter node is ended.

An edge. The NodeClaim is deleted, never the Node, and only the one that was looked at: its UID is a precondition of
each request. The annotation comes first: without it Karpenter waits for PodDisruptionBudgets and do-not-disrupt pods
for ever; with it the pods that are left are deleted.

Source: sigs.k8s.io/karpenter v1.14.1, pkg/controllers/node/{health/controller,termination/terminator/terminator}.go,
pkg/controllers/nodeclaim/lifecycle/controller.go, pkg/apis/v1/labels.go (read 2026-11-29).
"""

from __future__ import annotations

import collections
from datetime import datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from recovery import api
from recovery.facts import Node, facts
from recovery.ports import PortError
from runtime.rest import MERGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.model import NodeFacts
    from runtime.rest import Rest

_API: Final = "/apis/karpenter.sh/v1"
_NODES: Final = "/api/v1/nodes"
_NODE_CLAIMS: Final = f"{_API}/nodeclaims"
_NODE_POOLS: Final = f"{_API}/nodepools"
_POOL_LABEL: Final = "karpenter.sh/nodepool"
_TERMINATION: Final = "karpenter.sh/nodeclaim-termination-timestamp"
_PART: Final = 250
_MOST_KNOWN: Final = 1000


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class _ClaimStatus(msgspec.Struct, rename={"provider_id": "providerID"}):
    provider_id: str = ""


class _NodeClaim(msgspec.Struct):
    metadata: _Metadata
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)


class _PoolStatus(msgspec.Struct):
    nodes: int | None = None
    resources: dict[str, str | int] | None = None


class _NodePool(msgspec.Struct):
    status: _PoolStatus = msgspec.field(default_factory=_PoolStatus)


class KarpenterClaims:
    """The cluster's NodeClaims; implements `ports.Karpenter`.

    Args:
        rest: the API server; not shared with another thread.
        now: the API server's time.
    """

    def __init__(self, rest: Rest, now: Callable[[], datetime]) -> None:
        self._rest = rest
        self._now = now
        self._names: collections.OrderedDict[str, str] = collections.OrderedDict()  # by providerID

    def terminate(self, node: NodeFacts) -> None:
        """Have a node's machine ended, pods that are left included; done already = nothing is sent.

        Raises:
            PortError: it may or may not have begun; conflict = the NodeClaim is another one by now; unsent = the Node
                stands and has no NodeClaim, so that nobody would end its machine.
        """
        if not node.provider_id:
            raise PortError(f"Node {node.name} has no spec.providerID, so that its NodeClaim is not known")
        claim = self._find(node.provider_id, node.nodepool)
        if claim is None:
            self._check_gone(node.name, node.provider_id)
            return
        self._let_go(claim)
        if claim.metadata.deletion_timestamp is None:
            self._delete(claim)

    def is_gone(self, node: str, provider_id: str) -> bool:
        """Tell whether no NodeClaim has this providerID any more.

        Args:
            node: its name, for messages.
            provider_id: whole.

        Raises:
            PortError: it is not known; or there is none, and the Node stands all the same: that ended nothing.
        """
        if not provider_id:
            raise PortError(f"Node {node} had no spec.providerID, so that its NodeClaim is not known")
        name = self._names.get(provider_id)
        if name is not None and self._is_there(name, provider_id):
            return False
        if self._find(provider_id, None) is not None:
            return False
        self._check_gone(node, provider_id)
        return True

    def size(self, nodepool: str) -> int | None:
        """Tell how many nodes a NodePool has; None = it does not say.

        Raises:
            PortError: the NodePool cannot be read.
        """
        status = api.get(self._rest, f"{_NODE_POOLS}/{quote(nodepool, safe='')}", _NodePool).status
        return status.nodes or _count((status.resources or {}).get("nodes", ""))

    def _find(self, provider_id: str, nodepool: str | None) -> _NodeClaim | None:
        """Look for the NodeClaim of a machine; the API server cannot select it by its status.

        Raises:
            PortError: there are two: which of them is meant, Karpenter does not know either.
        """
        selector = f"?labelSelector={quote(f'{_POOL_LABEL}={nodepool}', safe='')}" if nodepool else ""
        claims = api.listed(self._rest, f"{_NODE_CLAIMS}{selector}", _NodeClaim, part=_PART)
        found = [claim for claim in claims if claim.status.provider_id == provider_id]
        if len(found) > 1:
            names = ", ".join(claim.metadata.name for claim in found)
            raise PortError(f"the NodeClaims {names} have the same providerID {provider_id}")
        if not found:
            return None
        self._names[provider_id] = found[0].metadata.name
        if len(self._names) > _MOST_KNOWN:
            self._names.popitem(last=False)
        return found[0]

    def _check_gone(self, node: str, provider_id: str) -> None:
        """Refuse to take a Node that never had a NodeClaim for one whose NodeClaim has done its work.

        Karpenter deletes the Node before it lets the NodeClaim go.

        Raises:
            PortError: the Node stands, or cannot be read.
        """
        try:
            found = facts(api.get(self._rest, f"{_NODES}/{quote(node, safe='')}", Node))
        except PortError as error:
            if error.gone:
                return
            raise
        if found.provider_id == provider_id and not found.deleting:
            raise PortError(f"no NodeClaim has the providerID {provider_id} of Node {node}", unsent=True)

    def _is_there(self, name: str, provider_id: str) -> bool:
        try:
            claim = api.get(self._rest, _path(name), _NodeClaim)
        except PortError as error:
            if error.gone:
                return False
            raise
        return claim.status.provider_id == provider_id

    def _let_go(self, claim: _NodeClaim) -> None:
        """Say that its time is over, unless it is said already: a time that is still to come would be waited for."""
        now = self._now()
        written = (claim.metadata.annotations or {}).get(_TERMINATION)
        if written is not None and _is_past(written, now):
            return
        annotations = {_TERMINATION: now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        body = {"metadata": {"uid": claim.metadata.uid, "annotations": annotations}}
        try:
            api.ask(self._rest, "PATCH", _path(claim.metadata.name), body=body, content_type=MERGE)
        except PortError as error:
            if not error.gone:
                raise

    def _delete(self, claim: _NodeClaim) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": claim.metadata.uid}}
        try:
            api.ask(self._rest, "DELETE", _path(claim.metadata.name), body=body)
        except PortError as error:
            if not error.gone:
                raise


def _path(name: str) -> str:
    return f"{_NODE_CLAIMS}/{quote(name, safe='')}"


def _is_past(written: str, now: datetime) -> bool:
    try:
        return datetime.fromisoformat(written) <= now
    except (ValueError, TypeError):
        return False


def _count(quantity: str | int) -> int | None:
    """Read a count that was written as a quantity; a thousand is `1k`."""
    digits = str(quantity).removesuffix("k")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits) * (1000 if digits != str(quantity) else 1) or None
