"""What the loop knows of a kernel log, be it the device or a file."""

from __future__ import annotations

from typing import Final, Protocol

BATCH: Final = 256  # records joined for one look; more leave the processor's cache


class KmsgError(Exception):
    """The kernel log cannot be opened or read now. It does not mean that the node is faulty, nor that it is not.

    Args:
        message: one sentence: which path, what is wrong, what is missing.
    """


class Source(Protocol):
    """A kernel log that goes on where it was.

    `records`, `lost`, `overruns` and `malformed` only grow; `last` is the sequence number of the last record read.
    """

    records: int
    lost: int
    overruns: int
    malformed: int
    last: int | None

    @property
    def source(self) -> str:
        """What it is: `kmsg` or `file`."""

    @property
    def poll_seconds(self) -> float | None:
        """How often to look for more; None = the descriptor tells."""

    def open(self) -> int | None:
        """Open it at its beginning and return a descriptor to poll, if it has one.

        Raises:
            KmsgError: it cannot be opened.
        """

    def close(self) -> None:
        """Close it, keeping the position."""

    def batch(self) -> list[bytes]:
        """Read the records that are there, at most 256; [] when there is nothing new.

        Raises:
            KmsgError: it is lost; open it again.
        """

    def glance(self) -> list[bytes]:
        """Read what a wake-up in calm times brings: one record. There may be more, which `batch` reads.

        Raises:
            KmsgError: it is lost; open it again.
        """
