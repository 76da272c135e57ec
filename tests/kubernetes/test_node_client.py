"""The own Node, read and changed on a real API server."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from detector.kube import NodeClient, wire
from detector.model import Announcement, Condition
from detector.seen import Owner
from runtime.rest import Rest, RestError
from runtime.vocabulary import Status
from tests.kubernetes.ownnode import KIND, OwnNode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

AT = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
OURS = Owner(instance="i-0123456789abcdef0", boot="boot-1")
PROVIDER_ID = "aws:///us-east-2b/i-0123456789abcdef0"
_OTHERS = [
    {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"},
    {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "enough"},
]


def _client(node: OwnNode) -> NodeClient:
    environ = {**os.environ, "KUBECONFIG": str(node.kubeconfig)}
    environ.pop("KUBERNETES_SERVICE_HOST", None)
    return NodeClient(Rest(counted=lambda *_: None, environ=environ), node.name)


def _condition(status: Status = Status.TRUE, kind: str = KIND) -> dict[str, str]:
    return wire(
        Condition(
            type=kind,
            status=status,
            reason="NeuronHasError_DMA_ERROR",
            message="one",
            last_transition_at=AT,
            last_heartbeat_at=AT,
        )
    )


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> OwnNode:
    return OwnNode(apiserver, tmp_path, provider_id=PROVIDER_ID)


def test_what_is_patched_can_be_read(node: OwnNode) -> None:
    client = _client(node)
    client.patch([_condition()], OURS, remove_clear=False)
    seen = client.read()
    (condition,) = seen.conditions
    assert (condition.type, condition.status, condition.reason) == (KIND, Status.TRUE, "NeuronHasError_DMA_ERROR")
    assert condition.last_transition_time == condition.last_heartbeat_time == AT
    assert seen.owner == OURS
    assert seen.instance == "i-0123456789abcdef0"
    assert seen.uid == node.get()["metadata"]["uid"]


def test_a_patch_tells_what_the_node_is_like_after_it(node: OwnNode) -> None:
    client = _client(node)
    node.annotate(clear="all")
    after = client.patch([_condition()], OURS, remove_clear=False)
    assert after == client.read()
    assert after.clear == "all"


def test_conditions_of_others_survive(node: OwnNode) -> None:
    node.patch_status({"conditions": _OTHERS})
    before = node.conditions()
    client = _client(node)
    for status in (Status.FALSE, Status.TRUE, Status.UNKNOWN):
        client.patch([_condition(status)], OURS, remove_clear=False)
    after = node.conditions()
    assert after.pop(KIND)["status"] == "Unknown"
    assert after == before


def test_several_conditions_go_in_one_patch(node: OwnNode) -> None:
    _client(node).patch([_condition(), _condition(Status.FALSE, "NvidiaHasError")], OURS, remove_clear=False)
    assert {kind: each["status"] for kind, each in node.conditions().items()} == {
        KIND: "True",
        "NvidiaHasError": "False",
    }
    assert node.patches() == 1


def test_a_request_to_clear_is_read_and_removed(node: OwnNode) -> None:
    client = _client(node)
    node.annotate(clear="all", recovery="{}")
    assert client.read().clear == "all"
    client.patch([_condition()], OURS, remove_clear=False)
    assert node.annotation("clear") == "all"
    client.patch([_condition()], OURS, remove_clear=True)
    assert node.annotation("clear") is None
    assert node.annotation("recovery") == "{}"


def test_removing_a_request_that_is_gone_does_not_matter(node: OwnNode) -> None:
    _client(node).patch([_condition()], OURS, remove_clear=True)
    assert node.status() == "True"


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"conditions": []},
        {"images": [{"names": None, "sizeBytes": 5}, {"names": ["x@sha256:0"]}]},
        {"conditions": [{"type": "Odd", "status": "Maybe"}, {"type": "Odder", "status": "", "reason": ""}]},
        {"conditions": [{"type": "Timeless", "status": "True", "lastTransitionTime": None}]},
        {"volumesAttached": [], "nodeInfo": {"architecture": "x"}, "capacity": {"aws.amazon.com/neuron": "16"}},
    ],
)
def test_a_node_of_odd_content_is_read_and_patched(node: OwnNode, status: Any) -> None:
    client = _client(node)
    node.patch_status(status)
    client.read()
    client.patch([_condition()], OURS, remove_clear=False)
    assert node.status() == "True"
    assert KIND in {each.type for each in client.read().conditions}


@pytest.mark.parametrize(
    ("provider_id", "instance"),
    [
        ("aws:///us-west-2a/i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("aws:///us-west-2a/i-01234567", "i-01234567"),
        ("aws:///us-west-2a/fargate-ip-10-0-0-1.us-west-2.compute.internal", None),
        ("gce://project/zone/name", None),
        ("i-nonsense", None),
        (None, None),
    ],
)
def test_only_an_instance_id_is_taken_from_the_provider_id(
    apiserver: ControlPlane, tmp_path: Path, provider_id: str | None, instance: str | None
) -> None:
    assert _client(OwnNode(apiserver, tmp_path, provider_id=provider_id)).read().instance == instance


@pytest.mark.parametrize("annotation", ["", "{", "[]", "null", '{"instance": 5}', '"i-0123456789abcdef0"', "{}"])
def test_an_annotation_that_says_nothing_names_no_owner(node: OwnNode, annotation: str) -> None:
    node.annotate(detector=annotation)
    assert _client(node).read().owner in (None, Owner())


def test_a_node_that_is_not_there_is_an_error_with_its_status(apiserver: ControlPlane, tmp_path: Path) -> None:
    client = _client(OwnNode(apiserver, tmp_path, exists=False))
    for request in (client.read, lambda: client.patch([_condition()], OURS, remove_clear=False)):
        with pytest.raises(RestError, match="not found") as caught:
            request()
        assert caught.value.status == 404


def _announcement(count: int = 1, key: str = "dma", message: str = "a DMA engine is broken") -> Announcement:
    return Announcement(reason="NeuronHasError_DMA_ERROR", message=message, warning=True, key=key, count=count, at=AT)


def test_an_event_tells_all_about_the_fault(node: OwnNode) -> None:
    client = _client(node)
    client.read()
    client.tell(_announcement(count=3), "boot-1")
    (event,) = node.events()
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "NeuronHasError_DMA_ERROR", 3)
    assert event["message"] == "a DMA engine is broken"
    assert event["involvedObject"]["uid"] == node.get()["metadata"]["uid"]
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-11-29T10:00:00Z"
    assert event["source"] == {"component": "chipwarden-detector", "host": node.name}


def test_the_same_announcement_is_one_event_whoever_tells_it(node: OwnNode) -> None:
    _client(node).tell(_announcement(), "boot-1")
    (first,) = node.events()
    _client(node).tell(_announcement(count=7, message="again"), "boot-1")
    (second,) = node.events()
    assert second["metadata"]["name"] == first["metadata"]["name"]
    assert (second["count"], second["message"]) == (7, "again")


def test_another_key_or_boot_is_another_event(node: OwnNode) -> None:
    client = _client(node)
    client.tell(_announcement(), "boot-1")
    client.tell(_announcement(), "boot-2")
    client.tell(_announcement(key="other"), "boot-1")
    assert len(node.events()) == 3


def test_an_event_that_was_deleted_is_written_again(node: OwnNode) -> None:
    client = _client(node)
    client.tell(_announcement(), "boot-1")
    (event,) = node.events()
    node.do("DELETE", f"/api/v1/namespaces/default/events/{event['metadata']['name']}")
    client.tell(_announcement(count=2), "boot-1")
    assert [each["count"] for each in node.events()] == [2]


def test_the_longest_message_is_taken(node: OwnNode) -> None:
    _client(node).tell(_announcement(message="ö" * 1024), "boot-1")
    assert len(node.events()[0]["message"]) == 1024


def test_an_account_without_rights_is_told_what_it_lacks(apiserver: ControlPlane, node: OwnNode) -> None:
    apiserver.kubectl("create", "serviceaccount", f"powerless-{node.name}")
    node.kubeconfig = apiserver.kubeconfig_for(apiserver.token(f"powerless-{node.name}"))
    client = _client(node)
    with pytest.raises(RestError, match='cannot get resource "nodes"') as caught:
        client.read()
    assert caught.value.status == 403
    with pytest.raises(RestError, match='cannot patch resource "nodes/status"'):
        client.patch([_condition()], OURS, remove_clear=False)
    with pytest.raises(RestError, match='cannot create resource "events"'):
        client.tell(_announcement(), "boot-1")
