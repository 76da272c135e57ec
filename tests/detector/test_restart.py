"""What survives: a kill, a reboot, a replacement, a full disk, a state file that is something else."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import chipwarden, until, write_kernel_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.detector.process import Detector

DMA, HANG = "NeuronHasError_DMA_ERROR", "NeuronHasError_HANG_ON_COLLECTIVES"
SRAM = "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"


def state(detector: Detector) -> str:
    """Read the state file; "" while there is none."""
    file = detector.state_dir / "state.json"
    return file.read_text() if file.exists() else ""


def with_faults(detector: Detector, *codes: str) -> Detector:
    """Give it faults, and wait until they are on disk."""
    for code in codes:
        detector.write(code)
    until(lambda: all(f'"reason": "NeuronHasError_{code}",' in state(detector) for code in codes), what="faults kept")
    return detector


def test_a_killed_detector_still_knows_its_fault_and_says_nothing_twice(detector: Detector) -> None:
    with_faults(detector, "DMA_ERROR")
    before, faults = detector.condition(), detector.conditions()["faults"]
    detector.kill()
    detector.start()
    assert detector.condition() == before
    assert detector.conditions()["faults"] == faults
    assert detector.metric("problem_gauge", "NeuronHasError", DMA) == 1
    assert detector.metric("problem_counter", DMA) == 0
    assert detector.told() == []


def test_a_fault_stays_through_many_kills(detector: Detector) -> None:
    with_faults(detector, "DMA_ERROR")
    before = detector.condition()
    for _ in range(4):
        detector.kill()
        detector.start()
    assert detector.condition() == before
    assert detector.faults() == {DMA: 1}


def test_a_fault_written_while_it_was_down_is_found_with_its_own_time(detector: Detector) -> None:
    with_faults(detector, "DMA_ERROR")
    before = detector.condition()
    detector.kill()
    detector.write("SRAM_UNCORRECTABLE_ERROR")
    written = time.time()
    write_kernel_log(*["<15>nothing to see here"] * 300)
    detector.start()
    assert detector.faults() == {DMA: 1, SRAM: 1}
    assert detector.condition()["lastTransitionTime"] == before["lastTransitionTime"]
    assert detector.condition()["reason"] == SRAM
    assert until(detector.told) == [SRAM]
    assert abs(detector.metric("fault_since_timestamp_seconds", "NeuronHasError", SRAM) - written) < 0.2


def test_the_same_fault_again_while_it_was_down_counts_and_moves_nothing_else(detector: Detector) -> None:
    with_faults(detector, "DMA_ERROR")
    before = detector.condition()
    detector.kill()
    detector.write("DMA_ERROR")
    detector.start()
    until(lambda: detector.faults() == {DMA: 2})
    assert detector.condition()["lastTransitionTime"] == before["lastTransitionTime"]
    assert detector.metric("problem_counter", DMA) == 1


def test_an_old_fault_after_more_known_records_than_a_batch_has_its_own_time(detector: Detector) -> None:
    write_kernel_log(*["<15>nothing to see here"] * 700)
    until(lambda: detector.metric("records_total") > 700)
    detector.stop()
    detector.write("DMA_ERROR")
    written = time.time()
    detector.start()
    assert detector.faults() == {DMA: 1}
    assert abs(detector.metric("fault_since_timestamp_seconds", "NeuronHasError", DMA) - written) < 0.2


def test_a_clean_stop_keeps_the_position(detector: Detector) -> None:
    write_kernel_log("nothing to see here")
    until(lambda: detector.metric("records_total") > 0)
    assert detector.stop() == 0
    detector.start()
    assert detector.metric("records_total") < 50
    assert detector.metric("lost_records_total") == 0


def test_a_reboot_ends_what_a_reboot_ends_and_nothing_else(detector: Detector) -> None:
    with_faults(detector, "DMA_ERROR", "HANG_ON_COLLECTIVES")
    before = detector.condition()
    detector.kill()
    detector.boot_id_file.write_text("b0000000-0000-4000-8000-000000000002\n")
    write_kernel_log(*["<15>the ring buffer of the new boot has no line of the old one " + "." * 50] * 4_000)
    detector.start()
    assert detector.faults() == {DMA: 1}
    assert detector.condition()["lastTransitionTime"] == before["lastTransitionTime"]
    assert detector.condition()["reason"] == DMA
    assert until(detector.told) == ["FaultCleared"]
    assert HANG in detector.log("notice")[0]["message"]
    assert "rebooted" in detector.log("notice")[0]["message"]


@pytest.mark.parametrize("old_position", ["where it is", "far beyond"])
def test_the_ring_buffer_of_a_new_boot_is_read_from_its_beginning(detector: Detector, old_position: str) -> None:
    with_faults(detector, "DMA_ERROR")
    detector.kill()
    if old_position == "far beyond":
        old = re.sub(r'"seq": (\d+)', r'"seq": 9\g<1>', state(detector))
        (detector.state_dir / "state.json").write_text(old)
    detector.boot_id_file.write_text("b0000000-0000-4000-8000-000000000002\n")
    detector.start()
    assert detector.faults() == {DMA: 2}  # once before the boot; the same line is taken for one of the new boot


def test_a_replacement_ends_everything(detector: Detector, new_detector: Callable[..., Detector]) -> None:
    with_faults(detector, "DMA_ERROR", "HANG_ON_COLLECTIVES")
    detector.kill()
    detector.instance = new_detector().instance
    detector.start()
    assert detector.faults() == {}
    condition = detector.condition()
    assert (condition["status"], condition["reason"]) == ("False", "NeuronHasNoError")
    assert until(lambda: len(detector.told()) == 2 and detector.told()) == ["FaultCleared"] * 2
    until(lambda: '"faults": []' in state(detector), what="that they ended is kept")
    detector.kill()
    detector.start()
    assert detector.told() == []
    assert detector.faults() == {}


@pytest.mark.parametrize("content", ["", "{", "null", '{"v": 2}', '{"v": 1, "boot": "x"', "\0" * 500])
def test_a_state_that_is_none_is_told_and_the_ring_buffer_tells_the_fault_again(
    detector: Detector, content: str
) -> None:
    with_faults(detector, "DMA_ERROR")
    detector.kill()
    (detector.state_dir / "state.json").write_text(content)
    detector.start()
    assert detector.faults() == {DMA: 1}
    (line,) = detector.log("state of an earlier run is lost")
    assert "set aside as state.json.rejected-" in line["error"]
    assert len(list(detector.state_dir.glob("state.json.rejected-*"))) == 1
    until(lambda: DMA in state(detector))


def test_a_state_it_may_not_read_is_told_and_not_overwritten(detector: Detector) -> None:
    with_faults(detector, "DMA_ERROR")
    detector.kill()
    before = state(detector)
    (detector.state_dir / "state.json").chmod(0)
    powers = "-dac_override,-dac_read_search"
    detector.start(through=["setpriv", "--bounding-set", powers, "--inh-caps", powers])
    assert detector.faults() == {DMA: 1}
    assert "Permission denied" in detector.log("state of an earlier run is lost")[0]["error"]
    (aside,) = detector.state_dir.glob("state.json.rejected-*")
    assert aside.read_text() == before


def test_a_directory_it_may_not_write_to_costs_only_the_memory(detector: Detector) -> None:
    detector.kill()
    detector.state_dir.mkdir(exist_ok=True)
    detector.state_dir.chmod(0o555)
    detector.start(through=["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override"])
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {DMA: 1})
    until(lambda: detector.metric("state_writes_total", "failed") >= 1)
    assert detector.page("/readyz")[0] == 200
    detector.state_dir.chmod(0o755)
    until(lambda: DMA in state(detector), what="written once it may")
    until(lambda: detector.log("state is written again"))
    assert len(detector.log("state cannot be written, kept in memory")) == 1


def test_a_full_disk_costs_only_the_memory_until_there_is_room(
    new_detector: Callable[..., Detector], small_disk: Path
) -> None:
    detector = new_detector()
    detector.state_dir = small_disk
    (small_disk / "ballast").write_bytes(b"x" * (64 << 10))
    detector.start()
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {DMA: 1})
    until(lambda: detector.metric("state_writes_total", "failed") >= 1)
    assert "No space left on device" in detector.log("state cannot be written, kept in memory")[0]["error"]
    assert state(detector) == ""
    (small_disk / "ballast").unlink()
    until(lambda: DMA in state(detector), what="written once there is room")
    assert detector.metric("state_writes_total", "written") >= 1


def test_a_state_directory_that_cannot_be_made_costs_only_the_memory(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector()
    detector.state_dir.touch()
    detector.start()
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {DMA: 1})
    until(lambda: detector.metric("state_writes_total", "failed") >= 1)
    assert detector.stop() == 0


def test_what_is_printed_as_settings_starts_the_same_detector(
    new_detector: Callable[..., Detector], tmp_path: Path
) -> None:
    printed = chipwarden("run", "--print-settings", "--rules", "neuron", "--rules", "efa", "--heartbeat", "90s")
    assert printed.returncode == 0
    assert 'heartbeat: "90s"' in printed.stdout
    (tmp_path / "config.yaml").write_text(printed.stdout)
    again = chipwarden("run", "--print-settings", env={"CHIPWARDEN_CONFIG": str(tmp_path / "config.yaml")})
    assert again.stdout == printed.stdout
    detector = new_detector().start("--config", tmp_path / "config.yaml")
    assert (
        detector.condition("EfaHasError" if "EfaHasError" in printed.stdout else "NeuronHasError")["status"] == "False"
    )
