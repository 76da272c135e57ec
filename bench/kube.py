"""The detector on a real API server: line to watch, a fleet that starts at once, and floods with Kubernetes on."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lines import Writer, fault
from bench.live import Detector, burst, percentile
from detector.board import Board
from detector.health import NodeHealth
from detector.keeper import Keeper
from detector.kmsg import KmsgReader
from detector.kube import NodeClient
from detector.publisher import Publisher
from detector.rulefiles import load_all
from detector.sight import Sight
from detector.statefile import StateFile
from runtime.clock import SystemClock
from runtime.rest import Rest
from tests.kubernetes.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTS = 200
AGENTS = 2_000
_BARE_LOOP = """
import http.client, json, os, select, ssl, sys
host, port, ca, token, node = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
connection = http.client.HTTPSConnection(host, int(port), context=context)
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/strategic-merge-patch+json"}
fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
os.lseek(fd, 0, os.SEEK_END)
poll = select.poll()
poll.register(fd, select.POLLIN)
number = 0
while True:
    poll.poll()
    try:
        while True:
            if b"BARE_FAULT" in os.read(fd, 8192):
                number += 1
                condition = {"type": "Bare", "status": "True", "reason": "R", "message": str(number)}
                body = json.dumps({"status": {"conditions": [condition]}})
                connection.request("PATCH", f"/api/v1/nodes/{node}/status", body, headers)
                connection.getresponse().read()
    except BlockingIOError:
        pass
"""


class Watch(threading.Thread):
    """Watches Nodes and notes when each condition message came."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(daemon=True)
        context = ssl.create_default_context(cafile=str(plane.authority))
        request = urllib.request.Request(  # noqa: S310 - the test's own server
            f"{plane.url}/api/v1/nodes?watch=true", headers={"Authorization": f"Bearer {plane.admin_token}"}
        )
        self._answer = urllib.request.urlopen(request, context=context)  # noqa: S310 - the same
        self.seen: dict[str, tuple[float, str]] = {}
        self.changed = threading.Event()

    def run(self) -> None:
        """Read events for ever."""
        for line in self._answer:
            at = time.monotonic()
            node = json.loads(line)["object"]
            text = json.dumps(node.get("status", {}).get("conditions", []))
            self.seen[node["metadata"]["name"]] = (at, text)
            self.changed.set()

    def text(self, node: str) -> str:
        """Give a Node's conditions as they were seen last."""
        return self.seen.get(node, (0.0, ""))[1]

    def wait_change(self, node: str, before: str, since: float) -> float:
        """Wait until a Node's conditions differ from a text; return the seconds since a time."""
        while True:
            self.changed.clear()
            at, conditions = self.seen.get(node, (0.0, before))
            if conditions != before:
                return at - since
            if not self.changed.wait(10):
                raise SystemExit(f"no change ever arrived at {node}")


@contextlib.contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """Run etcd and an API server for a while."""
    plane = ControlPlane(Path(tempfile.mkdtemp()))
    plane.start()
    try:
        yield plane
    finally:
        plane.stop()
        plane.remove_data()


def latency(plane: ControlPlane) -> None:
    """Line to watch, beside a bare loop that reads and sends one PATCH, in turn."""
    plane.create_node("bench")
    plane.create_node("bare")
    host, _, port = plane.url.removeprefix("https://").rpartition(":")
    bare = subprocess.Popen(
        [sys.executable, "-c", _BARE_LOOP, host, port, str(plane.authority), plane.admin_token, "bare"]
    )
    running = Detector("--node-name", "bench", "--kubernetes", "on", environment={"KUBECONFIG": str(plane.kubeconfig)})
    writer, watch = Writer(), Watch(plane)
    watch.start()
    ours, theirs = [], []
    time.sleep(3)
    for number in range(FAULTS):
        line = fault(number).replace("DMA_ERROR", "DMA_ERROR" if number % 2 else "SRAM_UNCORRECTABLE_ERROR")
        before, start = watch.text("bench"), time.monotonic()
        writer.write(line)
        ours.append(watch.wait_change("bench", before, start))
        time.sleep(0.6)
        before, start = watch.text("bare"), time.monotonic()
        writer.write("BARE_FAULT")
        theirs.append(watch.wait_change("bare", before, start))
        time.sleep(0.6)
    print(f"| with Kubernetes on, resident | {running.resident_mb:.1f} MB |")
    running.stop()
    bare.kill()
    bare.wait()
    for what, values in (("bare loop: read, one PATCH", theirs), ("detector", ours)):
        print(
            f"| {what} | p50 {percentile(values, 0.5) * 1000:.1f} ms | p99 {percentile(values, 0.99) * 1000:.1f} ms |"
        )
    print(f"| median, x the bare loop | {statistics.median(ours) / statistics.median(theirs):.2f} |")


