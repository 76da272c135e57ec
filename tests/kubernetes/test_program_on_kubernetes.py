"""The program itself, on the real kernel log and a real API server."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.vocabulary import ACCELERATED_HARDWARE_READY
from tests.detector.process import neuron_line, until, write_kernel_log
from tests.kubernetes.ownnode import KIND, OwnNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.controlplane import ControlPlane

_DMA = "NeuronHasError_DMA_ERROR"
_CODES = (
    "SRAM_UNCORRECTABLE_ERROR",
    "NC_UNCORRECTABLE_ERROR",
    "HBM_UNCORRECTABLE_ERROR",
    "DMA_ERROR",
    "HANG_ON_COLLECTIVES",
)


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> Iterator[OwnNode]:
    with OwnNode(apiserver, tmp_path) as node:
        yield node


def _threads(node: OwnNode) -> int:
    status = Path(f"/proc/{node.detector.process.pid}/status").read_text()
    return int(status.partition("Threads:")[2].split()[0])


def _lines_left(instance: str) -> int:
    """Count the lines about an instance that the ring buffer holds."""
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.count(f"instance-id={instance}")


def test_a_line_is_seen_by_a_watch_and_described(apiserver: ControlPlane, node: OwnNode) -> None:
    detector = node.start()
    assert node.condition()["reason"] == "NeuronHasNoError"
    with node.watch() as watch:
        written = time.monotonic()
        detector.write("DMA_ERROR", device=11)
        seen = watch.first(lambda state: state.status == "True")
    assert seen.at - written < 1
    assert seen.reason == _DMA
    assert detector.condition()["lastTransitionTime"] == node.condition()["lastTransitionTime"]
    until(lambda: detector.metric("fault_latency_seconds_count") == 1)
    until(lambda: node.events(_DMA))
    assert detector.metric("api_requests_total", "PATCH", "200") == 2
    assert detector.metric("api_requests_total", "POST", "201") == 1
    described = apiserver.kubectl("describe", "node", node.name)
    assert f"{KIND} " in described
    assert "nd-id=11" in described
    assert "chipwarden-detector" in described.partition("Events:")[2]
    assert _DMA in described.partition("Events:")[2]


def test_a_fault_survives_the_death_of_the_detector(node: OwnNode) -> None:
    detector = node.start()
    for device in (1, 2, 1, 1):
        detector.write("DMA_ERROR", device=device)
    until(lambda: detector.faults() == {_DMA: 4})
    until(lambda: len(node.events(_DMA)) == 2)
    before = node.wait_until(lambda condition: "nd-id=2" in condition["message"])
    events = {event["metadata"]["name"] for event in node.events()}
    with node.watch() as watch:
        detector.kill()
        node.start()
        until(lambda: detector.faults() == {_DMA: 4})
        assert node.condition()["lastTransitionTime"] == before["lastTransitionTime"]
        detector.write("DMA_ERROR", device=2)
        until(lambda: [each["count"] for each in node.events() if "nd-id=2" in each["message"]] == [2])
        assert {event["metadata"]["name"] for event in node.events()} == events
        detector.write("DMA_ERROR", device=3)
        until(lambda: len(node.events(_DMA)) == 3)
        node.wait_until(lambda condition: "nd-id=3" in condition["message"])
        events = {event["metadata"]["name"] for event in node.events()}
        detector.kill()
        shutil.rmtree(detector.state_dir)
        mark, left = node.mark(), _lines_left(detector.instance)
        node.start()
        counted = detector.faults()[_DMA]
        assert _lines_left(detector.instance) <= counted <= left, (
            "all that the kernel still has, 6 unless it is flooded"
        )
        assert node.condition()["lastTransitionTime"] == before["lastTransitionTime"]
        assert node.asked(part="/events", since=mark) == [], "nothing is told twice"
        detector.write("HANG_ON_COLLECTIVES")
        until(lambda: "HANG" in node.condition()["message"])
        watch.first(lambda state: state.status == "True")
        assert watch.statuses() == {"True"}
        assert {state.transition for state in watch.states} == {before["lastTransitionTime"]}
    assert {event["metadata"]["name"] for event in node.events(_DMA)} == events


def test_a_storm_is_brought_to_the_api_server_at_a_walking_pace(node: OwnNode) -> None:
    detector = node.start()
    threads, mark, begun = _threads(node), node.mark(), time.monotonic()
    lines = [neuron_line(code, detector.instance, device=n // 8, core=n % 8) for code in _CODES for n in range(100)]
    for number in range(0, 500, 10):
        time.sleep(max(0.0, begun + number / 50 - time.monotonic()))  # the storm's own pace: 50 lines a second
        write_kernel_log(*lines[number : number + 10])
    assert until(lambda: sum(detector.faults().values()) == 500)
    assert time.monotonic() - begun < 12
    assert node.patches(mark) <= 12
    assert 20 <= len(node.asked(part="/events", since=mark)) <= 35
    condition = node.wait_until(lambda condition: condition["message"].endswith("more"))
    assert condition["status"] == "True"
    assert condition["message"].startswith("NeuronHasError_SRAM")
    assert len(condition["message"]) <= 1024
    assert len(detector.conditions()["faults"]) == 500
    assert _threads(node) == threads
    node.wait_until(lambda condition: condition["message"] == detector.condition()["message"])
    node.annotate(clear="all")  # means what is published by now
    node.wait_for("False", seconds=30)
    until(lambda: node.annotation("clear") is None)
    assert detector.faults() == {}


def test_it_is_ready_when_the_first_condition_is_published(apiserver: ControlPlane, tmp_path: Path) -> None:
    with OwnNode(apiserver, tmp_path, exists=False) as node:
        detector = node.start(ready=False)
        until(lambda: detector.metrics().get(("chipwarden_detector_api_requests_total", ("GET", "404"))))
        assert detector.page("/readyz") == (503, "no condition has reached the API server yet\n")
        assert detector.page("/healthz")[0] == 200
        node.create()
        until(lambda: detector.page("/readyz")[0] == 200)
        assert node.status() == "False"


@pytest.mark.parametrize("faulty", [False, True])
def test_a_detector_that_cannot_see_says_so_before_it_ends(node: OwnNode, *, faulty: bool) -> None:
    detector = node.detector
    if faulty:
        node.start().write("DMA_ERROR")
        node.wait_for("True")
        detector.kill()
        shutil.rmtree(detector.state_dir)
    before = node.condition()
    own = ["run", "--kubernetes", "on", "--node-name", node.name, "--listen", "127.0.0.1:0", "--kmsg", "/dev/nothing"]
    own += ["--state-dir", str(detector.state_dir), "--instance-id", detector.instance]
    detector.launch(*own, "--boot-id-file", detector.boot_id_file, env={"KUBECONFIG": str(node.kubeconfig)})
    assert detector.process.wait(20) == 3
    after = node.condition()
    if faulty:
        assert (after["status"], after["lastTransitionTime"]) == ("True", before["lastTransitionTime"])
    else:
        assert (after["status"], after["reason"]) == ("Unknown", "DetectorBlind")
        assert "/dev/nothing" in after["message"]
    assert [event["type"] for event in node.events("DetectorBlind")] == ["Warning"]


def test_accelerated_hardware_ready_is_refused_to_whoever_comes_second(node: OwnNode) -> None:
    node.patch_status({"conditions": [{"type": ACCELERATED_HARDWARE_READY, "status": "True", "reason": "EKS"}]})
    detector = node.start(env={"CHIPWARDEN_ACCELERATED_HARDWARE_READY": "true"})
    assert detector.metric("platform_repair") == 0
    (line,) = detector.log("another agent owns this condition, not published")
    assert line["level"] == "error"
    detector.write("DMA_ERROR")
    node.wait_for("True")
    assert node.condition(ACCELERATED_HARDWARE_READY)["reason"] == "EKS"


def test_accelerated_hardware_ready_is_published_if_asked_for(node: OwnNode) -> None:
    detector = node.start(env={"CHIPWARDEN_ACCELERATED_HARDWARE_READY": "true"})
    assert node.status(ACCELERATED_HARDWARE_READY) == "True"
    assert detector.metric("platform_repair") == 1
    detector.write("DMA_ERROR")
    assert node.wait_for("False", ACCELERATED_HARDWARE_READY)["reason"] == "NeuronDMAError"
