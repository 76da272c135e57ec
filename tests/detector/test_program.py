"""The whole program on the real kernel log: what each line makes of the pages, and how it ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import CODES, neuron_line, until, write_kernel_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.detector.process import Detector

DMA = "NeuronHasError_DMA_ERROR"


def benign(detector: Detector) -> None:
    """Write a line that means nothing, and wait until the detector has read it and all before it."""
    before = detector.metric("records_total")
    write_kernel_log("nothing to see here")
    until(lambda: detector.metric("records_total") > before, what="the line is read")


@pytest.mark.parametrize("code", CODES)
def test_each_neuron_code_shows_at_once_with_device_core_and_serial(detector: Detector, code: str) -> None:
    reason = f"NeuronHasError_{code}"
    assert detector.metric("problem_gauge", "NeuronHasError", reason) == 0
    written = time.monotonic()
    detector.write(code, device=11, core=1, serial="5e5e")
    until(lambda: detector.metric("problem_gauge", "NeuronHasError", reason) == 1, seconds=0.9)
    assert time.monotonic() - written < 0.9
    (fault,) = detector.conditions()["faults"]
    assert fault["reason"] == reason
    assert fault["count"] == 1
    assert fault["details"] == {
        "instance-id": detector.instance,
        "hostname": "ip-10-0-0-1",
        "nd-id": "11",
        "nc-id": "1",
        "serial-num": "5e5e",
        "action": "TERMINATE_INSTANCE",
    }
    condition = detector.condition()
    assert (condition["status"], condition["reason"]) == ("True", reason)
    assert "nd-id=11 nc-id=1 serial-num=5e5e" in condition["message"]
    assert detector.metric("problem_counter", reason) == 1
    assert until(detector.told) == [reason]


def test_without_a_fault_everything_is_false_and_zero(detector: Detector) -> None:
    condition = detector.condition()
    assert (condition["status"], condition["reason"]) == ("False", "NeuronHasNoError")
    assert set(detector.metrics().values()) >= {0.0}
    assert [detector.metric("problem_gauge", "NeuronHasError", f"NeuronHasError_{code}") for code in CODES] == [0] * 5
    assert detector.conditions()["faults"] == []


def test_ten_thousand_benign_lines_do_not_make_the_log_grow(detector: Detector) -> None:
    before = detector.log()
    for _ in range(20):
        write_kernel_log(*["<15>usb 1-1: nothing wrong with NEURON, none at all"] * 500)
        benign(detector)
    assert detector.log() == before


def test_a_second_device_adds_to_the_message_and_keeps_the_transition_time(detector: Detector) -> None:
    detector.write("DMA_ERROR", device=1)
    until(detector.faults)
    first = detector.condition()
    detector.write("DMA_ERROR", device=2)
    until(lambda: detector.faults() == {DMA: 2})
    second = detector.condition()
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert "nd-id=1 " in second["message"]
    assert "nd-id=2 " in second["message"]


def test_a_graver_fault_takes_the_reason_over(detector: Detector) -> None:
    detector.write("HANG_ON_COLLECTIVES")
    until(detector.faults)
    detector.write("SRAM_UNCORRECTABLE_ERROR")
    until(lambda: detector.condition()["reason"] == "NeuronHasError_SRAM_UNCORRECTABLE_ERROR")
    assert len(detector.faults()) == 2


def test_a_line_about_another_instance_is_counted_as_foreign_and_nothing_else(detector: Detector) -> None:
    before = detector.metric("foreign_lines_total")
    write_kernel_log(neuron_line("DMA_ERROR", "i-0fffffffffffffff0"))
    until(lambda: detector.metric("foreign_lines_total") > before)
    assert detector.faults() == {}
    assert detector.condition()["status"] == "False"
    assert detector.told() == []


def test_a_line_of_a_person_matches(detector: Detector) -> None:
    write_kernel_log(f"<3>{neuron_line('DMA_ERROR', detector.instance)}")
    until(lambda: detector.faults() == {DMA: 1})


def test_a_line_of_a_person_is_refused_with_kernel_only(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector().start("--kernel-only")
    detector.write("DMA_ERROR")
    benign(detector)
    assert detector.faults() == {}


@pytest.mark.parametrize("prefix", ["<27>", "<30>", "<83>"])
def test_a_line_of_a_log_daemon_never_matches(detector: Detector, prefix: str) -> None:
    write_kernel_log(prefix + neuron_line("DMA_ERROR", detector.instance))
    benign(detector)
    assert detector.faults() == {}
    assert detector.metric("problem_counter", DMA) == 0


def test_a_fault_written_right_after_the_start_is_reported_once(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector().start(ready=False)
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {DMA: 1}, seconds=2)
    until(lambda: detector.told() == [DMA])


def test_a_fault_from_before_the_start_is_found_with_its_own_time(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector()
    detector.write("DMA_ERROR")
    written = time.time()
    detector.start()
    assert detector.faults() == {DMA: 1}
    since = detector.metric("fault_since_timestamp_seconds", "NeuronHasError", DMA)
    assert abs(since - written) < 0.2


def test_an_unknown_code_is_counted_and_condemns_nobody(detector: Detector) -> None:
    detector.write("SOMETHING_NEW")
    until(lambda: detector.metric("problem_counter", "NeuronHasError_OTHER") == 1)
    assert detector.condition()["status"] == "False"
    assert until(detector.told) == ["NeuronHasError_OTHER"]
