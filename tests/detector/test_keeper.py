"""The thread that writes the state file: it makes nobody wait, and what could not be written is not forgotten."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from detector.keeper import Keeper
from detector.model import State
from detector.statefile import StateFile
from tests.detector.process import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def state(seq: int, note: str = "boot") -> State:
    return State(boot=note, instance=None, seq=seq)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def keeper(folder: Path) -> Iterator[Keeper]:
    made = Keeper(StateFile(str(folder)))
    yield made
    made.close()


def kept(folder: Path) -> int | None:
    """Read the number in the state file, as a restart would."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=State).seq
    except FileNotFoundError:
        return None


def test_a_state_reaches_the_disk(keeper: Keeper, folder: Path) -> None:
    keeper.keep(state(7))
    until(lambda: kept(folder) == 7)
    until(lambda: (keeper.written, keeper.failed) == (1, 0))


def test_of_many_states_the_newest_reaches_the_disk(keeper: Keeper, folder: Path) -> None:
    for number in range(1_000):
        keeper.keep(state(number))
    until(lambda: kept(folder) == 999)
    assert keeper.written <= 1_000


def test_closing_writes_what_came_last(folder: Path) -> None:
    keeper = Keeper(StateFile(str(folder)))
    for number in range(100):
        keeper.keep(state(number))
    keeper.close()
    assert kept(folder) == 99


def test_closing_without_a_state_writes_nothing(folder: Path) -> None:
    Keeper(StateFile(str(folder))).close()
    assert not folder.exists()


def test_a_state_that_cannot_be_written_is_written_once_it_can(
    keeper: Keeper, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "chipwarden")
    folder.touch()  # a file where the directory should be
    keeper.keep(state(7))
    until(lambda: keeper.failed >= 1)
    folder.unlink()
    until(lambda: kept(folder) == 7)
    until(lambda: caplog.messages == ["state cannot be written, kept in memory", "state is written again"])


def test_a_newer_state_does_not_wait_for_the_older_ones_next_attempt(keeper: Keeper, folder: Path) -> None:
    folder.touch()
    keeper.keep(state(1))
    until(lambda: keeper.failed == 1)
    folder.unlink()
    began = time.monotonic()
    keeper.keep(state(2))
    until(lambda: kept(folder) == 2)
    assert time.monotonic() - began < 0.9


def test_failing_again_and_again_is_logged_once(keeper: Keeper, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.touch()
    for number in range(1, 6):
        keeper.keep(state(number))
        until(lambda number=number: keeper.failed >= number)  # type: ignore[misc]
    assert caplog.messages == ["state cannot be written, kept in memory"]


def test_closing_while_nothing_can_be_written_ends_soon(folder: Path) -> None:
    keeper = Keeper(StateFile(str(folder)))
    folder.touch()
    keeper.keep(state(1))
    until(lambda: keeper.failed == 1)
    began = time.monotonic()
    keeper.close()
    assert time.monotonic() - began < 1
    assert keeper.failed == 2


def test_a_disk_that_hangs_makes_nobody_wait(folder: Path) -> None:
    folder.mkdir()
    pipe = folder / ".state.json.new"
    os.mkfifo(pipe)  # opening it for writing waits for a reader
    others = set(threading.enumerate())
    keeper = Keeper(StateFile(str(folder)))
    (writer,) = set(threading.enumerate()) - others
    began = time.monotonic()
    for number in range(10_000):
        keeper.keep(state(number))
    assert time.monotonic() - began < 1
    keeper.close()
    assert time.monotonic() - began < 4

    def has_ended() -> bool:
        with contextlib.suppress(FileNotFoundError):  # it was written, and is the state now
            os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # it goes on, and can end
        return not writer.is_alive()

    until(has_ended)


@pytest.mark.real
def test_a_full_disk_keeps_the_old_state_until_there_is_room(small_disk: Path) -> None:
    keeper = Keeper(StateFile(str(small_disk)))
    keeper.keep(state(1))
    until(lambda: kept(small_disk) == 1)
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        file.write(b"x" * (56 << 10))
    keeper.keep(state(2, note="x" * (16 << 10)))
    until(lambda: keeper.failed >= 1)
    assert kept(small_disk) == 1
    ballast.unlink()
    until(lambda: kept(small_disk) == 2)
    keeper.close()
