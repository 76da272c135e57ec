"""What a visitor sees: who says what, and when. Colour and a moving status line on a terminal only, else plain lines.

Must never decide what is said.
"""

from __future__ import annotations

import os
import shutil
import textwrap
import time
from typing import Final, TextIO

_RESET: Final = "\x1b[0m"
_COLOURS: Final = {
    "title": "\x1b[1m",
    "dim": "\x1b[2m",
    "kernel log": "\x1b[33m",
    "detector": "\x1b[36m",
    "recovery": "\x1b[35m",
    "AWS": "\x1b[34m",
    "Kubernetes": "\x1b[34m",
    "you": "\x1b[1m",
    "bad": "\x1b[31m",
    "good": "\x1b[32m",
    "refused": "\x1b[1;33m",
}
_ACTOR_WIDTH: Final = 10
_INDENT: Final = 22  # time, actor and the blanks around them
_WIDEST: Final = 110
_NARROWEST: Final = 60
_PLAIN_WIDTH: Final = 110
_SPINNER: Final = "|/-\\"
_TURN_SECONDS: Final = 0.12
_REDRAW_SECONDS: Final = 0.1


class Screen:
    """Where the tour is told.

    Args:
        out: standard output; colour only if it is a terminal, and NO_COLOR is not set.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.is_live: Final = out.isatty() and os.environ.get("TERM") != "dumb"
        self._has_colour = self.is_live and not os.environ.get("NO_COLOR")
        self._began = time.monotonic()
        self._drawn = float("-inf")
        self._has_status = False

    def began(self) -> None:
        """Count the seconds from now on."""
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Tell how long the tour has lasted."""
        return time.monotonic() - self._began

    def title(self, text: str) -> None:
        """Write a headline."""
        self._line(self._tint("title", text))

    def scene(self, number: int, text: str, why: str = "") -> None:
        """Begin a scene: its number, what happens, and why it is worth a look."""
        self._line("")
        self._line(self._tint("title", f"{number}  {text}"))
        if why:
            self.note(why)

    def note(self, text: str, indent: int = 3) -> None:
        """Write a remark of the tour's own."""
        for line in self._wrapped(text, indent):
            self._line(self._tint("dim", f"{'':{indent}}{line}"))

    def pair(self, name: str, text: str, width: int = 14) -> None:
        """Write a name, and what there is to say of it."""
        first, *rest = self._wrapped(text, width + 3) or [""]
        self._line(f"   {name:<{width}}{first}")
        for line in rest:
            self._line(f"{'':{width + 3}}{line}")

    def say(self, actor: str, text: str, *, tone: str = "", at: float | None = None, is_cut: bool = False) -> None:
        """Have one of the parts say something.

        Args:
            actor: who.
            text: what.
            tone: bad, good, refused or dim; "" = none.
            at: when it was, monotonic seconds; None = now.
            is_cut: it fits on one line, wherever it could be wrapped.
        """
        seconds = (time.monotonic() if at is None else at) - self._began
        first, *rest = [text] if is_cut else self._wrapped(text, _INDENT) or [""]
        name = self._tint(actor, f"{actor:<{_ACTOR_WIDTH}}")
        self._line(f"{self._tint('dim', f'{seconds:6.2f} s')}  {name}  {self._tint(tone, first)}")
        for line in rest:
            self._line(f"{'':{_INDENT}}{self._tint(tone, line)}")

    def quote(self, actor: str, text: str) -> None:
        """Have somebody say the beginning of a long text, on one line."""
        self.say(actor, _cut(text, self._room(_INDENT)), tone="dim", is_cut=True)

    def text(self, text: str) -> None:
        """Show what a command has printed, as it is; on a narrow terminal, the end of a line stands below it."""
        for line in text.splitlines():
            shown = f"   {line}"
            width = max(self._columns() - 1, _NARROWEST) if self.is_live else len(shown)
            if len(shown) <= width:
                self._line(shown)
                continue
            for part in textwrap.wrap(shown, width, subsequent_indent=f"{'':6}", break_on_hyphens=False):
                self._line(part)

    def command(self, text: str) -> None:
        """Show a command, whole, so that it can be copied."""
        self._line(f"   {text}")

    def waiting(self, what: str) -> None:
        """Show, on a terminal, what is waited for."""
        now = time.monotonic()
        if not self.is_live or not what or now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        turn = _SPINNER[int(now / _TURN_SECONDS) % len(_SPINNER)]
        status = _cut(f"{self.seconds():6.2f} s {turn} {what}", self._columns() - 1)
        self._out.write(f"\r\x1b[2K{self._tint('dim', status)}")
        self._out.flush()
        self._has_status = True

    def clear(self) -> None:
        """Take the status line away."""
        if self._has_status:
            self._out.write("\r\x1b[2K")
            self._out.flush()
            self._has_status = False

    def leave(self) -> None:
        """Make room for a last word: a terminal has just shown ^C."""
        if self.is_live:
            self._out.write("\r\x1b[2K")
            self._out.flush()

    def _line(self, text: str) -> None:
        self.clear()
        self._out.write(f"{text.rstrip()}\n")
        self._out.flush()

    def _tint(self, colour: str, text: str) -> str:
        if not self._has_colour or colour not in _COLOURS:
            return text
        return f"{_COLOURS[colour]}{text}{_RESET}"

    def _columns(self) -> int:
        return shutil.get_terminal_size().columns if self.is_live else _PLAIN_WIDTH

    def _room(self, indent: int) -> int:
        return min(max(self._columns(), _NARROWEST), _WIDEST) - indent

    def _wrapped(self, text: str, indent: int) -> list[str]:
        return textwrap.wrap(text, self._room(indent), break_long_words=False, break_on_hyphens=False)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 3, 0)]}..."
