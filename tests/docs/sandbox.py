"""A folder and a shell in which a page's commands are typed as a reader types them, from the root of the repository.

The folder looks like a checkout; what commands may change is a copy. On PATH are Chipwarden's two programs, the tests'
own kubectl, a stand-in for the AWS CLI (`awscli.py`), and a `sudo` that changes nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.detector.process import environment
from tests.docs.pages import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.docs.pages import Block, Command

_COPIED = ("manifests", "docs")
_HERE = Path(__file__).resolve().parent
_RUN_SECONDS = 120
_LOOK_SECONDS = 60.0
# What only looks may be asked again until it shows what the page says: the world takes its time.
_LOOKS = re.compile(r"(sudo )?(curl|kubectl (get|describe|logs|events)|chipwarden-recovery (plan|ledger))\b")
_LOOKS_INSIDE = re.compile(r"kubectl .*exec .* -- (curl|chipwarden-recovery (plan|ledger))\b")


class Sandbox:
    """A checkout, a shell and what stands for the words in capitals.

    Args:
        folder: new.

    Attributes:
        env: of each command.
        words: what stands for which word in capitals.
        tick: called again and again while a command runs; it plays the rest of the world.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "chipwarden"
        self.env: dict[str, str] = {}
        self.words: dict[str, str] = {}
        self.tick: Callable[[], None] = lambda: None
        self._bin = folder / "bin"
        self._output = folder / "output"
        self._make_checkout()
        self._make_programs()

    def _make_checkout(self) -> None:
        self.folder.mkdir()
        for path in REPOSITORY.iterdir():
            if path.name in _COPIED:
                shutil.copytree(path, self.folder / path.name)
            elif not path.name.startswith("."):
                (self.folder / path.name).symlink_to(path)
        (self.folder / ".venv").symlink_to(sys.prefix)

    def _make_programs(self) -> None:
        self._bin.mkdir()
        python = f'exec "{sys.executable}"'
        programs = {
            "chipwarden-detector": f'{python} -m detector "$@"',
            "chipwarden-recovery": f'{python} -m recovery "$@"',
            "aws": f'{python} "{_HERE / "awscli.py"}" "$@"',
            "kubectl": f'{python} "{_HERE / "pod.py"}" "$@"',
            "sudo": 'exec "$@"',
            # What a person does who follows `kubectl edit`: switches recovery on.
            "editor": """exec sed -i '/name: ENABLE_RECOVERY/{n;s/false/true/}' "$1\"""",
        }
        for name, line in programs.items():
            path = self._bin / name
            path.write_text(f"#!/bin/sh\n{line}\n")
            path.chmod(0o755)

    def save(self, block: Block) -> None:
        """Save a block to the file that it names."""
        assert block.file is not None
        path = self.folder / block.file
        assert path.resolve().is_relative_to(self.folder.parent.resolve()), block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._substituted(block.text) + "\n")

    def type(self, block: Block, *, only: Mapping[str, str] | None = None) -> list[str]:
        """Type a block's commands, one after the other; `cd` lasts until its end.

        Args:
            block: of kind console.
            only: leave out commands that begin with one of these; None = leave out none.

        Returns:
            What was left out.
        """
        left_out: list[str] = []
        where = self.folder
        for command in block.commands:
            if any(command.text.startswith(prefix) for prefix in only or ()):
                left_out.append(command.text)
                continue
            where = self._do(command, where)
        return left_out

    def _do(self, command: Command, where: Path) -> Path:
        """Run a command until it shows what it should; return the folder that it leaves the shell in."""
        looks = _LOOKS.match(command.text) or _LOOKS_INSIDE.match(command.text)
        deadline = time.monotonic() + (_LOOK_SECONDS if looks else 0)
        while True:
            code, printed, after = self._run(self._substituted(command.text), where)
            missing = _missing(tuple(map(self._substituted, command.prints)), printed)
            if code == command.exits and missing is None:
                return after
            if time.monotonic() > deadline:
                wrong = f"exit code {code}" if code != command.exits else f"does not print {missing!r}"
                raise AssertionError(f"line {command.line}: {command.text}\n{wrong}; it printed:\n{printed}")
            for _ in range(5):
                self.tick()
                time.sleep(0.05)

    def _run(self, text: str, where: Path) -> tuple[int, str, Path]:
        told = self._output.with_name("folder")
        script = f"{text}\ncode=$?\npwd > '{told}'\nexit $code\n"
        env = environment(PATH=f"{self._bin}:{os.environ['PATH']}", EDITOR="editor", HOME=str(self.folder), **self.env)
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", "bash", "-c", script],
                cwd=where,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            deadline = time.monotonic() + _RUN_SECONDS
            while process.poll() is None:
                if time.monotonic() > deadline:
                    os.killpg(process.pid, 9)
                    process.wait()
                    raise AssertionError(f"{text}: still running; it printed:\n{self._output.read_text()}")
                self.tick()
                time.sleep(0.02)
        after = Path(told.read_text().strip()) if told.exists() else where
        return process.returncode, self._output.read_text(errors="replace"), after

    def _substituted(self, text: str) -> str:
        for word, value in self.words.items():
            text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", lambda _, value=value: value, text)  # type: ignore[misc]
        return text


def _missing(wanted: tuple[str, ...], printed: str) -> str | None:
    """Return the first line that was not printed after those before it; None = all were."""
    lines = iter(" ".join(line.split()) for line in printed.splitlines())
    for line in wanted:
        if line.strip() == "...":
            continue
        parts = " ".join(line.split()).split("...")
        pattern = ".*".join(re.escape(part.strip() if len(parts) > 1 else part) for part in parts)
        if not any(re.fullmatch(pattern, each) for each in lines):
            return line
    return None
