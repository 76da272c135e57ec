"""An API server that is away, frozen or in trouble: the reader never notices, and the last state arrives by itself."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import until, write_kernel_log
from tests.kubernetes.ownnode import OwnNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.detector.process import Detector
    from tests.kubernetes.controlplane import ControlPlane

_DMA = "NeuronHasError_DMA_ERROR"
_TROUBLE = "API server refuses or does not answer"


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> Iterator[OwnNode]:
    with OwnNode(apiserver, tmp_path) as node:
        yield node


@pytest.fixture
def other(apiserver: ControlPlane, tmp_path: Path) -> Iterator[OwnNode]:
    with OwnNode(apiserver, tmp_path) as node:
        yield node


@contextlib.contextmanager
def _stopped(apiserver: ControlPlane) -> Iterator[None]:
    apiserver.stop_apiserver(abruptly=True)
    try:
        yield
    finally:
        apiserver.start_apiserver()


@contextlib.contextmanager
def _frozen(apiserver: ControlPlane) -> Iterator[None]:
    apiserver.freeze_apiserver()
    try:
        yield
    finally:
        apiserver.thaw_apiserver()


def _works_as_before(detector: Detector) -> None:
    """Make sure that the reader does not notice: records are counted, pages answer, faults are known."""
    read = detector.metric("records_total")
    write_kernel_log(*[f"benign {detector.instance} {n}" for n in range(10)])
    until(lambda: detector.metric("records_total") >= read + 10, seconds=2, what="records are read")
    detector.write("DMA_ERROR")
    until(lambda: _statuses(detector) == ["True"], seconds=2, what="the fault is known")
    assert detector.page("/healthz")[0] == 200


def _statuses(detector: Detector) -> list[str]:
    """List what the page says; nothing is said to be False before the Node could be read."""
    return [condition["status"] for condition in detector.conditions()["conditions"]]


def _failed(detector: Detector, verb: str) -> float:
    return detector.metrics().get(("chipwarden_detector_api_requests_total", (verb, "none")), 0)


def test_a_fault_of_an_outage_arrives_when_it_is_over(apiserver: ControlPlane, node: OwnNode, other: OwnNode) -> None:
    detector = node.start()
    with _stopped(apiserver):
        late = other.start(ready=False)
        _works_as_before(detector)
        _works_as_before(late)
        until(lambda: _failed(detector, "PATCH") >= 2, what="it is tried again")
        until(lambda: _failed(late, "GET") >= 2, what="it is tried again")
        assert detector.page("/readyz")[0] == 200
        assert late.page("/readyz") == (503, "no condition has reached the API server yet\n")
        for running in (detector, late):
            assert 1 <= len(running.log(_TROUBLE)) <= 2, "said once for conditions and once for Events"
    for each in (node, other):
        assert each.wait_for("True", seconds=35)["reason"] == _DMA
        until(partial(each.events, _DMA), seconds=35)
    assert late.page("/readyz")[0] == 200


def test_a_frozen_api_server_stops_neither_the_reader_nor_the_end(
    apiserver: ControlPlane, node: OwnNode, other: OwnNode
) -> None:
    detector, ending = node.start(), other.start()
    with _frozen(apiserver):
        _works_as_before(detector)
        _works_as_before(ending)
        begun = time.monotonic()
        assert ending.stop() == 0
        assert time.monotonic() - begun < 5
        until(lambda: _failed(detector, "PATCH") >= 1, seconds=8, what="the request is given up")
    assert node.wait_for("True", seconds=15)["reason"] == _DMA
    with other.watch() as watch:
        other.start()
        watch.first(lambda state: state.status == "True")
        assert watch.statuses() == {"True"}, "the state file has kept what could not be published"


def test_a_rotated_token_leaves_no_gap(node: OwnNode) -> None:
    first = node.token(secret=f"{node.name}-1")
    node.token_file.write_text(first)
    detector = node.start("--heartbeat", "1s")
    node.token_file.write_text(node.token(secret=f"{node.name}-2"))
    node.revoke(first, f"{node.name}-1")
    mark = node.mark()
    until(lambda: node.patches(mark) >= 2, what="heartbeats go on")
    detector.write("DMA_ERROR")
    node.wait_for("True", seconds=2)
    assert detector.log(_TROUBLE) == []
    assert {each.code for each in node.asked("patch")} == {200}
    assert detector.metric("api_requests_total", "PATCH", "401") == 1
