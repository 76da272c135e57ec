"""A real Prometheus server that scrapes real detectors, and how recovery sees them through it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from recovery.page import read_page
from recovery.prometheus import PrometheusFleet
from runtime.clock import SystemClock
from runtime.durations import Duration
from tests.detector.kernel import record
from tests.detector.process import Detector, neuron_line, until
from tests.kubernetes.process import free_port
from tests.recovery.detector_page import page
from tests.recovery.servers import Server, answers
from tests.recovery.servers import http as written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from recovery.model import Seen, Sighting

pytestmark = pytest.mark.real
DMA = "NeuronHasError_DMA_ERROR"


class NoCount:
    """Nobody knows how many nodes there should be."""

    def current(self) -> int | None:
        return None


class Lab:
    """Two detectors that follow files, and a server that scrapes them under several clusters.

    Args:
        folder: for all their files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.detectors = [self._detector(folder / name) for name in ("one", "two")]
        self.old = Server(answers(b""))
        self.port = free_port()
        self._prometheus: subprocess.Popen[bytes] | None = None

    def _detector(self, folder: Path) -> Detector:
        folder.mkdir()
        (folder / "kmsg").touch()
        return Detector(folder)

    def start(self) -> None:
        for one, enabled in zip(self.detectors, ("true", "false"), strict=True):
            kmsg = one.state_dir.parent / "kmsg"
            one.start("--kmsg", kmsg, "--kmsg-follow", "--enable-recovery", enabled)
        self.old.__enter__()
        config = self.folder / "prometheus.yaml"
        config.write_text(json.dumps(self._config()))
        with (self.folder / "prometheus.log").open("wb") as log:
            self._prometheus = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "--", "prometheus", f"--config.file={config}"),
                    *(f"--storage.tsdb.path={self.folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{self.port}"),
                ],
                stdout=log,
                stderr=log,
            )

    def _config(self) -> dict[str, Any]:
        one, two = (detector.url.removeprefix("http://") for detector in self.detectors)
        keep = [{"source_labels": ["__name__"], "regex": "problem_gauge", "action": "drop"}]
        old = f"127.0.0.1:{self.old.port}"
        return {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
            "scrape_configs": [
                self._job("plain", {"n1": one, "n2": two}),
                self._job("honour", {"n1": one, "n2": two}, honor_labels=True),
                self._job("dropped", {"n1": one, "n2": two}, metric_relabel_configs=keep),
                self._job("twins", {"n1": one, "n2": two}) | {"job_name": "twins again"},
                self._job("twins", {"n1": two}),
                self._job("unnamed", {"": one}),
                self._job("old", {"n3": old}),
            ],
        }

    def _job(self, cluster: str, targets: dict[str, str], **more: Any) -> dict[str, Any]:
        static = [
            {"targets": [target], "labels": {"cluster": cluster} | ({"node": node} if node else {})}
            for node, target in targets.items()
        ]
        return {"job_name": cluster, "static_configs": static} | more

    def stop(self) -> None:
        self.old.__exit__()
        for one in self.detectors:
            one.kill()
        if self._prometheus is not None:
            self._prometheus.kill()
            self._prometheus.wait(10)

    def look(self, cluster: str = "plain", *, stale_after: float = 60) -> Sighting:
        """Look as recovery does."""
        return PrometheusFleet(
            f"http://127.0.0.1:{self.port}/",
            selector=f'cluster="{cluster}"',
            stale_after=Duration(stale_after),
            clock=SystemClock(),
            fleet=NoCount(),
        ).look()

    def seen(self, cluster: str = "plain") -> dict[str, Seen]:
        """Wait until both nodes are seen."""
        return until(
            lambda: found if (found := self.look(cluster).seen).keys() == {"n1", "n2"} else {},
            seconds=30,
            what=f"both nodes are seen: {self.look(cluster)}",
        )

    def direct(self, number: int) -> Seen:
        """Read a detector's own page."""
        oldest = datetime.now(UTC) - timedelta(minutes=1)
        return read_page(self.detectors[number].page("/metrics")[1], f"n{number + 1}", oldest=oldest)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("prometheus"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def same(one: Seen, other: Seen) -> bool:
    return sorted(one.reasons) == sorted(other.reasons) and all(
        getattr(one, name) == getattr(other, name)
        for name in ("node", "faults", "enabled", "platform_repair", "instance")
    )


@pytest.mark.parametrize("cluster", ["plain", "honour"])
def test_the_server_shows_what_the_pages_show(lab: Lab, cluster: str) -> None:
    seen = lab.seen(cluster)
    assert same(seen["n1"], lab.direct(0))
    assert same(seen["n2"], lab.direct(1))
    assert (seen["n1"].enabled, seen["n2"].enabled) == (True, False)


def test_nodes_whose_gauges_are_dropped_on_the_way_are_blind(lab: Lab) -> None:
    until(lambda: lab.look("dropped").blind.keys() == {"n1", "n2"}, seconds=30)
    assert set(lab.look("dropped").blind.values()) == {"problem_gauge lacks some of its reasons"}


def test_a_node_that_two_targets_speak_for_is_blind(lab: Lab) -> None:
    until(lambda: lab.look("twins").blind == {"n1": "several detectors speak for it"}, seconds=30)
    until(lambda: lab.look("twins").seen.keys() == {"n2"}, seconds=30)
    assert lab.look("twins").blind == {"n1": "several detectors speak for it"}


def test_series_that_name_no_node_make_the_fleet_blind(lab: Lab) -> None:
    lab.seen()
    sighting = lab.look("unnamed")
    assert sighting.why_blind is not None
    assert "no series with the label node" in sighting.why_blind
    assert (sighting.seen, sighting.blind) == ({}, {})


def test_a_page_with_old_timestamps_is_stale(lab: Lab) -> None:
    then = int((time.time() - 100) * 1000)
    lines = [line if line.startswith("#") else f"{line} {then}" for line in page().splitlines()]
    lab.old.way = answers(written("\n".join([*lines, ""])))
    until(lambda: lab.look("old").blind, seconds=30)
    assert lab.look("old").blind == {"n3": "what Prometheus has of it is stale"}
    assert lab.look("old", stale_after=200).seen.keys() == {"n3"}


def test_a_query_that_the_server_refuses_makes_the_fleet_blind(lab: Lab) -> None:
    lab.seen()
    sighting = lab.look('plain",node=~"[')
    assert sighting.why_blind is not None
    assert sighting.why_blind.startswith("Prometheus: status 400")


def test_a_fault_is_seen_as_its_page_shows_it_and_a_detector_that_ends_vanishes(lab: Lab) -> None:
    lab.seen()
    kmsg = lab.detectors[0].state_dir.parent / "kmsg"
    with kmsg.open("ab") as file:
        file.write(record(1, neuron_line("DMA_ERROR", lab.detectors[0].instance)))
    until(lambda: lab.seen()["n1"].faults, seconds=15, what="the fault is seen")
    seen = lab.seen()
    assert [fault.reason for fault in seen["n1"].faults] == [DMA]
    assert seen["n2"].faults == ()
    assert same(seen["n1"], lab.direct(0))

    lab.detectors[1].process.send_signal(signal.SIGSTOP)  # a target that does not answer
    until(lambda: lab.look().seen.keys() == {"n1"}, seconds=15)
    lab.detectors[1].process.send_signal(signal.SIGCONT)
    assert lab.seen()["n2"].faults == ()
    lab.detectors[1].kill()
    until(lambda: lab.look().seen.keys() == {"n1"}, seconds=15)


def test_the_server_itself_answers_as_its_documentation_says(lab: Lab) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=5)
    connection.request("GET", "/api/v1/query?query=vector(time())")
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert answer["status"] == "success"
    assert answer["data"]["resultType"] == "vector"
