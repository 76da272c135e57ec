"""The file that lets faults survive a restart: read once, written atomically, never trusted blindly.

An edge. What cannot be read is set aside, not deleted: somebody may want to know. Must never leave half a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from detector.model import ClearRequest, State

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = "state.json"
_CLEAR_REQUEST: Final = "clear-request"
_LARGEST_BYTES = 8 << 20
_MOST_REQUESTS = 64  # of one look


class StateFileError(Exception):
    """The state cannot be read or written now. It does not mean that there are no faults: memory still has them."""


class InUseError(Exception):
    """Another process works with the state directory: two would take each other's faults away."""


class StateFile:
    """The detector's files in its state directory.

    Args:
        directory: made by whatever is written first if it is missing; reading and requests need it to be there.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self.path: Final = self._directory / _NAME
        self._claim: int | None = None  # a descriptor: the lock lives as long

    def claim(self) -> None:
        """Keep the directory for this process, until it ends however it ends.

        Where it cannot be made or the disk knows no locks, nothing is kept: that must not stop a detector.

        Raises:
            InUseError: another process has it.
        """
        try:
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._claim = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(f"{self._directory} is in use by another detector") from None
        except OSError:
            return

    def load(self) -> State | None:
        """Read what the last run left; None = nothing.

        Raises:
            StateFileError: there is something that is not a state of ours; it has been set aside, if possible.
        """
        try:
            return self.read()
        except StateFileError as error:
            raise StateFileError(f"{error}; {self._set_aside()}") from error

    def read(self) -> State | None:
        """Read the state as it is now and leave the file alone, whatever it is; None = nothing.

        Raises:
            StateFileError: there is something that is not a state of ours.
        """
        try:
            state = msgspec.json.decode(_read_regular(self.path, _LARGEST_BYTES), type=State)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateFileError(f"{self.path} cannot be read: {self._reason(error)}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StateFileError(f"{self.path} is not a state file ({error})") from error
        if any(at.tzinfo is None for at in _times(state)):
            raise StateFileError(f"{self.path} is not a state file (a time in it has no zone)")
        return state

    def save(self, state: State) -> None:
        """Write the state so that a crash at any moment leaves either the old file or the new one.

        Raises:
            StateFileError: the directory cannot be written to, or the disk is full; the old file is untouched.
        """
        text = msgspec.json.format(msgspec.json.encode(state), indent=1)
        fresh = self._directory / f".{_NAME}.new"
        try:
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            with os.fdopen(fd, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(fd)
            fresh.replace(self.path)
            _sync_directory(self._directory)
        except OSError as error:
            raise StateFileError(f"{self.path} cannot be written: {self._reason(error)}") from error

    def take_clear_requests(self) -> list[ClearRequest]:
        """Take the requests that `chipwarden-detector clear` left, at most 64; what is none is left where it is."""
        taken = []
        for path in sorted(self._directory.glob(f"{_CLEAR_REQUEST}*"))[:_MOST_REQUESTS]:
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                request = msgspec.json.decode(_read_regular(path, _LARGEST_BYTES), type=ClearRequest)
                path.unlink()  # one that cannot be removed would be met again and again
                taken.append(request)
        return taken

    def leave_clear_request(self, request: ClearRequest) -> None:
        """Leave a request for the running detector, which takes it within 30 seconds.

        Raises:
            StateFileError: the directory is not there, or cannot be written to.
        """
        name = f"{_CLEAR_REQUEST}-{secrets.token_hex(8)}"  # its own file, so that no request takes another's place
        fresh = self._directory / f".{name}.new"
        try:
            fresh.write_bytes(msgspec.json.encode(request))
            fresh.replace(self._directory / name)
        except OSError as error:
            raise StateFileError(f"{self._directory} cannot be written to: {self._reason(error)}") from error

    def _reason(self, error: OSError) -> str:
        if isinstance(error, NotADirectoryError | FileExistsError) and self._directory.is_file():
            return f"stateDir names {self._directory}, which is a file (allowed: a directory)"
        return str(error.strerror)

    def _set_aside(self) -> str:
        place = self.path.with_name(f"{_NAME}.rejected-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        try:
            self.path.replace(place)
        except OSError as error:
            return f"it could not be set aside: {error.strerror}"
        return f"set aside as {place.name}"


def _times(state: State) -> Iterator[datetime]:
    for fault in state.faults:
        yield from (fault.first_at, fault.last_at)
    for condition in state.conditions:
        yield from (condition.last_transition_at, condition.last_heartbeat_at)


def _read_regular(path: Path, largest: int) -> bytes:
    """Read a regular file; anything else (a pipe would block for ever) and what is too large is an error."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "not a regular file")
        with open(fd, "rb", closefd=False) as file:
            text = file.read(largest + 1)
    finally:
        os.close(fd)
    if len(text) > largest:
        raise OSError(0, f"larger than {largest} bytes")
    return text


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
