"""What recovery tells about a Node: each sentence one Event, with a count, and never at the cost of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, says, whole
from tests.kubernetes.recovering import Hands, OnNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.controlplane import ControlPlane


@pytest.fixture
def node(apiserver: ControlPlane) -> Iterator[OnNode]:
    node = OnNode(apiserver)
    yield node
    node.delete()


@pytest.fixture
def hands(apiserver: ControlPlane) -> Iterator[Hands]:
    hands = Hands(apiserver)
    yield hands
    hands.close()


def _events(node: OnNode) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={node.name}"
    found = node.admin.ask("GET", path)
    return list(found.body["items"])


def test_an_event_is_about_the_node_and_shown_with_it(hands: Hands, node: OnNode) -> None:
    hands.nodes.read(node.name)
    hands.nodes.tell(node.name, "Fenced", "DMA_ERROR: no new pods", warning=False)
    (event,) = until(lambda: _events(node))
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Fenced", 1)
    assert event["source"] == {"component": "chipwarden-recovery"}
    assert "no new pods" in hands.plane.kubectl("describe", "node", node.name)


def test_the_same_sentence_is_one_event_with_a_count_once_a_minute(hands: Hands, node: OnNode) -> None:
    since = hands.plane.audit_offset()
    for _ in range(50):
        hands.nodes.tell(node.name, "Blocked", "PerGroup: one at a time", warning=True)
    until(lambda: _events(node))
    for _ in range(50):
        hands.nodes.tell(node.name, "Blocked", "PerGroup: one at a time", warning=True)
    hands.nodes.tell(node.name, "Draining", "3 pods", warning=False)
    until(lambda: len(_events(node)) == 2)
    asked = [each.verb for each in hands.plane.requests(since=since) if "/events" in each.uri]
    written = [verb for verb in asked if verb in ("create", "patch")]
    assert written == ["create", "create"], "the second 50 wait"
    hands.clock.passed += 61
    hands.nodes.tell(node.name, "Blocked", "PerGroup: one at a time", warning=True)
    hands.close()
    counts = {each["reason"]: each["count"] for each in _events(node)}
    assert counts == {"Blocked": 101, "Draining": 1}


def test_the_next_leader_goes_on_with_the_count(hands: Hands, node: OnNode) -> None:
    for _ in range(3):
        hands.nodes.tell(node.name, "Stalled", "no news", warning=True)
    hands.close()
    successor = Hands(hands.plane)
    successor.nodes.tell(node.name, "Stalled", "no news", warning=True)
    successor.close()
    (event,) = _events(node)
    assert (event["type"], event["count"]) == ("Warning", 4)


def test_an_event_that_has_expired_is_written_anew(hands: Hands, node: OnNode) -> None:
    hands.nodes.tell(node.name, "Stalled", "no news", warning=True)
    (event,) = until(lambda: _events(node))
    node.admin.ask("DELETE", f"/api/v1/namespaces/default/events/{event['metadata']['name']}")
    hands.clock.passed += 61
    hands.nodes.tell(node.name, "Stalled", "no news", warning=True)
    hands.close()
    (event,) = _events(node)
    assert event["count"] == 1


def test_a_refused_event_does_not_hold_up_the_next(hands: Hands, node: OnNode) -> None:
    hands.nodes.tell("Not/A/Name", "Fenced", "x", warning=False)
    hands.clock.passed += 60
    hands.nodes.tell(node.name, "Fenced", "y", warning=False)
    hands.close()
    assert [each["message"] for each in _events(node)] == ["y"]


def test_what_was_told_while_the_api_server_was_away_is_written_later(node: OnNode, apiserver: ControlPlane) -> None:
    with FaultProxy(apiserver) as proxy:
        proxy.always(says(whole(503)))
        hands = Hands(apiserver, kubeconfig=apiserver.kubeconfig_for(apiserver.admin_token, url=proxy.url))
        hands.nodes.tell(node.name, "Fenced", "x" * 5000, warning=False)
        until(lambda: hands.events._lane.failures > 0)
        proxy.always(None)

        def both_are_written() -> bool:
            hands.clock.passed += 60
            hands.nodes.tell(node.name, "Replaced", "by i-1", warning=False)
            return len(_events(node)) == 2

        until(both_are_written)
        hands.close()
    messages = {each["reason"]: each["message"] for each in _events(node)}
    assert messages["Replaced"] == "by i-1"
    assert len(messages["Fenced"]) == 1024
