"""`clear`: an operator ends a fault of a detector that runs stand-alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import chipwarden, until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.detector.process import Detector

DMA, HANG = "NeuronHasError_DMA_ERROR", "NeuronHasError_HANG_ON_COLLECTIVES"


def clear(reason: str, state_dir: Path) -> subprocess.CompletedProcess[str]:
    return chipwarden("clear", reason, "--state-dir", state_dir)


def with_faults(detector: Detector) -> Detector:
    """Give it two faults, and wait until the state file knows them."""
    detector.write("DMA_ERROR")
    detector.write("HANG_ON_COLLECTIVES")
    file = detector.state_dir / "state.json"
    until(lambda: file.exists() and all(f'"reason": "{reason}"' in file.read_text() for reason in (DMA, HANG)))
    return detector


def test_one_fault_is_cleared_and_the_other_stays(detector: Detector) -> None:
    with_faults(detector)
    done = clear(DMA, detector.state_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"asked the detector to clear {DMA}; it does so within 30 s\n"
    until(lambda: detector.faults() == {HANG: 1}, seconds=30)
    assert detector.condition()["status"] == "True"
    assert detector.metric("problem_gauge", "NeuronHasError", DMA) == 0
    assert detector.told()[-1] == "FaultCleared"
    assert "an operator cleared it" in detector.log("notice")[-1]["message"]
    again = clear(DMA, detector.state_dir)
    assert again.returncode == 1
    assert again.stderr.endswith(f"there is no such fault in {detector.state_dir}/state.json (active: {HANG})\n")
    detector.kill()
    detector.start()
    assert detector.faults() == {HANG: 1}


@pytest.mark.parametrize("reason", [DMA, "all", "nonsense", ""])
def test_without_a_fault_there_is_nothing_to_clear(tmp_path: Path, reason: str) -> None:
    done = clear(reason, tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("(there is no state file: is --state-dir the detector's?)\n")
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_reason_is_told_what_is_active(detector: Detector) -> None:
    with_faults(detector)
    done = clear("NeuronHasError_DMA", detector.state_dir)
    assert done.returncode == 1
    assert f"(active: {DMA}, {HANG})" in done.stderr
    assert list(detector.state_dir.glob("clear-request*")) == []


@pytest.mark.parametrize("content", ["", "{", '{"v": 2}'])
def test_a_state_it_does_not_understand_is_told_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    done = clear("all", tmp_path)
    assert done.returncode == 1
    assert "state.json is not a state file" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.json")
    done = clear("all", tmp_path)
    assert done.returncode == 1
    assert "not a regular file" in done.stderr
