"""The commands' insides: changes of a ledger that somebody else writes too, the loop, progress on a terminal."""

from __future__ import annotations

import io
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from recovery.board import Board
from recovery.controls import NotDoneError, reset_breaker, resume_group
from recovery.decision import Snapshot
from recovery.ledger_file import FileLedger
from recovery.loop import Loop
from recovery.model import LedgerBody
from recovery.ports import PortError
from recovery.progress import Progress
from runtime.clock import SystemClock
from tests.detector.process import until
from tests.recovery.program import recovery

if TYPE_CHECKING:
    from pathlib import Path

DMA = "NeuronHasError_DMA_ERROR"
AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


class Contested(FileLedger):
    """A ledger that somebody else writes between our reading and our writing.

    Args:
        folder: where it is.
        times: how often.
    """

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(str(folder), SystemClock())
        self._other = FileLedger(str(folder), SystemClock())
        self._times = times

    def load(self) -> LedgerBody | None:
        body = super().load()
        if self._times:
            self._times -= 1
            theirs = self._other.load() or LedgerBody()
            self._other.save(LedgerBody(tripped=theirs.tripped, blocked_groups={"g": f"{self._times}"}))
        return body


def made(folder: Path, body: LedgerBody, *, times: int = 0) -> Contested:
    first = FileLedger(str(folder), SystemClock())
    assert first.load() is None
    first.save(body)
    return Contested(folder, times)


def test_a_change_is_made_to_the_latest_ledger(tmp_path: Path) -> None:
    ledger = made(tmp_path, LedgerBody(tripped={DMA: AT, "Other": AT}), times=3)
    assert reset_breaker(ledger, DMA) == [DMA]
    body = ledger.load()
    assert body is not None
    assert (list(body.tripped), list(body.reset), body.blocked_groups) == (["Other"], [DMA], {"g": "0"})


def test_a_ledger_that_is_written_without_end_is_given_up(tmp_path: Path) -> None:
    ledger = made(tmp_path, LedgerBody(tripped={DMA: AT}), times=1_000)
    with pytest.raises(PortError):
        reset_breaker(ledger, DMA)


def test_all_breakers_are_reset_at_once(tmp_path: Path) -> None:
    ledger = made(tmp_path, LedgerBody(tripped={DMA: AT, "Other": AT}))
    assert reset_breaker(ledger, "all") == sorted([DMA, "Other"])
    with pytest.raises(NotDoneError, match="nothing is tripped"):
        reset_breaker(ledger, "all")


def test_a_group_that_is_not_blocked_is_named_with_those_that_are(tmp_path: Path) -> None:
    ledger = made(tmp_path, LedgerBody(blocked_groups={"b": "x", "a": "y"}))
    with pytest.raises(NotDoneError, match=r"c: no such group is blocked \(blocked: a, b\)"):
        resume_group(ledger, "c")
    resume_group(ledger, "b")
    body = ledger.load()
    assert body is not None
    assert body.blocked_groups == {"a": "y"}


