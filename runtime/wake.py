"""A descriptor that wakes a poll() from another thread or a signal handler."""

from __future__ import annotations

import os


class Wake:
    """An eventfd, so that waiting costs nothing and a wake-up is never missed."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """Give the descriptor to poll for POLLIN."""
        return self._fd

    def set(self) -> None:
        """Wake the poll; safe in a signal handler."""
        os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Take back all wake-ups so far."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return
