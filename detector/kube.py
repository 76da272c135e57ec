"""The detector's own Node on the API server: read it, patch its conditions, write Events about it.

An edge. It may speak about its own Node only, and of that only about its own conditions, its own annotation, and the
removal of an operator's request; ValidatingAdmissionPolicy holds it to that.

Source: Kubernetes API, Node v1 and Event v1; conditions merge by `type` in a strategic merge patch
(k8s.io/api/core/v1/types.go, NodeStatus.Conditions; read 2026-11-29).
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from detector.seen import NodeSeen, Owner, SeenCondition
from runtime.identity import is_instance_id
from runtime.rest import STRATEGIC_MERGE, Rest, RestError
from runtime.vocabulary import CLEAR_ANNOTATION, DETECTOR_ANNOTATION, Status

if TYPE_CHECKING:
    from detector.model import Announcement, Condition

COMPONENT: Final = "chipwarden-detector"
_EVENTS: Final = "/api/v1/namespaces/default/events"  # where Events of things without a namespace go
_CONFLICT = 409


class _Metadata(msgspec.Struct):
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename={"provider_id": "providerID"}):
    provider_id: str | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_heartbeat_time: datetime | None = None


class _Status(msgspec.Struct):
    conditions: tuple[_Condition, ...] | None = None


class _Node(msgspec.Struct):
    """The few fields of a Node that are read; all others, however odd, are passed over without being decoded."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class NodeClient:
    """The own Node.

    Args:
        rest: the API server.
        name: the Node's name.
    """

    def __init__(self, rest: Rest, name: str) -> None:
        self._rest = rest
        self._name = name
        self._path = f"/api/v1/nodes/{quote(name, safe='')}"
        self._uid = ""

    def read(self) -> NodeSeen:
        """Read the Node.

        Raises:
            RestError: it cannot be read, or there is none of that name yet.
        """
        return self._seen(self._rest.request("GET", self._path))

    def patch(self, conditions: list[dict[str, str]], owner: Owner, *, remove_clear: bool) -> NodeSeen:
        """Write conditions; those of others survive, because conditions merge by type.

        Args:
            conditions: as the API server takes them.
            owner: for which instance and boot they hold.
            remove_clear: an operator's request has been met.

        Returns:
            The Node as it is now.

        Raises:
            RestError: they were not taken.
        """
        annotations: dict[str, str | None] = {DETECTOR_ANNOTATION: msgspec.json.encode(owner).decode()}
        if remove_clear:
            annotations[CLEAR_ANNOTATION] = None
        body = {"metadata": {"annotations": annotations}, "status": {"conditions": conditions}}
        return self._seen(self._rest.request("PATCH", f"{self._path}/status", body=body, content_type=STRATEGIC_MERGE))

    def tell(self, announcement: Announcement, boot: str) -> None:
        """Write an Event, or bring the count of one up to date that is there already.

        Its name follows from what it is about, so that the same announcement is never two Events, whoever died between.

        Raises:
            RestError: it was not taken.
        """
        digest = hashlib.sha256(f"{boot} {announcement.key}".encode()).hexdigest()[:16]
        name = f"{self._name}.{digest}"
        now = _timestamp(announcement.at)
        try:
            self._rest.request("POST", _EVENTS, body=self._event(name, announcement, now))
        except RestError as error:
            if error.status != _CONFLICT:
                raise
            newer = {"count": announcement.count, "lastTimestamp": now, "message": announcement.message}
            self._rest.request("PATCH", f"{_EVENTS}/{name}", body=newer, content_type=STRATEGIC_MERGE)

    def _seen(self, text: bytes) -> NodeSeen:
        try:
            node = msgspec.json.decode(text, type=_Node)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RestError(f"{self._path}: not a Node: {error}") from error
        annotations = node.metadata.annotations or {}
        self._uid = node.metadata.uid
        return NodeSeen(
            uid=node.metadata.uid,
            instance=_instance(node.spec.provider_id if node.spec else None),
            owner=_owner(annotations.get(DETECTOR_ANNOTATION)),
            clear=annotations.get(CLEAR_ANNOTATION),
            conditions=tuple(map(_condition, (node.status.conditions if node.status else None) or ())),
        )

    def _event(self, name: str, announcement: Announcement, now: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid},
            "type": "Warning" if announcement.warning else "Normal",
            "reason": announcement.reason,
            "message": announcement.message,
            "source": {"component": COMPONENT, "host": self._name},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": announcement.count,
        }


def wire(condition: Condition) -> dict[str, str]:
    """Write a condition as the API server takes it."""
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": _timestamp(condition.last_transition_at),
        "lastHeartbeatTime": _timestamp(condition.last_heartbeat_at),
    }


def _timestamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _instance(provider_id: str | None) -> str | None:
    """Read the instance id out of `aws:///us-west-2a/i-0123456789abcdef0`."""
    last = (provider_id or "").rpartition("/")[2]
    return last if is_instance_id(last) else None


def _condition(seen: _Condition) -> SeenCondition:
    """Take a condition over; the API server checks no status, and one that Kubernetes does not know is Unknown."""
    return SeenCondition(
        type=seen.type,
        status=Status(seen.status) if seen.status in set(Status) else Status.UNKNOWN,
        reason=seen.reason,
        message=seen.message,
        last_transition_time=seen.last_transition_time,
        last_heartbeat_time=seen.last_heartbeat_time,
    )


def _owner(annotation: str | None) -> Owner | None:
    try:
        return msgspec.json.decode(annotation, type=Owner) if annotation else None
    except msgspec.DecodeError:
        return None
