"""Which pods have to leave a fenced node."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from recovery.evictable import Pod, has_to_go
from recovery.model import Taint

_FENCE = Taint(key="chipwarden.io/unhealthy", value="dead", effect="NoSchedule")
_NEURON = Taint(key="aws.amazon.com/neuron", value="true", effect="NoSchedule")
_SOFT = Taint(key="soft", effect="PreferNoSchedule")
_CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
_OURS = {"key": "chipwarden.io/unhealthy", "operator": "Exists"}


def _pod(*tolerations: dict[str, Any], phase: str | None = "Running", **metadata: Any) -> Pod:
    status = {} if phase is None else {"phase": phase}
    body = {"metadata": {"name": "p", "namespace": "n", "uid": "u", **metadata}, "status": status}
    body["spec"] = {"tolerations": list(tolerations), "nodeName": "x"} if tolerations else {}
    return msgspec.json.decode(json.dumps(body), type=Pod)


def _owner(kind: str, **more: Any) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": "o", "uid": "o", "apiVersion": "v", **more}]


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown", "", None])
def test_a_pod_has_to_go(phase: str | None) -> None:
    assert has_to_go(_pod(phase=phase), (_FENCE,))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_uses_nothing(phase: str) -> None:
    assert not has_to_go(_pod(phase=phase), (_FENCE,))


@pytest.mark.parametrize(
    ("owners", "goes"),
    [
        (_owner("DaemonSet", controller=True), False),
        (_owner("Node", controller=True), False),
        (_owner("DaemonSet"), True),
        (_owner("Job", controller=True), True),
        (_owner("Job") + _owner("DaemonSet", controller=True), False),
        (None, True),
    ],
)
def test_its_controller_decides(owners: Any, goes: bool) -> None:
    assert has_to_go(_pod(ownerReferences=owners), (_FENCE,)) is goes


def test_a_static_pod_stays() -> None:
    assert not has_to_go(_pod(annotations={"kubernetes.io/config.mirror": ""}), (_FENCE,))
    assert has_to_go(_pod(annotations={"x": ""}), (_FENCE,))


@pytest.mark.parametrize(
    ("tolerations", "goes"),
    [
        ([{"operator": "Exists"}], False),
        ([{"operator": "Exists", "effect": "NoSchedule"}], False),
        ([{"operator": "Exists", "effect": "NoExecute"}], True),
        ([_OURS], True),
        ([_CORDON], True),
        ([_OURS, _CORDON], True),
        ([_OURS, _CORDON, {"key": "aws.amazon.com/neuron", "value": "true"}], False),
        ([_OURS, _CORDON, {"key": "aws.amazon.com/neuron", "operator": "Equal", "value": "false"}], True),
        ([_OURS, _CORDON, {"key": "aws.amazon.com/neuron", "operator": "Gt", "value": "true"}], True),
        ([_OURS, _CORDON, {"value": "true"}], True),
    ],
)
def test_a_pod_that_tolerates_all_that_keeps_it_off_would_come_back(
    tolerations: list[dict[str, Any]], goes: bool
) -> None:
    assert has_to_go(_pod(*tolerations), (_NEURON, _FENCE, _SOFT)) is goes


def test_a_node_that_was_read_before_its_fence_is_taken_for_fenced() -> None:
    assert has_to_go(_pod(_CORDON), ())
    assert not has_to_go(_pod(_CORDON, _OURS), ())


def test_a_pod_tells_its_name_and_whether_it_is_ending() -> None:
    assert (_pod().name, _pod().is_ending) == ("n/p", False)
    assert _pod(deletionTimestamp="2026-11-29T10:00:00Z").is_ending
