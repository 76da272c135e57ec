"""Changes of a Node that a detector may make, and many that it must not.

Only data: who may do what is for the tests to say.
"""

from __future__ import annotations

from typing import Any

_NEURON = {"type": "NeuronHasError", "status": "True", "reason": "NeuronHasError_DMA_ERROR", "message": "nd 11"}
# What a detector publishes.
OWN: dict[str, Any] = {
    "metadata": {"annotations": {"chipwarden.io/detector": '{"boot":"b"}'}},
    "status": {"conditions": [_NEURON]},
}
_FALSE_READY = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
# A Node as its kubelet leaves it.
STATUS: dict[str, Any] = {
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"},
        {"type": "MemoryPressure", "status": "False"},
    ],
    "capacity": {"cpu": "192", "aws.amazon.com/neuron": "16"},
    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    "images": [{"names": None, "sizeBytes": 3}, {"names": ["a@sha256:0"], "sizeBytes": 4}],
    "nodeInfo": {"kernelVersion": "6.1.0"},
}
ANNOTATIONS = {"chipwarden.io/clear": "all", "chipwarden.io/recovery": "fenced", "team": "a"}


def _metadata(**keys: Any) -> dict[str, Any]:
    return {"metadata": keys}


def annotation(name: str, value: str | None) -> dict[str, Any]:
    return _metadata(annotations={name: value})


def _status(**keys: Any) -> dict[str, Any]:
    return {"status": keys}


_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "0"}
# None of these is for a detector.
OF_METADATA = {
    "a label": _metadata(labels={"chipwarden.io/recovery": "disabled"}),
    "a changed label": _metadata(labels={"pool": "b"}),
    "a label away": _metadata(labels={"pool": None}),
    "a finalizer": _metadata(finalizers=["example.com/hold"]),
    "an owner": _metadata(ownerReferences=[_OWNER]),
    "a foreign annotation": annotation("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"),
    "recovery's annotation": annotation("chipwarden.io/recovery", "released"),
    "recovery's annotation away": annotation("chipwarden.io/recovery", None),
    "another request to clear": annotation("chipwarden.io/clear", "NeuronHasError_DMA_ERROR"),
}
OF_STATUS = {
    "a foreign condition": _status(conditions=[{"type": "KernelDeadlock", "status": "True"}]),
    "the platform's condition": _status(conditions=[{"type": "AcceleratedHardwareReady", "status": "False"}]),
    "Ready=False": _status(conditions=[_FALSE_READY]),
    "Ready=False beside its own condition": _status(conditions=[_NEURON, _FALSE_READY]),
    "a heartbeat of Ready": _status(conditions=[{"type": "Ready", "lastHeartbeatTime": "2026-11-29T10:00:00Z"}]),
    "a foreign condition away": _status(conditions=[{"$patch": "delete", "type": "MemoryPressure"}]),
    "all conditions away": _status(conditions=[{"$patch": "replace"}]),
    "more capacity": _status(capacity={"aws.amazon.com/neuron": "32"}),
    "less capacity": _status(capacity={"aws.amazon.com/neuron": None}),
    "something to allocate": _status(allocatable={"cpu": "1"}),
    "an address": _status(addresses=[{"type": "Hostname", "address": "a"}]),
    "another kernel": _status(nodeInfo={"kernelVersion": "6.1.1"}),
    "an image": _status(images=[{"names": ["b"], "sizeBytes": 1}]),
    "a volume in use": _status(volumesInUse=["a"]),
    "an attached volume": _status(volumesAttached=[{"name": "a", "devicePath": "/dev/sdb"}]),
    "a phase": _status(phase="Terminated"),
    "the kubelet's port": _status(daemonEndpoints={"kubeletEndpoint": {"Port": 1}}),
    "a runtime handler": _status(runtimeHandlers=[{"name": "runc"}]),
}
OF_SPEC: dict[str, Any] = {
    "cordon": {"spec": {"unschedulable": True}},
    "taints": {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
}
