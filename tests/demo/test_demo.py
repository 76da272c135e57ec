"""`make demo`, as a visitor plays it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.demo.visitor import Visitor
from tests.detector.process import REPOSITORY, environment

if TYPE_CHECKING:
    from pathlib import Path

AS_A_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
DMA, HANG = "NeuronHasError_DMA_ERROR", "NeuronHasError_HANG_ON_COLLECTIVES"
ID = "i-[0-9a-f]{17}"
STORY = (
    "^Chipwarden: one machine",
    "^   kernel log +{log}",
    r"^   played +AWS \(moto's server\)",
    "^1  An ordinary day",
    r"detector +read \d+ lines, lost 0: NeuronHasError=False \(NeuronHasNoError\)",
    "^2  A memory error that can be repaired",
    r"detector +after \d+ ms: an Event, NeuronHasError_OTHER; NeuronHasError=False",
    "^3  A hang in collectives",
    rf"detector +after \d+ ms: NeuronHasError=True, {HANG} \(suspect\)",
    "recovery +refuses: the action for this reason is none",
    "^4  The same line {flood} times more",
    "detector +seen {counted} times in all, lost 0, logged 1 time$",
    rf"detector +NeuronHasError=True \({HANG}\), \d+\.\d MB more memory",
    "^5  A chip dies",
    f"kernel log +.*NEURON_HW_ERR=DMA_ERROR instance-id={ID}",
    rf"detector +after \d+ ms: NeuronHasError=True, {DMA} \(dead: replace\)",
    "recovery +Blocked, MaxUnhealthyPercent: 2 of 4 in trn1-workers would be out, at most 1",
    f"recovery +admitted: {DMA}, dead: replace {ID}",
    f"AWS +is asked: SetInstanceHealth {ID} Unhealthy",
    rf"AWS +{ID} \(this machine\) is gone",
    f"AWS +{ID} is in service",
    f"recovery +replaced: {ID} is in service",
    f"trn1-node +{ID} +trn1-workers +{DMA} +replaced +replaced",
    "^6  The new machine",
    r"detector +{foreign} lines name another machine: NeuronHasError=False \(NeuronHasNoError\)",
    r"^What you have seen in \d+ s",
    r"^   detected +line to metric: \d+ ms \(hang\), \d+ ms \(dead chip\)",
    "^   refused +to replace a machine for a hang",
    "^   waited +MaxUnhealthyPercent: 2 of 4 in trn1-workers",
    r"^   given away +\d+\.\d s after the line",
    r"^   AWS +\d+ calls, 1 of them SetInstanceHealth",
    "^   install it +docs/install-eks.md",
)


def _story(log: str, flood: int) -> list[str]:
    foreign = f"{flood + 3:,}" if "recorded" in log else r"\d[\d,]*"  # the machine's own log may have others' lines
    numbers = {"flood": f"{flood:,}", "counted": f"{flood + 1:,}", "foreign": foreign}
    said: tuple[str, ...] = STORY
    for name, value in {"log": log, **numbers}.items():
        said = tuple(each.replace(f"{{{name}}}", value) for each in said)
    return list(said)


@pytest.mark.parametrize(
    ("arguments", "log", "flood"),
    [
        pytest.param(["--recorded"], "a recorded one that grows", 20_000, id="recorded"),
        pytest.param([], "real too: this machine's /dev/kmsg", 200, id="device", marks=pytest.mark.real),
    ],
)
def test_a_visitor_sees_the_whole_loop_in_a_minute(tmp_path: Path, arguments: list[str], log: str, flood: int) -> None:
    with Visitor(tmp_path, *arguments) as visitor:
        assert visitor.end() == 0, visitor.err
        assert visitor.seconds() < 60
        visitor.assert_told(*_story(log, flood))
        assert not {"\x1b", "\r"} & set(visitor.out), "colour or a moving line in a pipe"
        assert visitor.err == ""
        pages = re.findall(r"docs/[\w.-]+\.md", visitor.out)
        assert len(pages) == 3
        assert all((REPOSITORY / page).is_file() for page in pages), pages
        visitor.assert_nothing_left()


@pytest.mark.real
def test_without_root_the_log_is_a_recorded_one_and_a_sigterm_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with Visitor(tmp_path, through=AS_A_USER) as visitor:
        visitor.wait_for("5  A chip dies")
        assert len(visitor.programs()) == 2, visitor.programs()
        visitor.send(signal.SIGTERM)
        assert visitor.end(20) == 128 + signal.SIGTERM
        assert visitor.err == "demo: stopped; everything that was started has ended\n"
        visitor.assert_told("kernel log +a recorded one that grows")
        visitor.assert_nothing_left()


@pytest.mark.parametrize("words", ["", "^1  An ordinary"], ids=["at-once", "when-all-has-started"])
def test_ctrl_c_leaves_no_program_and_no_file(tmp_path: Path, words: str) -> None:
    with Visitor(tmp_path, "--recorded") as visitor:
        visitor.wait_for(words.removeprefix("^") or "Chipwarden")
        visitor.send(signal.SIGINT)
        assert visitor.end(20) == 128 + signal.SIGINT
        assert visitor.err == "demo: stopped; everything that was started has ended\n"
        visitor.assert_nothing_left()


@pytest.mark.parametrize("part", ["detector", "recovery"])
def test_a_part_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path, part: str) -> None:
    with Visitor(tmp_path, "--recorded") as visitor:
        visitor.wait_for("1  An ordinary")
        visitor.kill_program(f"-m {part} run")
        assert visitor.end(20) == 1
        assert visitor.err.startswith(f"demo: the {part} was ended by signal 9; the end of its log:\n")
        assert f'"{part} started"' in visitor.err
        assert "Traceback" not in visitor.err
        visitor.assert_nothing_left()


def test_no_program_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    with Visitor(tmp_path, "--recorded") as visitor:
        visitor.wait_for("1  An ordinary")
        assert len(visitor.programs()) == 2
        visitor.send(signal.SIGKILL)
        assert visitor.end(20) == -signal.SIGKILL
        from tests.detector.process import until

        until(lambda: not visitor.programs(), seconds=10, what="nothing runs any more")


@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_gets_a_moving_line_and_colour_unless_it_is_not_wanted(tmp_path: Path, colour: bool) -> None:
    ours, theirs = pty.openpty()
    with Visitor(
        tmp_path, "--recorded", "--pace", "0", stdout=theirs, env={} if colour else {"NO_COLOR": "1"}
    ) as visitor:
        os.close(theirs)
        shown = b""
        while b"3  A hang" not in shown:
            shown += os.read(ours, 4096)
        visitor.send(signal.SIGINT)
        assert visitor.end(20) == 128 + signal.SIGINT
    os.close(ours)
    assert b"\r\x1b[2K" in shown
    assert (b"\x1b[36mdetector" in shown) is colour
    visitor.assert_nothing_left()


def test_a_reader_who_leaves_ends_it(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    with Visitor(tmp_path, "--recorded", stdout=theirs) as visitor:
        os.close(theirs)
        os.read(ours, 1)
        os.close(ours)
        assert visitor.end(30) == 1
        assert visitor.err == ""
        visitor.assert_nothing_left()


def test_a_package_that_is_missing_is_said_in_one_sentence() -> None:
    program = "import sys; sys.modules['moto'] = None; from demo.__main__ import main; sys.exit(main(['--recorded']))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=REPOSITORY,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "demo: the Python package moto is missing: run `make demo`, which installs it\n"
