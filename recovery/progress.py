"""Progress of something that takes time, on a terminal only: never in a pipe, a file or a log."""

from __future__ import annotations

import sys
from typing import TextIO


class Progress:
    """One line that is written over, on standard error.

    Args:
        stream: where; None = standard error.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream is not None and self._stream.isatty()
        self._width = 0

    def show(self, text: str) -> None:
        """Write the line anew."""
        if self._is_shown:
            self._stream.write(f"\r{text:<{self._width}}")
            self._stream.flush()
            self._width = len(text)

    def end(self) -> None:
        """Take the line away."""
        if self._width:
            self._stream.write(f"\r{'':<{self._width}}\r")
            self._stream.flush()
            self._width = 0
