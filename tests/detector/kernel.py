"""Stand-ins for the kernel: what read() answers, and what the clocks say."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta

from detector.kmsg import KmsgReader


def record(sequence: int, text: str = "x", *, stamp_us: int = 0, priority: int = 6) -> bytes:
    """Write a record as read() returns it."""
    return f"{priority},{sequence},{stamp_us},-;{text}\n".encode()


class Answers:
    """What read() answers, in order: records and errno numbers; then there is nothing more to read.

    Args:
        answers: the first ones; more may be added to `left`.
    """

    def __init__(self, *answers: bytes | int) -> None:
        self.left = list(answers)

    def __call__(self, fd: int, size: int) -> bytes:
        assert size > 2048
        os.fstat(fd)
        answer = self.left.pop(0) if self.left else errno.EAGAIN
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer


class CountingReader(KmsgReader):
    """A reader that counts how often it is opened."""

    opens = 0

    def open(self) -> int:
        self.opens += 1
        return super().open()


class Clock:
    """Clocks that stand still unless a test moves them."""

    def __init__(self) -> None:
        self.seconds = 5_000.0

    def now(self) -> datetime:
        return datetime(2026, 11, 29, 10, 0, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds
