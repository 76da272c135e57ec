"""A detector whose state file is old, or was begun while the API server was away: no False is written in between."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from detector.model import ClearRequest
from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, says, silent, whole
from tests.kubernetes.inside import Inside
from tests.kubernetes.ownnode import OwnNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane
    from tests.kubernetes.faults import Fault

_DMA = "NeuronHasError_DMA_ERROR"


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> OwnNode:
    return OwnNode(apiserver, tmp_path)


@pytest.fixture
def proxy(apiserver: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(apiserver) as proxy:
        yield proxy


def _forget_lines(folder: Path) -> None:
    """Have the ring buffer hold none of the lines that were read."""
    (folder / "kmsg").unlink()


def _clear(inside: Inside, now: datetime) -> None:
    assert inside.health.clear(ClearRequest(reason="all", faults=inside.health.faults), now)


def _stays_true(node: OwnNode, folder: Path) -> None:
    """Start the detector and make sure that the Node says True all the time, and the same of the same device."""
    before, events = node.condition(), len(node.events())
    assert before["status"] == "True"
    with node.watch() as watch, Inside(node, folder) as inside:
        inside.settle()
        assert {condition.status for condition in inside.board.conditions()} == {"True"}
        inside.advance(301)
        until(lambda: node.condition()["lastHeartbeatTime"] > before["lastHeartbeatTime"], what="a heartbeat")
    assert watch.statuses() <= {"True"}
    after = node.condition()
    assert after.pop("lastHeartbeatTime") > before.pop("lastHeartbeatTime")
    assert after == before
    assert len(node.events()) == events


def test_a_fault_that_the_disk_never_heard_of_is_never_false(node: OwnNode, tmp_path: Path) -> None:
    with Inside(node, tmp_path) as inside:
        inside.settle()
        until((tmp_path / "state/state.json").exists)
        (tmp_path / "state/.state.json.new").mkdir()  # from now on no state can be written
        inside.say("DMA_ERROR", device=1)
        inside.settle()
    assert "DMA_ERROR" not in (tmp_path / "state/state.json").read_text()
    (tmp_path / "state/.state.json.new").rmdir()
    _forget_lines(tmp_path)
    _stays_true(node, tmp_path)


@pytest.mark.parametrize("answer", [silent, says(whole(503))], ids=["silence", "refusal"])
def test_what_the_node_says_is_taken_over_by_a_later_start_if_the_first_could_not_read_it(
    apiserver: ControlPlane, node: OwnNode, proxy: FaultProxy, tmp_path: Path, answer: Fault
) -> None:
    with Inside(node, tmp_path) as inside:
        inside.say("DMA_ERROR", device=1)
        inside.settle()
    shutil.rmtree(tmp_path / "state")
    _forget_lines(tmp_path)
    proxy.always(answer)
    file = tmp_path / "state/state.json"
    with Inside(node, tmp_path, kubeconfig=apiserver.kubeconfig_for(node.token(), url=proxy.url)) as unheard:
        until(file.exists)
        until(lambda: unheard.board.view)
        assert unheard.board.conditions() == (), "no page says False either"
    assert json.loads(file.read_text())["conditions"][0]["status"] == "False"
    proxy.always(None)
    _stays_true(node, tmp_path)
    assert not json.loads(file.read_text())["awaits_node"]


def test_a_fault_that_was_cleared_while_the_api_server_was_away_does_not_come_back(
    apiserver: ControlPlane, node: OwnNode, proxy: FaultProxy, tmp_path: Path
) -> None:
    kubeconfig = apiserver.kubeconfig_for(node.token(), url=proxy.url)
    with Inside(node, tmp_path, kubeconfig=kubeconfig) as inside:
        inside.say("DMA_ERROR")
        inside.settle()
        inside.advance(5)
        proxy.always(says(whole(503)))
        inside.agent.post(lambda now: _clear(inside, now))
        until(lambda: '"faults": []' in (tmp_path / "state/state.json").read_text(), what="kept")
    assert node.is_true()
    proxy.always(None)
    with Inside(node, tmp_path) as again:
        node.wait_for("False")
        again.settle()
        assert again.health.faults == ()
