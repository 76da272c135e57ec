"""Which pods are detectors, where they listen, and how many there should be.

An edge. Pods are looked for by label and listed in small parts, for a whole list of 500 costs megabytes; a list is kept
for a while, since a pod's address and node do not change. It reads no Node.

Source: Kubernetes API, Pod v1 and DaemonSet apps/v1; lists in parts with `limit` and `continue` (read 2026-11-29).
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

import msgspec

from runtime.rest import RestError

if TYPE_CHECKING:
    from runtime.rest import Rest

DETECTOR_APP: Final = "node-problem-detector"  # both the DaemonSet's name and the value of its pods' label `app`
DETECTOR_PORT: Final = 20257
_PORT_NAME: Final = "metrics"
_PART: Final = 100
_MOST_PARTS: Final = 100
_OVER: Final = frozenset(("Succeeded", "Failed"))
_Kind = TypeVar("_Kind")


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None


class _Port(msgspec.Struct, rename="camel"):
    name: str | None = None
    container_port: int = 0


class _Container(msgspec.Struct):
    ports: tuple[_Port, ...] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    containers: tuple[_Container, ...] | None = None


class _Status(msgspec.Struct, frozen=True, rename={"pod_ip": "podIP"}):
    phase: str | None = None
    pod_ip: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = _Status()


class _ListMeta(msgspec.Struct, frozen=True):
    next: str | None = msgspec.field(default=None, name="continue")


class _Pods(msgspec.Struct):
    items: tuple[_Pod, ...]
    metadata: _ListMeta = _ListMeta()


class _Scheduled(msgspec.Struct, rename="camel"):
    desired_number_scheduled: int


class _DaemonSet(msgspec.Struct):
    status: _Scheduled


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A detector.

    Args:
        uid: of the pod: another one under the same address is another detector.
        host: its IP address.
    """

    uid: str
    node: str
    host: str
    port: int
    name: str = ""


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """All detectors of a cluster.

    Args:
        pods: those that can be asked, one a node.
        blind: by node name, why its detector cannot be asked.
    """

    pods: tuple[Pod, ...]
    blind: dict[str, str]


class DetectorPods:
    """The detectors' pods and DaemonSet.

    Args:
        rest: the API server.
        namespace: theirs.
    """

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest = rest
        self._namespace = quote(namespace, safe="")

    def fleet(self) -> int:
        """Count the nodes that should have a detector.

        Raises:
            RestError: the DaemonSet cannot be read.
        """
        path = f"/apis/apps/v1/namespaces/{self._namespace}/daemonsets/{DETECTOR_APP}"
        return _decode(path, self._rest.request("GET", path), _DaemonSet).status.desired_number_scheduled

    def list(self, at_most: int) -> Roster | None:
        """List the detectors.

        Args:
            at_most: stop at more.

        Returns:
            None: there are more.

        Raises:
            RestError: they cannot be listed.
        """
        path = f"/api/v1/namespaces/{self._namespace}/pods?labelSelector=app%3D{DETECTOR_APP}&limit={_PART}"
        found: list[_Pod] = []
        part = ""
        for _ in range(_MOST_PARTS):
            answer = _decode(path, self._rest.request("GET", path + part), _Pods)
            found += (pod for pod in answer.items if pod.spec.node_name and pod.status.phase not in _OVER)
            if len({pod.spec.node_name for pod in found}) > at_most:
                return None
            if not answer.metadata.next:
                return _roster(found)
            part = f"&continue={quote(answer.metadata.next, safe='')}"
        raise RestError(f"GET {path}: a list without end")


def _roster(found: list[_Pod]) -> Roster:
    """Choose the pod that speaks for each node: the one that is not on its way out."""
    by_node: dict[str, list[_Pod]] = {}
    for pod in found:
        by_node.setdefault(pod.spec.node_name or "", []).append(pod)
    pods: dict[str, Pod] = {}
    blind: dict[str, str] = {}
    for node, candidates in by_node.items():
        staying = [pod for pod in candidates if pod.metadata.deletion_timestamp is None]
        if len(staying) > 1:
            blind[node] = f"{len(staying)} detector pods"
        elif not staying:
            blind[node] = "its detector pod is ending"
        elif not staying[0].status.pod_ip:
            blind[node] = "its detector pod has no address yet"
        else:
            pods[node] = _pod(staying[0], node)
    addresses = collections.Counter((pod.host, pod.port) for pod in pods.values())
    shared = {node: pod for node, pod in pods.items() if addresses[pod.host, pod.port] > 1}
    blind |= {node: f"{pod.host} is the address of several detector pods" for node, pod in shared.items()}
    return Roster(pods=tuple(pod for node, pod in pods.items() if node not in shared), blind=blind)


def _pod(pod: _Pod, node: str) -> Pod:
    ports = [port for container in pod.spec.containers or () for port in container.ports or ()]
    named = [port.container_port for port in ports if port.name == _PORT_NAME]
    return Pod(
        uid=pod.metadata.uid,
        node=node,
        host=pod.status.pod_ip or "",
        port=named[0] if named else DETECTOR_PORT,
        name=pod.metadata.name,
    )


def _decode(path: str, text: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RestError(f"GET {path}: not what was asked for: {error}") from error
