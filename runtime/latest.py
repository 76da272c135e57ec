"""A place where one thread leaves the latest value for another, which may be slow: values are replaced, never queued.

So a writer that waits for a disk or an API server can never make the reader of the kernel log wait, nor fill memory.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Latest(Generic[_Value]):
    """The newest value that nobody has taken yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._value: _Value | None = None
        self._closed = False

    def put(self, value: _Value) -> None:
        """Leave a value in place of the one before."""
        with self._changed:
            self._value = value
            self._changed.notify()

    def take(self, timeout_seconds: float | None = None) -> _Value | None:
        """Take the newest value.

        Args:
            timeout_seconds: how long to wait for one; None = until there is one or the place is closed.

        Returns:
            None if there was none in time, or the place is closed and empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._value is not None or self._closed, timeout_seconds)
            value, self._value = self._value, None
            return value

    @property
    def closed(self) -> bool:
        """Whether no more values will come."""
        return self._closed

    def close(self) -> None:
        """Say that no more values will come; what is there may still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
