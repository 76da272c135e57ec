"""Emptying a fenced node through the Eviction API, so that PodDisruptionBudgets are respected.

An edge. It asks and looks, pass by pass, and never waits: how long a drain may take is not its business. Must never
delete a pod, and never ask about a pod of another node.

Source: kubernetes.io/docs/concepts/scheduling-eviction/api-eviction; k8s.io/kubernetes v1.36.3,
pkg/registry/core/pod/storage/eviction.go (read 2026-11-29).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from recovery import api
from recovery.evictable import Pod, has_to_go
from recovery.ports import DrainProgress
from runtime.rest import Rest, RestError

if TYPE_CHECKING:
    from recovery.model import NodeFacts
    from runtime.clock import Clock

_PART: Final = 100
_PASS_SECONDS: Final = 10.0  # evictions of one pass end here; the next pass goes on
_AGAIN_SECONDS: Final = 5.0  # as kubectl drain does
_LATEST_AGAIN_SECONDS: Final = 30.0
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_TOO_MANY_REQUESTS: Final = 429
_UNANSWERED: Final = frozenset({None, 401, 502, 503})  # of the API server itself, whatever the pod
_BUDGET: Final = "DisruptionBudget"
_NAMESPACE_ENDS: Final = "NamespaceTerminating"


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: tuple[_Cause, ...] | None = None


class _Status(msgspec.Struct):
    """A Status object: what a refusal says, and with 201 an eviction that was refused all the same."""

    kind: str = ""
    status: str = ""
    message: str = ""
    details: _Details | None = None

    def cause(self, reason: str) -> str | None:
        """Give the message of a cause; None = it is not one of the causes."""
        causes = (self.details.causes if self.details else None) or ()
        return next((each.message for each in causes if each.reason == reason), None)


class Drain:
    """Evictions.

    Args:
        rest: the API server.
        clock: the time.
    """

    def __init__(self, rest: Rest, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock
        self._refused: dict[str, tuple[float, str]] = {}  # pod uid to when to ask again, and why not

    def drain(self, node: NodeFacts) -> DrainProgress:
        """Ask for the eviction of every pod that has to go, and tell what is left; see `ports.Nodes`.

        A pod that was refused a moment ago is not asked about, and told with the words of that refusal.

        Raises:
            PortError: pods could not be listed, or eviction is not allowed to us, or the API server does not answer.
        """
        recent = self._recent()
        deadline = self._clock.monotonic() + _PASS_SECONDS
        left: list[str] = []
        blocked: dict[str, str] = {}
        for pod in self._pods(node):
            left.append(pod.name)
            if pod.is_ending or self._clock.monotonic() > deadline:
                continue
            refusal = recent.get(pod.metadata.uid) or self._evict(pod)
            if refusal is None:
                continue
            self._refused[pod.metadata.uid] = refusal
            if refusal[1]:
                blocked[pod.name] = refusal[1]
        return DrainProgress(left=tuple(left), blocked=blocked)

    def left(self, node: NodeFacts) -> DrainProgress:
        """Tell which pods have to go, and ask for nothing; see `ports.Nodes`.

        Raises:
            PortError: pods could not be listed.
        """
        return DrainProgress(left=tuple(pod.name for pod in self._pods(node)), blocked={})

    def _recent(self) -> dict[str, tuple[float, str]]:
        """Keep only the refusals that still hold."""
        now = self._clock.monotonic()
        self._refused = {uid: refusal for uid, refusal in self._refused.items() if now < refusal[0]}
        return self._refused

    def _pods(self, node: NodeFacts) -> list[Pod]:
        path = f"/api/v1/pods?fieldSelector={quote(f'spec.nodeName={node.name}', safe='')}"
        return [pod for pod in api.listed(self._rest, path, Pod, part=_PART) if has_to_go(pod, node.taints)]

    def _evict(self, pod: Pod) -> tuple[float, str] | None:
        """Ask for one eviction.

        Returns:
            None: it is on its way, or gone. Else when to ask again, and why not; "" = nothing to tell about it.
        """
        metadata = pod.metadata
        path = f"/api/v1/namespaces/{quote(metadata.namespace, safe='')}/pods/{quote(metadata.name, safe='')}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace},
            "deleteOptions": {"preconditions": {"uid": metadata.uid}},
        }
        try:
            answer = _status(self._rest.request("POST", path, body=body))
        except RestError as error:
            return self._refusal(error)
        # With several PodDisruptionBudgets for one pod, the server answers 201 with a Status that says Failure, 500.
        return self._later(answer.message) if answer.status == "Failure" else None

    def _refusal(self, error: RestError) -> tuple[float, str] | None:
        """Read a refusal.

        Raises:
            PortError: it is not about this pod.
        """
        if error.status in (_NOT_FOUND, _CONFLICT):  # gone, or another pod has its name
            return None
        status = _status(error.body)
        words = status.cause(_BUDGET)
        if error.status == _TOO_MANY_REQUESTS and words is not None:
            return self._later(words or status.message, error.retry_after_seconds or 0.0)
        if status.cause(_NAMESPACE_ENDS) is not None:  # all that is in it goes without us
            return self._later("")
        failure = api.port_error(error)
        is_general = error.status in _UNANSWERED or error.status == _TOO_MANY_REQUESTS or status.kind != "Status"
        if is_general or failure.denied is not None:
            raise failure from error
        return self._later(status.message)

    def _later(self, words: str, seconds: float = 0.0) -> tuple[float, str]:
        wait = min(max(seconds, _AGAIN_SECONDS), _LATEST_AGAIN_SECONDS)
        return self._clock.monotonic() + wait, words


def _status(text: bytes) -> _Status:
    try:
        return msgspec.json.decode(text, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Status()
