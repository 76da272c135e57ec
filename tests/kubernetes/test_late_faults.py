"""A fault that comes, or comes again, after an operator's request is not what the request means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from detector.health import NOTHING_CLEARED
from tests.detector.process import until
from tests.kubernetes.inside import Inside
from tests.kubernetes.ownnode import OwnNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> OwnNode:
    return OwnNode(apiserver, tmp_path)


@pytest.fixture
def inside(node: OwnNode, tmp_path: Path) -> Iterator[Inside]:
    with Inside(node, tmp_path) as inside:
        yield inside


def test_a_fault_that_came_after_the_request_is_not_cleared_with_the_one_before(node: OwnNode, inside: Inside) -> None:
    inside.say("HANG_ON_COLLECTIVES")
    inside.settle()
    inside.advance(2)
    node.annotate(clear="all")
    inside.say("SRAM_UNCORRECTABLE_ERROR", device=5)  # the answer to its own PATCH carries the request
    until(lambda: node.annotation("clear") is None, what="the request is removed")
    inside.advance(30)
    inside.settle()
    assert [fault.reason for fault in inside.health.faults] == ["NeuronHasError_SRAM_UNCORRECTABLE_ERROR"]
    assert "HANG" not in node.condition()["message"]
    assert node.is_true()


def test_a_fault_that_came_again_after_the_request_is_not_cleared(
    node: OwnNode, inside: Inside, caplog: pytest.LogCaptureFixture
) -> None:
    inside.say("DMA_ERROR")
    inside.settle()
    node.annotate(clear="all")
    inside.say("DMA_ERROR")
    inside.advance(25)
    until(lambda: node.annotation("clear") is None, what="the request is removed")
    inside.settle()
    assert node.is_true()
    assert NOTHING_CLEARED in caplog.messages
    node.annotate(clear="all")
    inside.advance(25)
    node.wait_for("False")
