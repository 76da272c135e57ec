"""The ledger's file, whatever happens to it, its directory or its writer."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recovery.ledger_file import FileLedger
from recovery.ports import PortError
from tests.detector.process import until
from tests.kubernetes.recovering import RunningClock, ledger

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize("where", ["ledger.json", "paused"])
def test_a_folder_in_place_of_a_file_is_no_ledger_and_is_a_pause(tmp_path: Path, where: str) -> None:
    (tmp_path / where).mkdir()
    writer = FileLedger(str(tmp_path), RunningClock())
    if where == "paused":
        assert "cannot be read" in (writer.paused() or "")
        with pytest.raises(PortError):
            writer.resume()
        with pytest.raises(PortError):
            writer.pause("why")
    else:
        with pytest.raises(PortError):
            writer.load()
    assert sorted(each.name for each in tmp_path.iterdir()) == [where]


@pytest.mark.parametrize("content", [b"", b"x" * (9 << 20)])
def test_an_empty_or_endless_file_is_no_ledger(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ledger.json").write_bytes(content)
    with pytest.raises(PortError, match="unreadable"):
        FileLedger(str(tmp_path), RunningClock()).load()


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = FileLedger(str(tmp_path / "file" / "state"), RunningClock())
    with pytest.raises(PortError):
        writer.load()
    writer._seen = b""
    with pytest.raises(PortError, match="written to"):
        writer.save(ledger())


def test_a_full_disk_leaves_the_old_ledger(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from recovery.ledger_file import FileLedger; from recovery.ports import PortError;"
        "from tests.kubernetes.recovering import RunningClock, entry, ledger;"
        "writer = FileLedger(sys.argv[1], RunningClock()); writer.load(); writer.save(ledger());"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: writer.save(ledger(entry()))\n"
        "except PortError as error: print(error)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True, timeout=30
    )
    assert "cannot be written" in done.stdout
    assert FileLedger(str(tmp_path), RunningClock()).load() == ledger()
    assert sorted(each.name for each in tmp_path.iterdir()) == [".ledger.lock", "ledger.json"]


def test_a_writer_that_is_killed_leaves_a_whole_ledger_and_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys; from recovery.ledger_file import FileLedger;"
        "from tests.kubernetes.recovering import RunningClock, entry, ledger;"
        "writer = FileLedger(sys.argv[1], RunningClock()); writer.load();"
        "entries = [entry() for _ in range(300)]\n"
        "while True: writer.save(ledger(*entries))"
    )
    root, path = Path(__file__).resolve().parents[2], tmp_path / "ledger.json"
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root) as writer:
            first = until(lambda: path.exists() and path.stat().st_mtime_ns)
            until(lambda first=first: path.stat().st_mtime_ns != first)  # type: ignore[misc] # bound at once
            writer.kill()
        survivor = FileLedger(str(tmp_path), RunningClock())
        body = survivor.load()
        assert body is not None
        assert len(body.entries) == 300
        survivor.save(ledger(*body.entries))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A state directory in which another process holds the lock."""
    lock = tmp_path / ".ledger.lock"
    lock.touch()
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield tmp_path


def test_a_lock_that_is_never_freed_is_not_waited_for(locked: Path) -> None:
    writer = FileLedger(str(locked), RunningClock())
    writer.load()
    with pytest.raises(PortError, match="locked"):
        writer.save(ledger())
    assert not (locked / "ledger.json").exists()