@pytest.mark.parametrize("arguments", [["resume", "--group", "g"], ["reset-breaker", "all"], ["cleanup"]])
def test_what_cannot_be_done_is_exit_code_1_and_one_sentence(tmp_path: Path, arguments: list[str]) -> None:
    done = recovery(*arguments, "--kubernetes", "off", "--state-dir", tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_a_ledger_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("{}")
    done = recovery("ledger", "--kubernetes", "off", "--state-dir", tmp_path)
    assert (done.returncode, "unreadable" in done.stderr) == (1, True)


def test_a_place_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").touch()
    for command in (["pause"], ["resume"], ["ledger"], ["plan"], ["reset-breaker", "all"], ["cleanup"]):
        done = recovery(*command, "--state-dir", tmp_path, env={"HOME": str(tmp_path)})
        assert (done.returncode, "is the cluster of ~/.kube/config meant" in done.stderr) == (2, True)
    assert not (tmp_path / "paused").exists()
    done = recovery("pause", "--kubernetes", "off", "--state-dir", tmp_path, env={"HOME": str(tmp_path)})
    assert (done.returncode, f"this machine, {tmp_path}" in done.stdout) == (0, True)
    assert (tmp_path / "paused").exists()


def test_a_ledger_says_whose_it_is(tmp_path: Path) -> None:
    done = recovery("ledger", "--kubernetes", "off", "--state-dir", tmp_path)
    assert done.stdout.splitlines() == [
        f"this machine, {tmp_path}",
        "there is no ledger yet: nothing was ever done or planned here",
    ]


@pytest.mark.parametrize("command", ["run", "plan", "ledger", "pause", "resume", "reset-breaker", "cleanup"])
def test_each_command_helps(command: str) -> None:
    done = recovery(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "KUBECONFIG" in done.stdout
    assert "CHIPWARDEN_CONFIG" in done.stdout


def test_settings_are_printed_and_nothing_is_done(tmp_path: Path) -> None:
    done = recovery("pause", "--print-settings", "--kubernetes", "off", "--state-dir", tmp_path)
    assert (done.returncode, f'stateDir: "{tmp_path}"' in done.stdout) == (0, True)
    assert not (tmp_path / "paused").exists()


def test_no_command_is_exit_code_2() -> None:
    assert recovery().returncode == 2
    assert recovery("restart").returncode == 2


class Steps:
    """A controller whose passes do as they are told.

    Args:
        waits: what each pass answers or raises; the last one for ever.
    """

    def __init__(self, *waits: float | Exception) -> None:
        self.snapshot = Snapshot(leader=True)
        self.done = 0
        self.hold = threading.Event()
        self.hold.set()
        self._waits = waits

    def step(self) -> float:
        wait = self._waits[min(self.done, len(self._waits) - 1)]
        self.done += 1
        self.hold.wait(10)
        if isinstance(wait, Exception):
            raise wait
        return wait


def test_passes_follow_each_other_and_each_is_shown() -> None:
    steps, board = Steps(0.0), Board(SystemClock())
    loop = Loop(steps, board)
    loop.start()
    until(lambda: steps.done > 20)
    assert loop.stop(2)
    assert board.snapshot is steps.snapshot
    assert board.why_not_ready() is None
    done = steps.done
    assert not board.is_stuck()
    assert steps.done == done


def test_a_pass_that_fails_is_followed_by_the_next() -> None:
    steps, board = Steps(RuntimeError("bug"), 0.01), Board(SystemClock())
    loop = Loop(steps, board, after_failure_seconds=0.01)
    loop.start()
    until(lambda: steps.done > 3)
    assert loop.stop(2)


def test_the_wait_between_passes_ends_when_it_is_told_to() -> None:
    steps = Steps(60.0)
    loop = Loop(steps, Board(SystemClock()))
    loop.start()
    until(lambda: steps.done == 1)
    began = time.monotonic()
    assert loop.stop(5)
    assert time.monotonic() - began < 1


def test_a_pass_that_hangs_is_not_waited_for() -> None:
    steps = Steps(0.0)
    steps.hold.clear()
    loop = Loop(steps, Board(SystemClock()))
    loop.start()
    until(lambda: steps.done == 1)
    assert not loop.stop(0.1)
    steps.hold.set()
    assert loop.stop(5)


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_writes_over_itself_and_takes_itself_away() -> None:
    terminal = Terminal()
    progress = Progress(terminal)
    progress.show("12 of 500 detectors")
    progress.show("done")
    progress.end()
    progress.end()
    assert terminal.getvalue() == f"\r12 of 500 detectors\r{'done':<19}\r    \r"


def test_progress_is_silent_where_nobody_looks() -> None:
    pipe = io.StringIO()
    progress = Progress(pipe)
    progress.show("12 of 500 detectors")
    progress.end()
    assert pipe.getvalue() == ""
