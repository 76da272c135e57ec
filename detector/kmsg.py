"""The kernel log device: open, read, count what was lost, open again.

An edge: the reader never waits for anything downstream and never ends because of what it reads. What it cannot see it
counts: the kernel numbers its records, so losses are known exactly. Must never sleep, log or reopen on an overrun: in
a flood that would lose more.

Source: torvalds/linux Documentation/ABI/testing/dev-kmsg and kernel/printk/printk.c (read 2026-11-29).
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from detector.parse import ParseError, sequence_of
from detector.source import BATCH, KmsgError

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST_FIELDS = 3  # before the text, for there to be a sequence number
_ROUNDS = 64  # of overruns without a record between them; then the loop looks at its other business
_BUFFER_BYTES = 8192  # the longest record has 2,048 bytes today, 8,192 on older kernels; a shorter buffer loses it


class KmsgReader:
    """A reader of /dev/kmsg that goes on where it was.

    Args:
        path: the device.
        after: sequence number up to which everything has been read before in this boot; None = nothing.
        read: os.read, or what a test puts in its place.
    """

    source: Final = "kmsg"
    poll_seconds: Final = None  # the device tells when there is something to read

    def __init__(self, path: str, *, after: int | None = None, read: Callable[[int, int], bytes] = os.read) -> None:
        self.records = 0
        self.lost = 0
        self.overruns = 0
        self.malformed = 0
        self.last: int | None = after
        self._path = path
        self._read = read
        self._fd: int | None = None
        self._catching_up = after is not None
        self._newest_known: int | None = None  # seen while catching up

    def open(self) -> int:
        """Open the device at its oldest record and return the descriptor to poll.

        Raises:
            KmsgError: it cannot be opened, or is not a kernel log device.
        """
        self.close()
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise KmsgError(_why_not_opened(self._path, error)) from error
        if not stat.S_ISCHR(os.fstat(fd).st_mode):
            os.close(fd)
            raise KmsgError(f"{self._path} is not a device (a recorded log is followed with --kmsg-follow)")
        self._fd = fd
        self._catching_up = self.last is not None
        self._newest_known = None
        return fd

    def close(self) -> None:
        """Close the device; the position is kept as the last sequence number."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def batch(self) -> list[bytes]:
        """Read what is there, at most 256 records; [] when there is nothing new.

        Raises:
            KmsgError: the descriptor is lost, or gives nothing but garbage; open again. What was read before is not
                lost: it comes again.
        """
        rounds = 0  # in which there were overruns alone
        while rounds < _ROUNDS:
            known = self._newest_known
            records, drained = self._take()
            is_full = len(records) == BATCH
            if self._catching_up:
                records = self._skip_known(records)
                if drained and not records and self._is_of_another_boot():
                    continue
            records = self._account(records)
            if records or drained:
                return records
            if is_full and self._newest_known == known:
                return self._give_up([], "what it gives are no kernel log records")[0]
            rounds += not is_full
        return []

    def glance(self) -> list[bytes]:
        """Read one record; [] when there is nothing new.

        In calm times that is all there is, and asking whether there is more would cost as much as reading it. Anything
        but the very next record is left to `batch`.

        Raises:
            KmsgError: as for `batch`.
        """
        last = self.last
        if last is None or self._catching_up or self._fd is None:
            return self.batch()
        try:
            record = self._read(self._fd, _BUFFER_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            self.overruns += isinstance(error, BrokenPipeError)
            return self.batch()
        fields = record.split(b",", 2)
        if len(fields) == _LEAST_FIELDS and fields[1] == b"%d" % (last + 1):
            self.last = last + 1
            self.records += 1
            return [record]
        return (self._account([record]) if record else []) or self.batch()

    def _take(self) -> tuple[list[bytes], bool]:
        """Read at most 256 records, known ones too; tell whether that was all there is."""
        records: list[bytes] = []
        if self._fd is None:
            raise KmsgError(f"{self._path} is not open")
        for _ in range(BATCH):
            try:
                record = self._read(self._fd, _BUFFER_BYTES)
            except BlockingIOError:
                return records, True
            except BrokenPipeError:
                self.overruns += 1  # overwritten before we came; the gap in the numbers tells how many
                continue
            except OSError as error:
                if error.errno == errno.EINVAL:
                    continue  # too long for the buffer, and consumed: one record lost, which the gap shows
                return self._give_up(records, error.strerror or str(error))
            if not record:
                return self._give_up(records, "end of file, so it is not a kernel log device")
            records.append(record)
        return records, False

    def _give_up(self, records: list[bytes], why: str) -> tuple[list[bytes], bool]:
        """Return what was read before the descriptor was lost; without any, say that it is lost."""
        if records:
            return records, False
        self.close()
        raise KmsgError(f"{self._path} cannot be read: {why}")

    def _account(self, records: list[bytes]) -> list[bytes]:
        if not records:
            return records
        try:
            newest = sequence_of(records[-1])
            before = sequence_of(records[0]) - 1 if self.last is None else self.last
        except ParseError:
            return self._account_one_by_one(records)
        lost = newest - before - len(records)
        if lost < 0:  # a malformed record among them, or the numbers began anew
            return self._account_one_by_one(records)
        self.last = newest
        self.lost += lost
        self.records += len(records)
        return records

    def _account_one_by_one(self, records: list[bytes]) -> list[bytes]:
        kept = []
        for record in records:
            try:
                number = sequence_of(record)
            except ParseError:
                self.malformed += 1
                continue
            if self.last is not None and number > self.last:
                self.lost += number - self.last - 1
            self.last = number
            kept.append(record)
        self.records += len(kept)
        return kept

    def _skip_known(self, records: list[bytes]) -> list[bytes]:
        """Drop records up to the last one known."""
        known = self.last or 0
        for place, record in enumerate(records):
            try:
                number = sequence_of(record)
            except ParseError:
                continue
            if number > known:
                self._catching_up = False
                return records[place:]
            self._newest_known = number
        return []

    def _is_of_another_boot(self) -> bool:
        """Tell whether the log ended before the last record known; then go back to its beginning."""
        self._catching_up = False
        if self._fd is None or self._newest_known is None or self._newest_known >= (self.last or 0):
            return False
        self.last = None
        os.lseek(self._fd, 0, os.SEEK_SET)
        return True


def _why_not_opened(path: str, error: OSError) -> str:
    if error.errno in {errno.EPERM, errno.EACCES}:
        return (
            f"{path} cannot be opened: permission denied (needs root with capability CAP_SYSLOG and, in a container, "
            "a privileged security context)"
        )
    if error.errno == errno.ENOENT:
        return f"{path} cannot be opened: there is no such file (in a container, mount the host's /dev/kmsg)"
    return f"{path} cannot be opened: {error.strerror}"
