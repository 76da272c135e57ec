"""Recovery: memory of the leader, and the time from a kernel line to the call that gives the machine away.

The API server, the detector and the kernel log are real; AWS is moto behind the tests' proxy; a fleet is played: its
detectors' pages, or a Prometheus server. Goals: 90 MB with 100 nodes, 150 MB with 10,000; confirmFor and 2 s.
"""

from __future__ import annotations

import contextlib
import itertools
import socketserver
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.kube import control_plane
from tests.aws.surroundings import Aws
from tests.chain import aged
from tests.chain.place import DMA, Place
from tests.detector.process import until
from tests.kubernetes import kernellog
from tests.recovery.detector_page import page
from tests.recovery.prometheus_api import PrometheusApi, Scraped
from tests.recovery.servers import http

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.controlplane import ControlPlane
    from tests.recovery.program import Recovery

_TYPE = "NeuronHasError"
_QUIET_SECONDS = 30.0
_REPETITIONS = 5
_POLICY = {"confirmFor": "1s"}
_fleets = itertools.count()
_phases = itertools.cycle((0.3, 1.4, 2.5, 3.6, 4.7))  # seconds


class InImage(Place):
    """A place whose recovery has the environment that the image gives it."""

    def env(self, kubeconfig: Path | None = None) -> dict[str, str]:
        """Tell the environment of recovery."""
        return super().env(kubeconfig) | {"MALLOC_ARENA_MAX": "1"}


class Memory(NamedTuple):
    """Resident megabytes: of a quiet fleet, after a replacement, and the most there ever was."""

    quiet: float
    after: float
    peak: float


@contextlib.contextmanager
def _place(plane: ControlPlane) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder, Aws() as aws:
        made = InImage(plane, aws, Path(folder))
        try:
            yield made
        finally:
            made.close()


def _megabytes(replica: Recovery, field: str) -> float:
    status = Path(f"/proc/{replica.process.pid}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024 / 1e6


def _memory(replica: Recovery, count: int) -> float:
    """Wait until the whole fleet is seen and a while has passed; return what is resident."""
    until(lambda: replica.metric("observations", "healthy") >= count - 1, seconds=120, what="the fleet is seen")
    time.sleep(_QUIET_SECONDS)
    return _megabytes(replica, "VmRSS")


class _Page(socketserver.StreamRequestHandler):
    """Answers as a detector with nothing to report."""

    def handle(self) -> None:
        """Read a request, and answer it."""
        while self.rfile.readline().strip():
            pass
        self.wfile.write(http(page(instance=None)))


@contextlib.contextmanager
def _page_at(host: str) -> Iterator[int]:
    """Serve a page at an address of loopback; the port."""
    with socketserver.ThreadingTCPServer((host, 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def _pages(plane: ControlPlane, count: int) -> Memory:
    """A fleet whose detectors' pages are read one by one, each at an address of its own."""
    with _place(plane) as place, contextlib.ExitStack() as stack:
        for number in range(1, count + 1):
            host = f"127.0.2.{number}"
            name = place.add_pod(f"paged-{number}", stack.enter_context(_page_at(host)))
            status = {"podIP": host, "podIPs": [{"ip": host}, {"$patch": "replace"}]}
            place.admin.patch(f"/api/v1/namespaces/{place.namespace}/pods/{name}/status", {"status": status})
        place.set_fleet(count)
        replica = place.recovery("--poll", "5s")
        quiet = _memory(replica, count)
        return Memory(quiet, quiet, _megabytes(replica, "VmHWM"))


def _prometheus(plane: ControlPlane, count: int) -> Memory:
    """A fleet as a Prometheus server has it; at the end one machine is replaced, so that all of AWS is in use."""
    with _place(plane) as place:
        group = place.aws.player.make_group(3, launch_seconds=0.3, terminate_seconds=0.3)
        instance = place.aws.player.instances(group)[1]
        fleet = next(_fleets)
        nodes = {f"scraped-{fleet}-{number}": Scraped(instance=f"i-{number:017x}") for number in range(count)}
        node = f"faulty-{fleet}"
        nodes[node] = Scraped(instance=instance)
        place.set_fleet(count)
        with PrometheusApi(nodes) as server:
            replica = place.recovery("--poll", "5s", "--prometheus-url", server.url, policies={DMA: _POLICY})
            quiet = _memory(replica, count)
            annotation = {"chipwarden.io/detector": f'{{"instance":"{instance}","boot":"b"}}'}
            aged.plant(plane, [aged.node(node, instance, conditions={_TYPE: DMA}, annotations=annotation)])
            nodes[node].faults[_TYPE, DMA] = time.time()
            until(lambda: [each for each in place.entries() if each["outcome"]], seconds=120, what="replaced")
            del nodes[node]
            time.sleep(_QUIET_SECONDS)
            return Memory(quiet, _megabytes(replica, "VmRSS"), _megabytes(replica, "VmHWM"))


def memory(plane: ControlPlane) -> None:
    """What the leader holds."""
    print("| leader's resident memory | quiet | after a replacement | peak | goal |\n|---|---|---|---|---|")
    rows = (
        ("100 nodes, pages", 100, _pages, 90),
        ("100 nodes, Prometheus", 100, _prometheus, 90),
        ("10,000 nodes, Prometheus", 10_000, _prometheus, 150),
    )
    for title, count, measure, goal in rows:
        found = measure(plane, count)
        print(
            f"| {title} | {found.quiet:.0f} MB | {found.after:.0f} MB | {found.peak:.0f} MB | {goal} MB |", flush=True
        )


def _line_to_call(plane: ControlPlane, policy: dict[str, str], poll: str) -> float:
    """Break one machine of three, its detector reading the real kernel log; return the seconds until the call."""
    with _place(plane) as place:
        group = place.aws.player.make_group(3, launch_seconds=0.3, terminate_seconds=0.3)
        machine = place.machine(place.aws.player.instances(group)[1])
        machine.start("--enable-recovery", "true")
        machine.announce()
        place.set_fleet(1)
        replica = place.recovery("--poll", poll, policies={DMA: policy})
        until(lambda: replica.metric("observations", "healthy") == 1, seconds=30, what="the node is seen")
        time.sleep(next(_phases))  # polls and lines have nothing to do with each other
        began = time.monotonic()
        kernellog.write(kernellog.neuron_line("DMA_ERROR", machine.instance))
        until(place.marks, seconds=60, what="the call")
        # The Node has to go before its ledger does: the next leader would rebuild a ledger from it.
        until(lambda: machine.entry().get("outcome"), seconds=60, what="replaced")
        return float(place.marks()[0].at) - began


def latency(plane: ControlPlane) -> None:
    """Line to SetInstanceHealth: DMA_ERROR, a free slot, no drain, detectors' pages."""
    print("\n| line to SetInstanceHealth | median | worst | goal |\n|---|---|---|---|")
    for seconds, policy, poll in ((1, _POLICY, "1s"), (10, {}, "5s")):
        took = [_line_to_call(plane, policy, poll) for _ in range(_REPETITIONS)]
        title = f"confirmFor {seconds} s, poll {poll}" + ("" if policy else " (defaults)")
        print(f"| {title} | {statistics.median(took):.1f} s | {max(took):.1f} s | {seconds + 2} s |", flush=True)


def main() -> None:
    wanted = sys.argv[1:] or ["memory", "latency"]
    with control_plane() as plane:
        if "memory" in wanted:
            memory(plane)
        if "latency" in wanted:
            latency(plane)


if __name__ == "__main__":
    main()
