"""What recovery reads of a Node, how it fences and frees it, and what it tells about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from recovery.model import NodeFacts, Taint
from recovery.ports import PortError
from runtime.vocabulary import FaultClass
from tests.kubernetes.recovering import INSTANCE, PROVIDER, Hands, OnNode, entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.audit import Request
    from tests.kubernetes.controlplane import ControlPlane

_UNHEALTHY = {"key": "chipwarden.io/unhealthy", "value": "dead", "effect": "NoSchedule"}
_SCALE_DOWN = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_RECOVERY = "chipwarden.io/recovery"
_ALL = ("cordon", "taint", "scaleDownDisabled")
_OTHER = {"key": "aws.amazon.com/neuron", "value": "true", "effect": "NoSchedule"}
_TIMED = {"key": "example.com/hold", "effect": "NoExecute", "timeAdded": "2026-11-29T09:00:00Z"}


@pytest.fixture(scope="module")
def hands(apiserver: ControlPlane) -> Iterator[Hands]:
    hands = Hands(apiserver)
    yield hands
    hands.close()


@pytest.fixture
def node(apiserver: ControlPlane) -> Iterator[OnNode]:
    node = OnNode(apiserver, annotations={"team": "a"}, spec={"taints": [_OTHER, _TIMED]})
    yield node
    node.delete()


def _asked(hands: Hands, part: str, since: int) -> list[Request]:
    return [each for each in hands.plane.requests(since=since) if part in each.uri]


def _copy(node: OnNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.annotations()[_RECOVERY])
    return found


def test_a_node_is_read_with_all_that_matters(hands: Hands, node: OnNode) -> None:
    status = {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"},
            {"type": "NeuronHasError", "status": "True", "reason": "NeuronHasError_DMA_ERROR", "message": "nd-id=1"},
        ],
        "nodeInfo": {"bootID": "b-1"},
        "images": [{"names": None, "sizeBytes": 3}],
    }
    detector = json.dumps({"instance": INSTANCE, "boot": "b-1"})
    metadata = {"annotations": {"chipwarden.io/detector": detector}, "labels": {"karpenter.sh/nodepool": "trn"}}
    node.patch({"metadata": metadata})
    node.patch({"status": status}, "/status")
    facts = hands.nodes.read(node.name)
    assert (facts.name, facts.uid, facts.provider_id) == (node.name, node.uid, PROVIDER)
    assert facts.resource_version == node.get()["metadata"]["resourceVersion"]
    assert (facts.instance, facts.provider_instance, facts.boot) == (INSTANCE, INSTANCE, "b-1")
    assert (facts.ready, facts.unschedulable, facts.deleting) == (True, False, False)
    assert (facts.nodepool, facts.nodegroup) == ("trn", None)
    assert facts.conditions["NeuronHasError"] == ("True", "NeuronHasError_DMA_ERROR", "nd-id=1")
    assert facts.taints[0] == Taint(key="aws.amazon.com/neuron", value="true", effect="NoSchedule")
    assert facts.created_at.utcoffset() is not None


def test_a_bare_node_is_read_too(hands: Hands, apiserver: ControlPlane) -> None:
    bare = OnNode(apiserver, provider_id=None)
    facts = hands.nodes.read(bare.name)
    assert (facts.instance, facts.provider_instance, facts.provider_id, facts.boot) == (None, None, "", "")
    assert not facts.ready
    bare.delete()


@pytest.mark.parametrize("said", ["", "{", "[]", '{"instance": 7}', '{"instance": "i-0"}', '{"boot": "b"}', "[" * 5000])
def test_what_is_no_instance_id_is_unknown(hands: Hands, apiserver: ControlPlane, said: str) -> None:
    odd = OnNode(apiserver, provider_id="kwok://i-am-no-id", annotations={"chipwarden.io/detector": said})
    facts = hands.nodes.read(odd.name)
    assert (facts.instance, facts.provider_instance) == (None, None)
    odd.delete()


def test_a_node_that_is_not_there_is_gone(hands: Hands) -> None:
    with pytest.raises(PortError) as caught:
        hands.nodes.read("no-such-node")
    assert (caught.value.gone, caught.value.conflict, caught.value.denied) == (True, False, None)


def test_a_fence_is_one_patch_and_leaves_the_rest_alone(hands: Hands, node: OnNode) -> None:
    facts, since = hands.nodes.read(node.name), hands.plane.audit_offset()
    fenced = entry(node=node.name, uid=node.uid)
    assert hands.nodes.fence(facts, fenced) == _ALL
    assert [each.verb for each in _asked(hands, node.name, since)] == ["patch"]
    assert node.is_cordoned()
    assert node.taints() == [_OTHER, _TIMED, _UNHEALTHY]
    assert node.annotations()["team"] == "a"
    assert node.annotations()[_SCALE_DOWN] == "true"
    assert (_copy(node)["id"], _copy(node)["added"]) == (fenced.id, list(_ALL))


def test_a_node_without_taints_and_annotations_is_fenced_and_freed(hands: Hands, apiserver: ControlPlane) -> None:
    bare = OnNode(apiserver)
    added = hands.nodes.fence(hands.nodes.read(bare.name), entry(uid=bare.uid))
    assert (added, bare.taints(), bare.is_cordoned()) == (_ALL, [_UNHEALTHY], True)
    hands.nodes.lift(hands.nodes.read(bare.name), added)
    assert (bare.taints(), bare.is_cordoned(), bare.annotations()) == ([], False, {})
    bare.delete()


def test_a_fence_on_what_has_changed_since_is_a_conflict_and_changes_nothing(hands: Hands, node: OnNode) -> None:
    facts = hands.nodes.read(node.name)
    theirs = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    node.patch({"spec": {"taints": [_OTHER, theirs]}})
    with pytest.raises(PortError) as caught:
        hands.nodes.fence(facts, entry(uid=node.uid))
    assert caught.value.conflict
    assert node.taints() == [_OTHER, theirs]
    assert not node.is_cordoned()
    hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid))
    assert node.taints() == [_OTHER, theirs, _UNHEALTHY]


def test_a_fence_repeated_after_a_crash_is_the_same_fence_and_no_request(hands: Hands, node: OnNode) -> None:
    fenced = entry(node=node.name, uid=node.uid)
    first = hands.nodes.fence(hands.nodes.read(node.name), fenced)
    facts, since = hands.nodes.read(node.name), hands.plane.audit_offset()
    assert hands.nodes.fence(facts, fenced) == first == _ALL
    assert _asked(hands, node.name, since) == []


def test_a_later_entry_knows_what_an_earlier_one_added(hands: Hands, node: OnNode) -> None:
    hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid))
    assert hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid)) == _ALL


def test_the_copy_of_another_node_object_proves_nothing(hands: Hands, apiserver: ControlPlane) -> None:
    stale = json.dumps({"uid": "another", "added": _ALL})
    marked = OnNode(apiserver, spec={"unschedulable": True}, annotations={_RECOVERY: stale})
    assert hands.nodes.fence(hands.nodes.read(marked.name), entry(uid=marked.uid)) == ("taint", "scaleDownDisabled")
    marked.delete()


def test_a_graver_class_changes_the_taint_in_its_place(hands: Hands, node: OnNode) -> None:
    hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid))
    node.patch({"spec": {"taints": [_OTHER, _UNHEALTHY, _TIMED]}})
    hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid, class_=FaultClass.POISONED))
    assert node.taints() == [_OTHER, {**_UNHEALTHY, "value": "poisoned"}, _TIMED]


def test_only_what_was_added_is_taken_away(hands: Hands, node: OnNode) -> None:
    node.patch({"spec": {"unschedulable": True}, "metadata": {"annotations": {_SCALE_DOWN: "true"}}})
    added = hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid))
    assert added == ("taint",)
    theirs = {"key": "later", "effect": "NoSchedule"}
    node.patch({"spec": {"taints": [theirs, _UNHEALTHY, _OTHER, _TIMED]}})
    hands.nodes.lift(hands.nodes.read(node.name), added)
    assert node.taints() == [theirs, _OTHER, _TIMED]
    assert node.is_cordoned()
    assert node.annotations() == {"team": "a", _SCALE_DOWN: "true"}


def test_what_is_lifted_already_is_no_request(hands: Hands, node: OnNode) -> None:
    added = hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid))
    hands.nodes.lift(hands.nodes.read(node.name), added)
    facts, since = hands.nodes.read(node.name), hands.plane.audit_offset()
    hands.nodes.lift(facts, added)
    assert _asked(hands, node.name, since) == []


def test_lifting_what_has_changed_since_is_a_conflict(hands: Hands, node: OnNode) -> None:
    added = hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid))
    facts = hands.nodes.read(node.name)
    node.patch({"spec": {"taints": [_UNHEALTHY, _OTHER]}})
    with pytest.raises(PortError) as caught:
        hands.nodes.lift(facts, added)
    assert caught.value.conflict
    assert node.taints() == [_UNHEALTHY, _OTHER]


def test_the_copy_of_the_entry_follows_whatever_else_changes(hands: Hands, node: OnNode) -> None:
    facts = hands.nodes.read(node.name)
    node.patch({"metadata": {"labels": {"a": "b"}}})
    later = entry(node=node.name, uid=node.uid)
    hands.nodes.annotate(facts, later)
    assert _copy(node)["id"] == later.id
    since = hands.plane.audit_offset()
    hands.nodes.annotate(hands.nodes.read(node.name), later)
    assert [each.verb for each in _asked(hands, node.name, since)] == ["get"]


def test_the_copy_never_goes_on_another_node_of_that_name(hands: Hands, node: OnNode, apiserver: ControlPlane) -> None:
    facts = hands.nodes.read(node.name)
    node.delete()
    successor = OnNode(apiserver, name=node.name)
    for attempt in (hands.nodes.annotate, hands.nodes.fence):
        with pytest.raises(PortError) as caught:
            attempt(facts, entry(uid=node.uid))
        assert caught.value.conflict
    assert (successor.annotations(), successor.taints()) == ({}, [])


def test_a_group_of_thousands_does_not_burst_the_annotation(hands: Hands, node: OnNode) -> None:
    members = tuple(f"i-{number:017x}" for number in range(10_000))
    hands.nodes.fence(hands.nodes.read(node.name), entry(uid=node.uid, members=members))
    assert _copy(node)["members"] == []
    few = entry(uid=node.uid, members=members[:100])
    hands.nodes.annotate(hands.nodes.read(node.name), few)
    assert _copy(node)["members"] == list(members[:100])


def test_fenced_nodes_are_found_in_a_large_fleet(hands: Hands, node: OnNode, apiserver: ControlPlane) -> None:
    crowd = [OnNode(apiserver, labels={"crowd": ""}) for _ in range(205)]
    hands.nodes.fence(hands.nodes.read(crowd[3].name), entry(uid=crowd[3].uid))
    crowd[201].patch({"spec": {"taints": [_UNHEALTHY]}})
    node.patch({"metadata": {"annotations": {_RECOVERY: "garbage"}}})
    found = {each.name for each in hands.nodes.fenced()}
    assert {crowd[3].name, crowd[201].name, node.name} == found & {each.name for each in (*crowd, node)}
    node.admin.ask("DELETE", "/api/v1/nodes?labelSelector=crowd")


def test_facts_hold_nothing_that_json_cannot(hands: Hands, node: OnNode) -> None:
    facts = hands.nodes.read(node.name)
    assert msgspec.json.decode(msgspec.json.encode(facts), type=NodeFacts) == facts
