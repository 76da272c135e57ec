"""Somebody who plays the demo: a process of its own, whose temporary files and programs can be told from all others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.detector.process import REPOSITORY, environment, until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self


class Visitor:
    """A demo that is being played.

    Args:
        folder: for its temporary files and its output.
        arguments: of the command line.
        through: a command that starts it.
        stdin: a descriptor; None = nothing to read.
        stdout: a descriptor; None = a file, as if piped.
        env: settings in the environment.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        through: Sequence[str] = (),
        stdin: int | None = None,
        stdout: int | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self._out, self._err = folder / "out", folder / "err"
        self._began = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*through, sys.executable, "-m", "demo", *arguments],
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=out if stdout is None else stdout,
                stderr=err,
                env=environment(TMPDIR=str(self._temporary), **(env or {})),
                cwd=REPOSITORY,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(10)

    @property
    def out(self) -> str:
        """What it has told so far."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it has complained about so far."""
        return self._err.read_text()

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        """Wait until it has told something."""

        def is_told() -> bool:
            assert self._process.poll() is None or text in self.out, f"ended before {text!r}:\n{self.out}\n{self.err}"
            return text in self.out

        until(is_told, seconds=seconds, what=f"{text!r} is told")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, seconds: float = 90.0) -> int:
        """Wait for its end; return the exit code."""
        return self._process.wait(seconds)

    def seconds(self) -> float:
        """Tell how long it has lasted."""
        return time.monotonic() - self._began

    def programs(self) -> dict[int, str]:
        """List what it has started, by process id: all that name its temporary folder."""
        found: dict[int, str] = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # ended meanwhile
                continue
            if str(self._temporary) in command and int(path.parent.name) != os.getpid():
                found[int(path.parent.name)] = command
        return found

    def files(self) -> list[str]:
        """List what is left of its temporary files."""
        return [str(path) for path in self._temporary.rglob("*")]

    def kill_program(self, words: str) -> None:
        """End one of its programs, whose command line has these words."""
        (number,) = [number for number, command in self.programs().items() if words in command]
        os.kill(number, signal.SIGKILL)

    def assert_nothing_left(self) -> None:
        """Make sure that no program and no file is left."""
        until(lambda: not self.programs(), seconds=10, what=f"nothing runs any more: {self.programs()}")
        assert self.files() == []

    def assert_told(self, *patterns: str) -> None:
        """Make sure that lines like these were told, in this order."""
        text, position = self.out, 0
        for pattern in patterns:
            found = re.compile(pattern, re.MULTILINE).search(text, position)
            assert found, f"not told, or not in this order: {pattern}\n{text}\n{self.err}"
            position = found.end()
