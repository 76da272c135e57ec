"""Floods on the real kernel log: nothing is lost without being counted, and memory stays flat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.detector.process import KMSG, neuron_line, until, write_kernel_log

if TYPE_CHECKING:
    from tests.detector.process import Detector

DMA = "NeuronHasError_DMA_ERROR"
COUNT = 50_000
CHUNK = 250  # of equal lines at a time: the ring buffer of 128 KiB holds more of them
MEGABYTE = 1 << 20
DEBUG = "<15>"  # facility user, a level that no console prints


def position(detector: Detector) -> tuple[int, int]:
    """Read how many records were read or lost, and the number of the last one, at one quiet moment."""

    def same_before_and_after() -> tuple[int, int] | None:
        before = detector.conditions()["sequence"]
        metrics = detector.metrics()
        counted = sum(int(metrics[f"chipwarden_detector_{name}_total", ()]) for name in ("records", "lost_records"))
        return (counted, before) if detector.conditions()["sequence"] == before else None

    return until(same_before_and_after)


def test_after_a_flood_the_fault_is_found_and_every_record_is_accounted_for(detector: Detector) -> None:
    counted, last = position(detector)
    resident = detector.resident_bytes()
    write_kernel_log(*(f"{DEBUG}flood of lines that mean nothing, number {number}" for number in range(COUNT)))
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {DMA: 1}, what="the fault after the flood is found")
    counted_after, last_after = position(detector)
    assert counted_after - counted == last_after - last
    assert last_after - last > COUNT
    assert detector.resident_bytes() - resident <= 2 * MEGABYTE
    assert detector.condition()["status"] == "True"
    if detector.metric("lost_records_total"):
        assert until(lambda: detector.log("kernel log overran the reader"), what="the flood is told")
    assert len(detector.log()) <= 1 + 1 + 3  # the start, the fault, the flood


def test_fifty_thousand_equal_faults_are_one_fault_with_a_count(detector: Detector) -> None:
    line = DEBUG + neuron_line("DMA_ERROR", detector.instance)
    write_kernel_log(line)
    until(lambda: detector.faults() == {DMA: 1})
    lost, resident = detector.metric("lost_records_total"), detector.resident_bytes()
    for written in range(CHUNK, COUNT, CHUNK):
        write_kernel_log(*[line] * CHUNK)
        until(lambda written=written: detector.metric("problem_counter", DMA) > written)  # type: ignore[misc]
    write_kernel_log(*[line] * (CHUNK - 1))
    until(lambda: detector.metric("problem_counter", DMA) == COUNT)
    assert detector.metric("lost_records_total") == lost
    (fault,) = detector.conditions()["faults"]
    assert fault["count"] == COUNT
    assert detector.resident_bytes() - resident <= 2 * MEGABYTE
    assert len(detector.log()) <= 5
    assert detector.told() == [DMA]


def test_a_flood_of_different_devices_is_bounded(detector: Detector) -> None:
    resident = detector.resident_bytes()
    for chunk in range(0, 2_000, CHUNK):
        lines = (neuron_line("DMA_ERROR", detector.instance, serial=f"{chunk + n:x}") for n in range(CHUNK))
        write_kernel_log(*(DEBUG + line for line in lines))
        until(lambda chunk=chunk: detector.metric("problem_counter", DMA) == chunk + CHUNK)  # type: ignore[misc]
    faults = detector.conditions()["faults"]
    assert len(faults) < 200
    assert sum(fault["count"] for fault in faults) == 2_000
    assert len(detector.condition()["message"]) <= 1_024
    assert detector.resident_bytes() - resident <= 2 * MEGABYTE
    assert len(detector.log()) < 40


def test_the_longest_records_come_through(detector: Detector) -> None:
    with open(KMSG, "wb", buffering=0) as device:  # noqa: PTH123 - one write() is one record
        device.writelines(b"\xff" * 914 + b"\n" for _ in range(20))
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {DMA: 1})
    assert detector.metric("malformed_records_total") == 0
