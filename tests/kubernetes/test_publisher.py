"""What the publisher brings to a real API server, and what it spares it."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import until
from tests.kubernetes.inside import Inside
from tests.kubernetes.ownnode import KIND, OwnNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_DMA = "NeuronHasError_DMA_ERROR"
_HANG = "NeuronHasError_HANG_ON_COLLECTIVES"


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> OwnNode:
    return OwnNode(apiserver, tmp_path)


@pytest.fixture
def start(node: OwnNode, tmp_path: Path) -> Iterator[Callable[..., Inside]]:
    """Start a detector of the node; it ends with the test, or when the next one starts."""
    with contextlib.ExitStack() as running:

        def start(**options: object) -> Inside:
            running.close()
            return running.enter_context(Inside(node, tmp_path, **options))  # type: ignore[arg-type] # passed on

        yield start


def test_a_healthy_node_is_said_to_be_so(node: OwnNode, start: Callable[..., Inside]) -> None:
    start().settle()
    condition = node.condition()
    assert (condition["status"], condition["reason"]) == ("False", "NeuronHasNoError")
    assert condition["message"] == "Neuron has no error"
    assert json.loads(node.annotation("detector") or "") == {"instance": node.detector.instance, "boot": "boot-1"}
    assert node.events() == []
    assert [each.verb for each in node.asked()] == ["get", "patch"]


def test_a_fault_is_a_condition_and_an_event(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start().settle()
    inside.say("DMA_ERROR", device=3)
    condition = node.wait_for("True")
    assert condition["reason"] == _DMA
    assert condition["message"].startswith(f"{_DMA} instance-id={node.detector.instance}")
    assert "nd-id=3" in condition["message"]
    inside.settle()
    (event,) = node.events()
    assert (event["type"], event["reason"], event["count"]) == ("Warning", _DMA, 1)


def test_a_second_device_is_named_too_and_the_transition_time_stays(
    node: OwnNode, start: Callable[..., Inside]
) -> None:
    inside = start().settle()
    inside.say("HANG_ON_COLLECTIVES", device=0)
    first = node.wait_for("True")
    inside.advance(5)
    inside.say("DMA_ERROR", device=5)
    second = node.wait_until(lambda condition: condition["reason"] == _DMA)
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert second["lastHeartbeatTime"] > first["lastHeartbeatTime"]
    assert "nd-id=0" in second["message"]
    assert "nd-id=5" in second["message"]


def test_more_lines_about_the_same_device_cause_no_patch(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start()
    inside.say("DMA_ERROR")
    inside.settle()
    mark = node.mark()
    inside.say("DMA_ERROR", times=500)
    inside.say("DMA_ERROR", times=500)
    assert inside.count("DMA_ERROR") == 1001
    inside.advance(5)
    inside.settle()
    assert node.asked(since=mark) == []
    inside.advance(60)
    until(lambda: node.events()[0]["count"] == 1001, what="the Event has the newest count")
    assert [each.verb for each in node.asked(part="/events", since=mark)] == ["create", "patch"]
    assert node.patches(mark) == 0
    inside.advance(300)
    until(lambda: "(1001 lines)" in node.condition()["message"], what="the heartbeat carries the count")


def test_a_heartbeat_moves_only_its_own_time(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start(heartbeat_seconds=300.0)
    inside.say("DMA_ERROR")
    inside.settle()
    before, mark = node.condition(), node.mark()
    inside.advance(295)
    inside.settle()
    assert node.patches(mark) == 0
    inside.advance(10)
    until(lambda: node.patches(mark) == 1)
    after = node.condition()
    assert after.pop("lastHeartbeatTime") > before.pop("lastHeartbeatTime")
    assert after == before


def test_a_healthy_node_asks_nothing_between_heartbeats(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start().settle()
    mark = node.mark()
    for _ in range(3):
        inside.advance(90)
        inside.settle()
    assert node.asked(since=mark) == []
    inside.advance(90)
    until(lambda: node.patches(mark) == 1)
    assert len(node.asked(since=mark)) == 1


def test_changes_within_a_second_are_merged(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start().settle()
    inside.advance(2)
    mark = node.mark()
    for device in range(16):
        inside.say("DMA_ERROR", device=device)
    inside.settle()
    assert node.patches(mark) <= 3
    assert all(f"nd-id={device} " in node.condition()["message"] for device in range(6))
    assert node.condition()["message"].endswith(" more")


@pytest.mark.parametrize(("request_", "left"), [(_DMA, {_HANG}), ("all", set()), ("Nonsense", {_DMA, _HANG})])
def test_an_operator_clears_what_he_names(
    node: OwnNode, start: Callable[..., Inside], request_: str, left: set[str]
) -> None:
    inside = start()
    inside.say("DMA_ERROR")
    inside.say("HANG_ON_COLLECTIVES")
    inside.settle()
    node.annotate(clear=request_, recovery="kept")
    inside.advance(20)
    until(lambda: node.annotation("clear") is None, what="the request is removed")
    inside.advance(1)
    inside.settle()
    assert {fault.reason for fault in inside.health.faults} == left
    assert node.status() == ("True" if left else "False")
    assert len(node.events("FaultCleared")) == 2 - len(left)
    assert all("an operator cleared it" in event["message"] for event in node.events("FaultCleared"))
    assert node.annotation("recovery") == "kept"


def test_a_request_is_not_looked_for_while_nothing_is_wrong(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start().settle()
    mark = node.mark()
    node.annotate(clear="all")
    inside.advance(200)
    inside.settle()
    assert node.asked(since=mark) == []


def test_a_request_older_than_the_fault_does_not_clear_it(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start().settle()
    node.annotate(clear="all")
    inside.say("DMA_ERROR")
    node.wait_for("True")
    inside.advance(2)
    until(lambda: node.annotation("clear") is None, what="the request is removed")
    inside.advance(30)
    inside.settle()
    assert node.is_true()
    assert node.events("FaultCleared") == []


def test_a_request_made_while_the_detector_was_away_is_met(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start()
    inside.say("DMA_ERROR")
    inside.settle()
    inside.__exit__()
    node.annotate(clear=_DMA)
    again = start()
    node.wait_for("False")
    again.advance(2)
    until(lambda: node.annotation("clear") is None, what="the request is removed")


def test_a_fault_that_comes_again_after_it_was_cleared_is_a_fault(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start()
    for _ in range(2):
        inside.advance(70)
        inside.say("DMA_ERROR")
        node.wait_for("True")
        inside.settle()
        node.annotate(clear="all")
        inside.advance(20)
        node.wait_for("False")
    inside.settle()
    assert len(node.events(_DMA)) == 1


def test_conditions_of_others_are_left_alone(node: OwnNode, start: Callable[..., Inside]) -> None:
    others = [{"type": kind, "status": "False", "reason": "Fine"} for kind in ("Ready", "MemoryPressure")]
    node.patch_status({"conditions": others})
    inside = start().settle()
    node.patch_status({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]})
    inside.say("DMA_ERROR")
    node.wait_for("True")
    assert {kind: each["status"] for kind, each in node.conditions().items()} == {
        "Ready": "Unknown",
        "MemoryPressure": "False",
        KIND: "True",
    }


def test_a_condition_that_somebody_else_changed_is_put_right(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start()
    inside.say("DMA_ERROR")
    inside.settle()
    before = node.condition()
    node.patch_status({"conditions": [{"type": KIND, "status": "False", "reason": "Healed"}]})
    inside.advance(25)
    assert node.wait_for("True") == before


def test_a_node_that_is_made_anew_is_told_again(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start()
    inside.say("DMA_ERROR")
    inside.settle()
    before = node.condition()
    node.delete()
    node.create()
    inside.advance(25)
    assert node.wait_for("True") == before
    inside.say("HANG_ON_COLLECTIVES")
    until(lambda: node.events(_HANG))
    assert node.events(_HANG)[0]["involvedObject"]["uid"] == node.get()["metadata"]["uid"]


def test_a_node_that_is_gone_is_waited_for(node: OwnNode, start: Callable[..., Inside]) -> None:
    inside = start().settle()
    node.delete()
    inside.say("DMA_ERROR")
    until(lambda: inside.board.requests.get(("PATCH", "404")), what="the Node is missed")
    node.create()
    inside.advance(30)
    assert node.wait_for("True")["reason"] == _DMA


def test_a_node_that_is_not_there_yet_is_waited_for(apiserver: ControlPlane, tmp_path: Path) -> None:
    node = OwnNode(apiserver, tmp_path, exists=False)
    with Inside(node, tmp_path) as inside:
        inside.say("DMA_ERROR")
        until(lambda: inside.board.requests.get(("GET", "404")), what="the Node is missed")
        assert inside.board.why_not_ready() == "no condition has reached the API server yet"
        node.create()
        inside.advance(30)
        node.wait_for("True")
        assert inside.board.why_not_ready() is None


def test_a_node_with_much_content_costs_no_more_than_one_without(node: OwnNode, start: Callable[..., Inside]) -> None:
    node.patch_status({"images": [{"names": [f"registry/{n}@sha256:{n:064}"], "sizeBytes": n} for n in range(200)]})
    node.patch({"metadata": {"annotations": {f"example.com/a{n}": "x" * 500 for n in range(100)}}})
    inside = start()
    inside.say("DMA_ERROR")
    node.wait_for("True")
