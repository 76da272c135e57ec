"""Nodes that have been in their cluster since yesterday: written straight into etcd, for no API sets when one was made.

Recovery takes a Node that is younger than two hours for new, and stops a group whose new machines break as the old ones
did. The API server reads what it finds in etcd as JSON, too.

Source: k8s.io/apimachinery v0.36, serializer/recognizer; etcd 3.6, gRPC gateway, POST /v3/kv/txn (read 2026-11-29).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kubernetes.controlplane import ControlPlane

YESTERDAY = "2026-01-01T00:00:00Z"  # long ago will do
_AT_ONCE = 100  # etcd takes up to 128 in one transaction


def node(
    name: str,
    instance: str,
    *,
    conditions: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Write a Node.

    Args:
        name: of it.
        instance: whose machine it is, in spec.providerID.
        conditions: type to the reason for which it is True; Ready is always there.
        annotations: of its metadata.
        labels: of its metadata.
    """
    listed = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}]
    listed += [
        {"type": kind, "status": "True", "reason": reason, "message": reason}
        for kind, reason in (conditions or {}).items()
    ]
    times = {"lastHeartbeatTime": YESTERDAY, "lastTransitionTime": YESTERDAY}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": YESTERDAY,
            "annotations": annotations or {},
            "labels": labels or {},
        },
        "spec": {"providerID": f"aws:///us-east-1a/{instance}"},
        "status": {"conditions": [each | times for each in listed], "nodeInfo": {"bootID": "b"}},
    }


def plant(plane: ControlPlane, nodes: Iterable[dict[str, Any]]) -> None:
    """Have these Nodes in the cluster."""
    _change(
        plane,
        [
            {"requestPut": {"key": _key(each["metadata"]["name"]), "value": _encoded(json.dumps(each))}}
            for each in nodes
        ],
    )


def uproot(plane: ControlPlane, names: Iterable[str]) -> None:
    """Have these Nodes in the cluster no more."""
    _change(plane, [{"requestDeleteRange": {"key": _key(name)}} for name in names])


def _change(plane: ControlPlane, operations: list[dict[str, Any]]) -> None:
    address = plane._etcd_url.removeprefix("http://")
    for start in range(0, len(operations), _AT_ONCE):
        body = json.dumps({"success": operations[start : start + _AT_ONCE]})
        with contextlib.closing(http.client.HTTPConnection(address, timeout=10)) as connection:
            connection.request("POST", "/v3/kv/txn", body=body)
            answer = connection.getresponse()
            text = answer.read()
            assert (answer.status, json.loads(text).get("succeeded")) == (200, True), text


def _key(name: str) -> str:
    return _encoded(f"/registry/minions/{name}")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
