"""Recovery as a user starts it: a process of its own, and its commands."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.detector.process import Metrics, environment, read_metrics, until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


def recovery(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of the program's commands to its end.

    Args:
        arguments: of the command line.
        env: settings in the environment.
    """
    done = subprocess.run(
        [sys.executable, "-m", "recovery", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(**{"HOME": "/nonexistent"} | dict(env or {})),
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


class Recovery:
    """A running `chipwarden-recovery run`.

    Args:
        folder: where its log goes.
        arguments: of the command line.
        env: settings in the environment.
    """

    def __init__(self, folder: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
        self._log = folder / "recovery.log"
        self._arguments = ["run", "--listen", "127.0.0.1:0", *map(str, arguments)]
        self._env = env or {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it, and wait until it has started."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "recovery", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**{"HOME": "/nonexistent"} | dict(self._env)),
            )
        until(lambda: self.log("recovery started"), seconds=20, what=f"started: {self._log.read_text()}")
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process itself."""
        assert self._process is not None, "not started"
        return self._process

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """Read what it has logged.

        Args:
            event: only these lines; None = all.
        """
        text = self._log.read_text()
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]
        return [line for line in lines if event in (None, line["event"])]

    def page(self, path: str) -> tuple[int, str]:
        """Get a page: its status and its text."""
        port = self.log("recovery started")[0]["port"]
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def metrics(self) -> Metrics:
        """Get /metrics: values by name and label values."""
        return read_metrics(self.page("/metrics")[1])

    def metric(self, name: str, *labels: str) -> float:
        """Get one value by the end of its name; 0 = it is not there."""
        return self.metrics().get((f"chipwarden_recovery_{name}", labels), 0.0)

    def resident_bytes(self) -> int:
        """Tell its resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def stop(self) -> int:
        """End it with SIGTERM as an orchestrator does, who waits five seconds; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(5)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
