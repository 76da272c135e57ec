"""A real Prometheus server of a test's own, on loopback; the kernel ends it with pytest, however pytest ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import urllib.parse
from typing import TYPE_CHECKING, Any

from tests.kubernetes.process import free_port

if TYPE_CHECKING:
    from pathlib import Path


class Prometheus:
    """The server.

    Args:
        folder: for its configuration, its log and, in `data`, its series, which may be there already.
        config: the configuration's text.
        flags: more of its command line.
    """

    def __init__(self, folder: Path, config: str, *flags: str) -> None:
        self._log = folder / "prometheus.log"
        self._port = free_port()
        (folder / "prometheus.yml").write_text(config)
        own = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        own.append(f"--web.listen-address=127.0.0.1:{self._port}")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", "prometheus", *own, *flags], stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        assert self._process.poll() is None, self._log.read_text()
        with contextlib.suppress(OSError):
            return self._get("/-/ready")[0] == 200
        return False

    def at(self, expression: str, when: float) -> list[dict[str, Any]]:
        """Ask for one time."""
        return list(self.ask("query", query=expression, time=when)["result"])

    def over(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Ask for a span of time."""
        return list(self.ask("query_range", query=expression, start=start, end=end, step=step)["result"])

    def ask(self, path: str, **parameters: str | float) -> dict[str, Any]:
        """Ask anything of its API; what it refuses fails the test in its own words."""
        status, text = self._get(f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        answer = json.loads(text)
        assert status == 200, f"{parameters}\n{answer.get('error')}"
        return dict(answer["data"])

    def _get(self, path: str) -> tuple[int, bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(10)
