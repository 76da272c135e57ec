"""What the demo is made of, piece by piece."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from demo.kernellog import Device, Recorded, choose, fault_line, noise
from demo.machine import Machine
from demo.parts import DemoError
from demo.screen import Screen
from demo.stage import Stage
from detector.follow import FileReader
from detector.parse import parse

if TYPE_CHECKING:
    from pathlib import Path


def test_long_texts_are_wrapped_below_themselves() -> None:
    out = io.StringIO()
    Screen(out).say("detector", "word " * 40)
    first, *rest = out.getvalue().splitlines()
    assert first.startswith("  0.00 s  detector    word word")
    assert rest
    assert all(line.startswith(" " * 22 + "word") for line in rest)
    assert max(map(len, [first, *rest])) <= 110


def test_a_pipe_gets_no_status_line() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.waiting("something")
    screen.clear()
    assert out.getvalue() == ""


class Terminal(io.StringIO):
    """A terminal that keeps what it is sent."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns, without colour."""
    for name, value in (("COLUMNS", "80"), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    return Terminal()


def test_a_narrow_terminal_shows_the_end_of_a_row_too(narrow: Terminal) -> None:
    row = f"i-0123456789abcdef0  {'NeuronHasError_DMA_ERROR':<40}  dead  replace  replaced  12 s ago"
    Screen(narrow).text(f"ID  REASON\n{row}")
    lines = narrow.getvalue().splitlines()
    assert [len(line) < 80 for line in lines] == [True] * 3
    assert " ".join(lines).split() == ["ID", "REASON", *row.split()]
    assert lines[2].startswith("      ")


def test_a_pipe_gets_rows_as_they_are() -> None:
    out = io.StringIO()
    Screen(out).text("word  " * 40)
    assert out.getvalue() == f"   {'word  ' * 40}".rstrip() + "\n"


def test_the_status_line_is_drawn_ten_times_a_second_at_most_and_a_cut_is_seen(narrow: Terminal) -> None:
    screen = Screen(narrow)
    for _ in range(50):
        screen.waiting("something " * 10)
    drawn = narrow.getvalue().split("\r\x1b[2K")[1:]
    assert len(drawn) <= 1 + screen.seconds() / 0.1
    assert [(len(status), status[-3:]) for status in drawn] == [(79, "...")] * len(drawn)
    assert drawn


def test_a_recorded_log_is_whole_records_numbered_without_a_gap(tmp_path: Path) -> None:
    log = Recorded(tmp_path)
    for line in noise():
        log.write(line.text, line.priority)
    log.inject("NeuronHasError_DMA_ERROR", {"instance-id": "i-0123456789abcdef0"}, 3)
    log.write("the last one")
    reader = FileReader(str(tmp_path / "kmsg"))
    reader.open()
    records = [parse(record) for record in iter_batches(reader)]
    reader.close()
    assert [record.sequence for record in records] == list(range(len(noise()) + 4))
    assert records[-1].text == b"the last one"
    assert b"instance-id=i-0123456789abcdef0" in records[-2].text
    assert {record.facility for record in records} >= {0, 3}


def iter_batches(reader: FileReader) -> list[bytes]:
    found: list[bytes] = []
    while records := reader.batch():
        found += records
    return found


def test_a_line_is_one_that_its_rule_gives_as_an_example() -> None:
    line = fault_line("NeuronHasError_DMA_ERROR", {"instance-id": "i-0123456789abcdef0", "nd-id": "11"})
    assert "NEURON_HW_ERR=DMA_ERROR instance-id=i-0123456789abcdef0" in line
    assert "nd-id=11" in line


@pytest.mark.real
@pytest.mark.parametrize("accelerator", ["neuron0", "nvidia3", "kfd", "accel/accel0", "hl1"])
def test_the_log_of_a_machine_with_accelerators_is_left_alone(tmp_path: Path, accelerator: str) -> None:
    device = tmp_path / "kmsg"
    device.symlink_to("/dev/kmsg")
    (tmp_path / accelerator).parent.mkdir(exist_ok=True)
    (tmp_path / accelerator).touch()
    log, why = choose(tmp_path, recorded=False, device=device.rename(tmp_path / "kmsg-device"))
    assert isinstance(log, Recorded)
    assert why == f"This machine has {tmp_path / accelerator}, so that its own kernel log is left alone."


@pytest.mark.real
def test_root_on_a_machine_without_accelerators_gets_its_own_log(tmp_path: Path) -> None:
    log, why = choose(tmp_path, recorded=False)
    assert (isinstance(log, Device), why) == (True, "")
    assert isinstance(choose(tmp_path, recorded=True)[0], Recorded)


@pytest.mark.real
def test_a_log_that_cannot_be_used_is_replaced_by_a_recorded_one_with_a_word(tmp_path: Path) -> None:
    device = tmp_path / "null"
    device.symlink_to(os.devnull)
    with pytest.raises(DemoError, match="cannot be used"):
        Device(device)
    log, why = choose(tmp_path, recorded=False, device=device)
    assert isinstance(log, Recorded)
    assert why.startswith(f"{device} cannot be used: ")


class Dead:
    """A part that has just died."""

    name = "detector"

    def check(self) -> None:
        raise DemoError("the detector was ended by signal 9")

    def tail(self) -> str:
        return ""


def test_a_detector_that_has_just_died_is_named_instead_of_giving_no_condition(tmp_path: Path) -> None:
    stage = Stage(Screen(io.StringIO()), 0)
    machine = Machine(stage, Recorded(tmp_path), tmp_path / "machine", "i-0abcdef0123456789")
    stage.watch(Dead())
    with pytest.raises(DemoError, match="was ended by signal 9"):
        machine.condition()
