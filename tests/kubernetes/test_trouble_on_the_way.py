"""Trouble on the way to the API server: the last state arrives all the same, and no more is asked than need be.

The trouble is made by a stand-in in front of the real API server.
"""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, closes_after, resets_after, says, silent, takes, vanishes, whole
from tests.kubernetes.inside import Inside
from tests.kubernetes.ownnode import OwnNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane
    from tests.kubernetes.faults import Fault

_DMA = "NeuronHasError_DMA_ERROR"
_HANG = "NeuronHasError_HANG_ON_COLLECTIVES"


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> OwnNode:
    return OwnNode(apiserver, tmp_path)


@pytest.fixture
def proxy(apiserver: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(apiserver) as proxy:
        yield proxy


@pytest.fixture
def inside(apiserver: ControlPlane, node: OwnNode, proxy: FaultProxy, tmp_path: Path) -> Iterator[Inside]:
    """Start a detector behind the proxy; its first condition is published, and the next may be at once."""
    with Inside(node, tmp_path, kubeconfig=apiserver.kubeconfig_for(node.token(), url=proxy.url)) as inside:
        inside.settle()
        inside.advance(2)
        yield inside


@pytest.mark.parametrize("fault", [resets_after(0), resets_after(100), closes_after(0), closes_after(100)])
def test_an_answer_that_was_cut_off_changes_nothing(
    node: OwnNode, proxy: FaultProxy, inside: Inside, fault: Fault
) -> None:
    proxy.will(fault, fault, verb="PATCH")
    proxy.will(fault, fault, verb="POST")
    with node.watch() as watch:
        inside.say("DMA_ERROR")
        inside.settle()
        watch.first(lambda state: state.status == "True")
    assert len({(state.status, state.transition) for state in watch.states}) == 1
    (event,) = node.events()
    assert (event["reason"], event["count"]) == (_DMA, 1)
    assert node.condition()["lastTransitionTime"] == inside.health.view().conditions[0].last_transition_at.strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def test_a_request_that_is_not_answered_is_given_up_and_sent_again(
    node: OwnNode, proxy: FaultProxy, inside: Inside
) -> None:
    proxy.will(silent, verb="PATCH")
    begun = time.monotonic()
    inside.say("DMA_ERROR", device=1)
    inside.say("HANG_ON_COLLECTIVES", device=2)
    node.wait_for("True")
    assert 4.5 < time.monotonic() - begun < 8
    assert "nd-id=2" in node.condition()["message"]


def test_after_an_hour_the_last_state_arrives(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:
    proxy.always(says(whole(503, Retry_After="1")))
    inside.say("DMA_ERROR", device=0)
    for number in range(120):
        tried = inside.publisher._patches.failures
        inside.advance(30)
        until(partial(_has_failed_again, inside, tried), what="it is tried again within half a minute")
        if number == 60:
            inside.say("DMA_ERROR", device=1, times=1000)
    assert len(proxy.requests("PATCH")) < 300
    proxy.always(None)
    inside.advance(40)
    condition = node.wait_for("True")
    inside.settle()
    assert "nd-id=1" in condition["message"]
    assert {event["count"] for event in node.events(_DMA)} == {1, 1000}


def _has_failed_again(inside: Inside, tried: int) -> bool:
    return inside.publisher._patches.failures > tried


def test_retry_after_is_obeyed(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:
    proxy.will(says(whole(429, Retry_After="2")), verb="PATCH")
    inside.say("DMA_ERROR")
    node.wait_for("True")
    refused, taken = proxy.requests("PATCH")[1:3]
    assert 2.0 <= taken.at - refused.at < 4.0


@pytest.mark.parametrize("status", [409, 503])
def test_a_refusal_is_tried_again_ever_more_slowly(
    node: OwnNode, proxy: FaultProxy, inside: Inside, status: int
) -> None:
    proxy.will(*[says(whole(status))] * 3, verb="PATCH")
    inside.say("DMA_ERROR")
    node.wait_for("True")
    inside.settle()
    times = [each.at for each in proxy.requests("PATCH")[1:]]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(waits) == 3
    assert 0.12 < waits[0] < waits[1] * 2.2 < waits[2] * 5


def test_a_fault_that_was_refused_is_merged_with_the_next(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:
    proxy.always(says(whole(503)))
    for device in range(10):
        inside.say("DMA_ERROR", device=device)
    until(lambda: len(proxy.requests("PATCH")) >= 3)
    proxy.always(None)
    before = len(proxy.requests("PATCH"))
    inside.settle()
    assert len(proxy.requests("PATCH")) <= before + 2
    assert "nd-id=0 " in node.condition()["message"]
    assert len(inside.health.faults) == 10


def test_a_half_open_connection_is_replaced(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:
    proxy.will(vanishes, verb="PATCH")
    inside.say("DMA_ERROR", device=0)
    node.wait_for("True")
    begun = time.monotonic()
    inside.say("DMA_ERROR", device=1)
    until(lambda: "nd-id=1 " in node.condition()["message"])
    assert time.monotonic() - begun < 4


def test_an_event_that_is_hopeless_does_not_hold_up_others(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:
    proxy.will(says(whole(422, b'{"message": "Event is invalid"}')), verb="POST")
    inside.say("DMA_ERROR")
    inside.settle()
    inside.say("HANG_ON_COLLECTIVES")
    inside.settle()
    assert [event["reason"] for event in node.events()] == [_HANG]


def test_events_that_are_refused_do_not_hold_up_conditions(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:

    proxy.will(*[says(whole(403))] * 50, verb="POST")
    inside.say("DMA_ERROR")
    node.wait_for("True")
    inside.say("HANG_ON_COLLECTIVES")
    until(lambda: _HANG in node.condition()["message"])
    assert node.events() == []


def test_what_is_outstanding_is_sent_before_the_end(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:
    proxy.will(takes(0.5), verb="PATCH")
    inside.say("DMA_ERROR")
    inside.__exit__()
    assert node.is_true()
    assert len(node.events(_DMA)) == 1


def test_an_answer_that_is_no_node_is_an_error(node: OwnNode, proxy: FaultProxy, inside: Inside) -> None:
    proxy.will(*[says(whole(200, body)) for body in (b"<html>login</html>", b"[]", b"\xff")], verb="PATCH")
    inside.say("DMA_ERROR")
    assert node.wait_for("True")
    inside.settle()
    assert len(proxy.requests("PATCH")) == 5
