"""A verdict belongs to an instance, not to a Node's name: who a detector is, and what it takes over."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from detector.model import State
from detector.statefile import StateFile
from runtime.vocabulary import ACCELERATED_HARDWARE_READY
from tests.detector.process import new_instance_id, until
from tests.kubernetes.inside import Inside
from tests.kubernetes.ownnode import KIND, OwnNode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_UNKNOWN = ""
_DMA = "NeuronHasError_DMA_ERROR"


def _provider_id(instance: str) -> str:
    return f"aws:///us-west-2a/{instance}"


def _owner(node: OwnNode) -> Any:
    return json.loads(node.annotation("detector") or "{}").get("instance")


def _says_true(node: OwnNode, *, owner: str | None) -> dict[str, str]:
    """Leave a True condition on the Node, as a detector of some instance did an hour ago; None = no annotation."""
    condition = {
        "type": KIND,
        "status": "True",
        "reason": _DMA,
        "message": f"{_DMA} nd-id=1 (1 line)",
        "lastTransitionTime": "2026-11-29T10:00:00Z",
        "lastHeartbeatTime": "2026-11-29T10:00:00Z",
    }
    annotation = {} if owner is None else {"chipwarden.io/detector": json.dumps({"instance": owner, "boot": "boot-0"})}
    node.patch_status({"conditions": [condition]}, annotation)
    return node.condition()


def test_a_predecessors_fault_is_cleared_once(apiserver: ControlPlane, tmp_path: Path) -> None:
    theirs = new_instance_id()
    node = OwnNode(apiserver, tmp_path, provider_id=_provider_id(theirs))
    _says_true(node, owner=theirs)
    with Inside(node, tmp_path) as inside:
        assert node.wait_for("False")["reason"] == "NeuronHasNoError"
        inside.settle()
        assert _owner(node) == node.detector.instance
        (event,) = node.events()
        assert (event["type"], event["reason"]) == ("Normal", "PredecessorCleared")
        assert theirs in event["message"]
        assert node.detector.instance in event["message"]
        inside.say("DMA_ERROR", instance=theirs)
        assert inside.health.view().foreign == 1
        inside.say("DMA_ERROR")
        node.wait_for("True")
    shutil.rmtree(tmp_path / "state")
    mark = node.mark()
    with Inside(node, tmp_path) as again:
        again.settle()
        assert node.is_true()
        assert len(node.events("PredecessorCleared")) == 1
        assert not [
            each for each in node.asked(part="/events", since=mark) if each.verb == "create" and each.code == 201
        ]


def test_a_request_to_clear_a_predecessors_fault_goes_with_it(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path)
    _says_true(node, owner=new_instance_id())
    node.annotate(clear="all")
    with Inside(node, tmp_path) as inside:
        inside.say("DMA_ERROR")
        until(lambda: node.annotation("clear") is None, what="the request is removed")
        inside.advance(30)
        inside.settle()
        assert node.is_true()
        assert _owner(node) == node.detector.instance


def test_a_fault_of_our_own_beside_a_predecessors_keeps_the_condition_true(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    node = OwnNode(apiserver, tmp_path)
    before = _says_true(node, owner=new_instance_id())
    inside = Inside(node, tmp_path)
    inside.write("HANG_ON_COLLECTIVES")
    with node.watch() as watch, inside:
        until(lambda: node.condition()["reason"] == "NeuronHasError_HANG_ON_COLLECTIVES")
        inside.settle()
    assert watch.statuses() == {"True"}
    assert node.condition()["lastTransitionTime"] > before["lastTransitionTime"]
    assert [event["reason"] for event in node.events()] == ["NeuronHasError_HANG_ON_COLLECTIVES"]


def test_a_state_file_of_another_instance_is_not_ours(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path)
    with Inside(node, tmp_path) as inside:
        inside.say("DMA_ERROR")
        inside.settle()
    (tmp_path / "kmsg").unlink()
    with Inside(node, tmp_path, instance=new_instance_id()) as successor:
        node.wait_for("False")
        successor.settle()
        assert "the instance was replaced" in node.events("FaultCleared")[0]["message"]
        assert _owner(node) == successor.instance


@pytest.mark.parametrize("instance", [None, _UNKNOWN])
def test_what_we_said_ourselves_is_adopted(apiserver: ControlPlane, tmp_path: Path, instance: str | None) -> None:
    node = OwnNode(apiserver, tmp_path)
    with Inside(node, tmp_path, instance=instance) as inside:
        inside.say("DMA_ERROR", device=1)
        inside.say("DMA_ERROR", device=2)
        inside.say("HANG_ON_COLLECTIVES")
        inside.settle()
        events = {event["metadata"]["name"] for event in node.events()}
        before = node.condition()
    shutil.rmtree(tmp_path / "state")
    with node.watch() as watch, Inside(node, tmp_path, instance=instance) as again:
        again.settle()
        after = node.condition()
        assert (after["status"], after["reason"]) == (before["status"], before["reason"])
        assert after["lastTransitionTime"] == before["lastTransitionTime"]
        assert sorted(after["message"].split("; ")) == sorted(before["message"].split("; "))
        assert {event["metadata"]["name"] for event in node.events()} == events
        again.say("DMA_ERROR", device=3)
        until(lambda: "nd-id=3" in node.condition()["message"])
        watch.first(lambda state: state.transition == before["lastTransitionTime"])
        assert watch.statuses() == {"True"}


def test_a_fault_whose_lines_are_gone_is_adopted_from_its_reason(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path)
    before = _says_true(node, owner=node.detector.instance)
    with node.watch() as watch, Inside(node, tmp_path) as inside:
        inside.settle()
        assert node.condition()["lastTransitionTime"] == before["lastTransitionTime"]
        (fault,) = inside.health.faults
        assert (fault.reason, fault.fault_class, fault.action) == (_DMA, "dead", "replace")
        assert node.events() == []
        node.annotate(clear=_DMA)
        inside.advance(25)
        watch.first(lambda state: state.status == "False")
    assert [state.status for state in watch.states] == ["True"] * (len(watch.states) - 1) + ["False"]


def test_a_condition_that_nobody_signed_is_ours_if_nobody_knows_who_he_is(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    node = OwnNode(apiserver, tmp_path)
    _says_true(node, owner=None)
    with Inside(node, tmp_path, instance=_UNKNOWN) as inside:
        inside.settle()
        assert node.is_true()
        assert _owner(node) is None


def test_the_node_tells_who_we_are_if_nothing_else_does(apiserver: ControlPlane, tmp_path: Path) -> None:
    ours, theirs = new_instance_id(), new_instance_id()
    node = OwnNode(apiserver, tmp_path, provider_id=_provider_id(ours), exists=False)
    with Inside(node, tmp_path, instance=_UNKNOWN) as inside:
        inside.say("DMA_ERROR", instance=theirs)
        inside.say("HANG_ON_COLLECTIVES", instance=theirs)
        assert len(inside.health.faults) == 2
        node.create()
        with node.watch() as watch:
            inside.advance(30)
            until(lambda: inside.board.instance == ours)
            inside.settle()
            watch.first(lambda state: state.status == "False")
        assert watch.statuses() == {"False"}
        assert _owner(node) == ours
        assert inside.health.view().foreign == 2
        cleared = node.events("FaultCleared")
        assert len(cleared) == 2
        assert all("the line spoke about another instance" in event["message"] for event in cleared)
        inside.say("DMA_ERROR", instance=ours)
        node.wait_for("True")


def test_a_provider_id_that_comes_later_is_learned(apiserver: ControlPlane, tmp_path: Path) -> None:
    ours = new_instance_id()
    node = OwnNode(apiserver, tmp_path)
    with Inside(node, tmp_path, instance=_UNKNOWN) as inside:
        inside.settle()
        assert _owner(node) is None
        node.patch({"spec": {"providerID": _provider_id(ours)}})
        inside.advance(301)
        until(lambda: inside.board.instance == ours, what="learned at the heartbeat")
        inside.advance(1)
        until(lambda: _owner(node) == ours, what="the annotation names it")
        assert node.events() == []


def test_an_image_with_a_state_of_another_machine_hides_no_fault_of_this_one(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    theirs, ours = new_instance_id(), new_instance_id()
    node = OwnNode(apiserver, tmp_path, provider_id=_provider_id(ours))
    StateFile(str(tmp_path / "state")).save(State(boot="boot-0", instance=theirs, seq=7))
    with Inside(node, tmp_path, instance=_UNKNOWN) as inside:
        inside.settle()
        inside.say("DMA_ERROR", instance=ours)
        assert node.wait_for("True")["reason"] == _DMA


def test_the_machine_is_believed_before_the_node(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path, provider_id=_provider_id(new_instance_id()))
    with Inside(node, tmp_path) as inside:
        inside.settle()
        assert inside.board.instance == _owner(node) == node.detector.instance


def test_accelerated_hardware_ready_says_what_eks_understands(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path)
    with Inside(node, tmp_path, says_ready=True) as inside:
        healthy = node.wait_for("True", ACCELERATED_HARDWARE_READY)
        assert healthy["reason"] == "NeuronAcceleratedHardwareIsReady"
        inside.advance(3)
        inside.say("HANG_ON_COLLECTIVES")
        node.wait_for("True")
        inside.settle()
        suspected = node.condition(ACCELERATED_HARDWARE_READY)
        assert (suspected["status"], suspected["reason"]) == ("True", healthy["reason"])
        assert suspected["lastTransitionTime"] == healthy["lastTransitionTime"]
        inside.advance(3)
        inside.say("DMA_ERROR")
        broken = node.wait_for("False", ACCELERATED_HARDWARE_READY)
        assert broken["reason"] == "NeuronDMAError"
        assert broken["lastTransitionTime"] > healthy["lastTransitionTime"]
        inside.settle()
    shutil.rmtree(tmp_path / "state")
    ready = node.watch(ACCELERATED_HARDWARE_READY)
    with ready, Inside(node, tmp_path, says_ready=True) as again:
        again.settle()
        ready.first(lambda state: state.status == "False")
        assert {(state.status, state.transition) for state in ready.states} == {("False", broken["lastTransitionTime"])}
        assert again.board.platform_repair


def test_a_blind_detector_says_nothing_of_the_hardware(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path)
    with Inside(node, tmp_path, says_ready=True) as inside:
        inside.settle()
        (tmp_path / "kmsg").rename(tmp_path / "gone")
        until(lambda: not inside.agent.sight.is_up)
        inside.advance(31)
        assert node.wait_for("Unknown")["reason"] == "DetectorBlind"
        assert node.wait_for("Unknown", ACCELERATED_HARDWARE_READY)["reason"] == "DetectorBlind"
        mark = node.mark()
        inside.advance(301)
        inside.settle()
        assert node.patches(mark) == 0, "no heartbeat while blind"
        (tmp_path / "gone").rename(tmp_path / "kmsg")
        inside.advance(31)
        node.wait_for("False")
        node.wait_for("True", ACCELERATED_HARDWARE_READY)
        inside.settle()
        assert {event["reason"] for event in node.events()} == {"DetectorBlind", "DetectorSeesAgain"}


def test_another_agents_accelerated_hardware_ready_is_left_to_it(
    apiserver: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = OwnNode(apiserver, tmp_path)
    foreign = {"type": ACCELERATED_HARDWARE_READY, "status": "True", "reason": "NeuronAcceleratedHardwareIsReady"}
    node.patch_status({"conditions": [foreign]})
    before = node.condition(ACCELERATED_HARDWARE_READY)
    with Inside(node, tmp_path, says_ready=True) as inside:
        inside.say("DMA_ERROR")
        node.wait_for("True")
        inside.settle()
        assert node.condition(ACCELERATED_HARDWARE_READY) == before
        assert not inside.board.platform_repair
    assert [r.levelname for r in caplog.records if "another agent owns this condition" in r.getMessage()] == ["ERROR"]


def test_the_condition_is_not_published_unless_asked_for(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path)
    with Inside(node, tmp_path) as inside:
        inside.say("DMA_ERROR")
        node.wait_for("True")
        assert set(node.conditions()) == {KIND}
