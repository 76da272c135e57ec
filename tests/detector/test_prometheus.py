"""A real Prometheus scrapes real detectors and answers the queries that dashboards and recovery ask."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import urllib.parse
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.detector.process import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.detector.process import Detector

DMA = "NeuronHasError_DMA_ERROR"
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
- job_name: detectors
  static_configs:
  - targets: [{targets}]
"""


class Prometheus:
    """A server of its own.

    Args:
        folder: for its data.
        targets: what it scrapes, five times a second.
    """

    def __init__(self, folder: Path, targets: list[str]) -> None:
        (folder / "prometheus.yml").write_text(CONFIG.format(targets=", ".join(targets)))
        self._log = folder / "prometheus.log"
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command, "--web.listen-address=127.0.0.1:0"],
                stdout=log,
                stderr=log,
            )
        self._port = until(self._port_listened_on, seconds=20, what="Prometheus listens")

    def _port_listened_on(self) -> int:
        assert self._process.poll() is None, self._log.read_text()
        inodes = set()
        for file in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(file.readlink()))
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                return int(fields[1].rpartition(":")[2], 16)
        return 0

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Ask an instant query; [] while it does not answer yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(ConnectionError):
            connection.request("GET", f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
            response = connection.getresponse()
            if response.status == HTTPStatus.SERVICE_UNAVAILABLE:  # it listens before it has read its own data
                return []
            answer = json.loads(response.read())
            assert answer["status"] == "success", answer
            return list(answer["data"]["result"])
        return []

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(10)


@pytest.fixture
def scraping(tmp_path: Path) -> Iterator[Callable[..., Prometheus]]:
    servers: list[Prometheus] = []

    def start(*detectors: Detector) -> Prometheus:
        servers.append(Prometheus(tmp_path, [detector.url.removeprefix("http://") for detector in detectors]))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_prometheus_scrapes_and_answers_what_is_faulty(
    new_detector: Callable[..., Detector], scraping: Callable[..., Prometheus]
) -> None:
    healthy, odd = new_detector().start(), new_detector(instance='i-"odd"\\').start()
    prometheus = scraping(healthy, odd)
    until(lambda: len(prometheus.query("up == 1")) == 2, seconds=20, what="both are scraped")
    assert len(prometheus.query("problem_gauge == 0")) == 2 * 5
    healthy.write("DMA_ERROR")
    (series,) = until(lambda: prometheus.query(f'problem_gauge{{reason="{DMA}"}} == 1'))
    assert series["metric"]["type"] == "NeuronHasError"
    assert f"http://{series['metric']['instance']}" == healthy.url
    joined = 'problem_gauge == 1 and on (type, reason) chipwarden_detector_rule_info{action="replace"}'
    assert len(prometheus.query(joined)) == 1
    (since,) = prometheus.query("time() - chipwarden_detector_fault_since_timestamp_seconds")
    assert 0 <= float(since["value"][1]) < 30
    (counted,) = prometheus.query("problem_counter > 0")
    assert counted["metric"]["reason"] == DMA
    exported = {
        series["metric"]["exported_instance"] for series in prometheus.query("chipwarden_detector_instance_info")
    }
    assert exported == {healthy.instance, odd.instance}
