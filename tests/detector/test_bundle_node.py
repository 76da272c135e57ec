"""What of a Node goes into a support archive: conditions and what is ours, and only names of what may hold anything."""

from __future__ import annotations

import json

import pytest

from detector.node_excerpt import excerpt

NODE = {
    "metadata": {
        "name": "gpu-7",
        "uid": "u-1",
        "creationTimestamp": "2026-11-30T00:00:00Z",
        "annotations": {"chipwarden.io/detector": "{}", "team/secret": "hunter2"},
        "labels": {"node.kubernetes.io/instance-type": "trn1.32xlarge", "team/owner": "alice"},
        "managedFields": [{"manager": "hunter2"}],
    },
    "spec": {"providerID": "aws:///us-west-2a/i-0a1b2c3d4e5f60718", "taints": [{"key": "chipwarden.io/unhealthy"}]},
    "status": {
        "conditions": [{"type": "NeuronHasError", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "images": [{"names": None}],
        "nodeInfo": {"kernelVersion": "6.1", "machineID": "hunter2", "systemUUID": "hunter2"},
    },
}


def test_what_is_ours_is_told_and_what_is_others_only_named() -> None:
    assert excerpt(json.dumps(NODE).encode()) == {
        "name": "gpu-7",
        "uid": "u-1",
        "creationTimestamp": "2026-11-30T00:00:00Z",
        "annotations": {"chipwarden.io/detector": "{}"},
        "other_annotations": ["team/secret"],
        "labels": {"node.kubernetes.io/instance-type": "trn1.32xlarge"},
        "other_labels": ["team/owner"],
        "providerID": "aws:///us-west-2a/i-0a1b2c3d4e5f60718",
        "unschedulable": False,
        "taints": [{"key": "chipwarden.io/unhealthy"}],
        "conditions": [{"type": "NeuronHasError", "status": "True"}],
        "nodeInfo": {"kernelVersion": "6.1"},
    }


@pytest.mark.parametrize("node", [b"{}", b"[]", b"null", b'{"metadata": 1, "spec": null, "status": {"nodeInfo": []}}'])
def test_an_odd_node_has_nothing_to_tell(node: bytes) -> None:
    assert excerpt(node)["conditions"] == []


@pytest.mark.parametrize("node", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(node: bytes) -> None:
    with pytest.raises(ValueError, match="the API server's answer is not a Node"):
        excerpt(node)
