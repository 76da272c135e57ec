"""The programs that the tour starts: each is seen to be alive, and none outlives the tour.

Must not know what they are for.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.detector.process import environment, read_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.detector.process import Metrics

_PATIENCE_SECONDS: Final = 5.0  # what both programs promise to end within
_PAGE_SECONDS: Final = 5.0
_TAIL_LINES: Final = 8


class DemoError(Exception):
    """The tour cannot go on; the message says why in one sentence, and may have log lines below."""


class Part:
    """A program of the tour's.

    Args:
        name: for messages.
        command: program and arguments.
        folder: for its log.
        env: settings in the environment.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._command = list(command)
        self._path = folder / f"{name.replace(' ', '-')}.log"
        self._env = environment(**(env or {}))
        self._process: subprocess.Popen[bytes] | None = None
        self._read_bytes = 0
        self._port = 0

    def start(self) -> None:
        """Start it and return at once; in a session of its own, for a Ctrl-C at the terminal is the tour's alone."""
        setpriv = shutil.which("setpriv")  # where there is none, only a kill -9 of the tour leaves its parts behind
        tied = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        with self._path.open("wb") as log:
            self._process = subprocess.Popen(
                [*tied, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,
            )

    def ended(self) -> int | None:
        """Tell its exit code; None = it runs."""
        return None if self._process is None else self._process.poll()

    def check(self) -> None:
        """Make sure that it runs.

        Raises:
            DemoError: it has ended by itself.
        """
        code = self.ended()
        if code is not None:
            how = f"was ended by signal {-code}" if code < 0 else f"ended by itself with exit code {code}"
            raise DemoError(f"the {self.name} {how}; the end of its log:\n{self.tail()}")

    def stop(self) -> None:
        """End it as an orchestrator does, and at once if that takes too long."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """End it at once: its machine is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        """Give all that it has written."""
        return self._path.read_text(errors="replace") if self._path.exists() else ""

    def tail(self) -> str:
        """Give the last lines that it has written, for people."""
        return "\n".join(f"  {line[:400]}" for line in self.output().splitlines()[-_TAIL_LINES:]) or "  (it is empty)"

    def news(self) -> list[dict[str, Any]]:
        """Read what it has logged since the last time."""
        with self._path.open("rb") as log:
            log.seek(self._read_bytes)
            fresh = log.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        found: list[dict[str, Any]] = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # what a library prints is no event
                found.append(json.loads(line))
        return found

    def port(self) -> int:
        """Tell where its pages are; 0 = not yet known."""
        for line in [] if self._port else self.news():
            self._port = int(line.get("port", 0)) or self._port
        return self._port

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://127.0.0.1:{self._port}"

    def page(self, path: str) -> str:
        """Get a page; "" = it does not answer 200 now."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PAGE_SECONDS)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode()
            return text if answer.status == http.HTTPStatus.OK else ""
        return ""

    def conditions(self) -> dict[str, Any]:
        """Get the detector's /conditions; {} = it does not answer now."""
        found: dict[str, Any] = json.loads(self.page("/conditions") or "{}")
        return found

    def metrics(self) -> Metrics:
        """Get /metrics: values by name and label values; {} = it does not answer now."""
        return read_metrics(self.page("/metrics"))

    def resident_megabytes(self) -> float:
        """Tell its resident memory; 0 = it is not known here."""
        if self._process is None:
            return 0.0
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{self._process.pid}/status").read_text()
            return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6
        return 0.0