class Agents:
    """Many publishers of the real code in one process, each with a Node and a connection of its own."""

    def __init__(self, plane: ControlPlane, count: int) -> None:
        catalog = load_all(("neuron",))
        self.boards: list[Board] = []
        self._publishers: list[Publisher] = []
        environ = {"KUBECONFIG": str(plane.kubeconfig)}
        for number in range(count):
            health = NodeHealth(catalog, boot="bench", instance=f"i-{number:017x}", now=datetime.now(UTC))
            board = _board()
            publisher = Publisher(
                client=NodeClient(Rest(counted=board.count_request, environ=environ), f"herd-{number}"),
                health=health,
                post=lambda change: change(datetime.now(UTC)),
                board=board,
                boot="bench",
                says_ready=False,
                clock=SystemClock(),
            )
            publisher.publish(health.view(), time.monotonic())
            self.boards.append(board)
            self._publishers.append(publisher)

    def start(self) -> None:
        """Start all at once."""
        for publisher in self._publishers:
            publisher.start()

    def are_settled(self) -> bool:
        """Tell whether all Nodes have their condition."""
        return all(publisher.is_settled() for publisher in self._publishers)


def _board() -> Board:
    source = KmsgReader("/dev/kmsg")
    keeper = Keeper(StateFile(tempfile.mkdtemp()))
    return Board(source=source, sight=Sight(source, SystemClock()), keeper=keeper, boot="bench", instance=None)


def herd(plane: ControlPlane) -> None:
    """A fleet that starts at once: requests per second and retries."""
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"herd-{n}"}} for n in range(AGENTS)]
    plane.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}), timeout_seconds=300
    )
    agents = Agents(plane, AGENTS)
    start = time.monotonic()
    agents.start()
    busiest, before = 0, 0
    while not agents.are_settled() and time.monotonic() - start < 300:
        time.sleep(1)
        total = sum(sum(board.requests.values()) for board in agents.boards)
        busiest, before = max(busiest, total - before), total
    refused = sum(count for board in agents.boards for (_, code), count in board.requests.items() if code != "200")
    total = sum(sum(board.requests.values()) for board in agents.boards)
    took = time.monotonic() - start
    print(
        f"| {AGENTS:,} agents started at once | all published after {took:.0f} s | {total} requests, "
        f"{refused} refused or unanswered | at most {busiest} a second |"
    )


def floods(plane: ControlPlane) -> None:
    """The same flood with Kubernetes off and on."""
    plane.create_node("flood")
    os.environ["KUBECONFIG"] = str(plane.kubeconfig)
    off = burst(50_000, 250_000)
    on = burst(50_000, 250_000, extra=("--kubernetes", "on", "--node-name", "flood"))
    print(f"| points more lost with Kubernetes on | {on - off:+.1f} |")


def main() -> None:
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    Path("/proc/sys/kernel/printk_devkmsg").write_text("on\n")
    wanted = sys.argv[1:] or ["latency", "floods", "herd"]
    with control_plane() as plane:
        if "latency" in wanted:
            latency(plane)
        if "floods" in wanted:
            floods(plane)
        if "herd" in wanted:
            herd(plane)


if __name__ == "__main__":
    main()
