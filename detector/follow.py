"""A recorded kernel log that grows, read as if it were the device: for demonstrations and tests without root.

An edge. A file has no poll(): it is looked at twenty times a second. Must never take half a line for a record.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from detector.parse import ParseError, parse
from detector.source import BATCH, KmsgError

_CHUNK_BYTES = 1 << 16
_ROUNDS = 64  # of passing over records that are known or malformed; then the loop looks at its other business
_LONGEST_LINE_BYTES = 1 << 16  # no record is that long; a file without line ends must not fill the memory


class FileReader:
    """A reader of raw records in a regular file, from its first line on.

    Args:
        path: the file.
        after: sequence number up to which everything has been read before in this boot; None = nothing.
    """

    source: Final = "file"
    poll_seconds: Final = 0.05

    def __init__(self, path: str, *, after: int | None = None) -> None:
        self.records = 0
        self.lost = 0
        self.overruns = 0
        self.malformed = 0
        self.last: int | None = after
        self._path = path
        self._skip_to = after
        self._fd: int | None = None
        self._inode = 0
        self._newest: int | None = None
        self._rest = b""
        self._waiting: list[bytes] = []

    def open(self) -> None:
        """Open the file at its beginning.

        Raises:
            KmsgError: it cannot be opened, or is no regular file: a pipe or a device would block the loop.
        """
        self.close()
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise KmsgError(f"{self._path} cannot be opened: {error.strerror}") from error
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise KmsgError(f"{self._path} is not a regular file, which --kmsg-follow asks for")
        self._fd = fd
        self._inode = found.st_ino
        self._rest = b""
        self._waiting = []
        self._skip_to = self.last if self.last is not None else self._skip_to
        self._newest = None

    def close(self) -> None:
        """Close the file; the position is kept as the last sequence number."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def batch(self) -> list[bytes]:
        """Read the records that are complete by now, at most 256; [] when there is nothing new.

        Raises:
            KmsgError: the file is gone or cannot be read; open it again.
        """
        for _ in range(_ROUNDS):
            records = self._next()
            fresh = [record for record in records if self._is_new(record)]
            if fresh or not records:
                return fresh
        return []

    def glance(self) -> list[bytes]:
        """Do the same as `batch`: reading one record alone would save nothing.

        Raises:
            KmsgError: the file is gone or cannot be read; open it again.
        """
        return self.batch()

    def _next(self) -> list[bytes]:
        """Take the next records, known and malformed ones too; [] at the end of the file."""
        try:
            chunk = self._chunk()
            if not chunk and not self._waiting and self._is_another_recording():
                self.last = self._skip_to = None
                self.open()
                chunk = self._chunk()
        except OSError as error:
            self.close()
            raise KmsgError(f"{self._path} cannot be read: {error.strerror}") from error
        self._split(chunk)
        records, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        return records

    def _chunk(self) -> bytes:
        if self._fd is None:
            raise KmsgError(f"{self._path} is not open")
        return os.read(self._fd, _CHUNK_BYTES) if len(self._waiting) < BATCH else b""

    def _is_another_recording(self) -> bool:
        """Tell, at the end of the file, whether it was truncated or replaced, or holds only older numbers."""
        fd = self._fd or 0
        replaced = Path(self._path).stat().st_ino != self._inode
        truncated = os.lseek(fd, 0, os.SEEK_CUR) > os.fstat(fd).st_size
        older = self._skip_to is not None and self._newest is not None and self._newest < self._skip_to
        return replaced or truncated or older

    def _split(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _LONGEST_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if not line.startswith(b" "):
                self._waiting.append(line + b"\n")
            elif self._waiting:  # a dictionary line of the record before
                self._waiting[-1] += line + b"\n"

    def _is_new(self, record: bytes) -> bool:
        try:
            number = parse(record).sequence
        except ParseError:
            self.malformed += 1
            return False
        self._newest = number
        if self._skip_to is not None and number <= self._skip_to:
            return False
        if self._skip_to is not None:
            self.last, self._skip_to = self._skip_to, None
        if self.last is not None and number > self.last:
            self.lost += number - self.last - 1
        self.last = number
        self.records += 1
        return True
