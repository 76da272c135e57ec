"""The running program on the real kernel log: latency, bursts, trickle, memory and idle CPU, beside a bare loop."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.lines import INSTANCE, PLAIN, RULES, Writer, fault

if TYPE_CHECKING:
    from collections.abc import Iterator

_PORT = 20259


class Detector:
    """The program in a process of its own."""

    def __init__(self, *extra: str, environment: dict[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._log = Path(self._folder.name) / "log"
        rules = [part for name in RULES for part in ("--rules", name)]
        command = [sys.executable, "-m", "detector", "run", "--state-dir", f"{self._folder.name}/state"]
        command += [
            "--listen",
            f"127.0.0.1:{_PORT}",
            "--instance-id",
            INSTANCE,
            *rules,
            *(extra or ("--kubernetes", "off")),
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, env=dict(os.environ) | (environment or {}))
        self._connection = http.client.HTTPConnection("127.0.0.1", _PORT, timeout=5)
        give_up_at = time.monotonic() + 20
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise SystemExit(f"the detector did not start: {self._log.read_text()}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            self._connection.request("GET", "/readyz")
            answer = self._connection.getresponse()
            answer.read()
            return answer.status == 200
        self._connection.close()
        return False

    def get(self, path: str) -> bytes:
        """Read a page."""
        try:
            self._connection.request("GET", path)
            return self._connection.getresponse().read()
        except (http.client.RemoteDisconnected, ConnectionError):  # idle for longer than the server waits
            self._connection.close()
            self._connection.request("GET", path)
            return self._connection.getresponse().read()

    def metric(self, name: str) -> float:
        """Read a single value."""
        for line in self.get("/metrics").decode().splitlines():
            if line.startswith((name + " ", name + "{")):
                return float(line.rpartition(" ")[2])
        return 0.0

    def conditions(self) -> dict[str, Any]:
        """Read /conditions."""
        return dict(json.loads(self.get("/conditions")))

    @property
    def cpu_seconds(self) -> float:
        """CPU time so far, all threads."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    @property
    def resident_mb(self) -> float:
        """Resident memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * 4096 / 1e6

    @property
    def log_lines(self) -> int:
        """Lines logged so far."""
        return len(self._log.read_text().splitlines())

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(10)
        self._folder.cleanup()


@contextlib.contextmanager
def detector(*extra: str, environment: dict[str, str] | None = None) -> Iterator[Detector]:
    """Run a detector for a while; the ring buffer that it finds holds no faults of earlier rounds."""
    Writer().burst(PLAIN, 3_000)
    running = Detector(*extra, environment=environment)
    try:
        yield running
    finally:
        running.stop()


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def bare_wakeups(count: int, written: list[float], woken: list[float], ready: threading.Event) -> None:
    """Wait in poll() for each of some lines, and note when they were read."""
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(fd, 0, os.SEEK_END)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    ready.set()
    while len(woken) < count:
        poll.poll()
        with contextlib.suppress(BlockingIOError):
            while True:
                if b"NEURON_HW_ERR" in os.read(fd, 8192):
                    woken.append(time.monotonic() - written[-1])
    os.close(fd)


def latency(count: int = 150) -> None:
    """Line to page, beside a bare loop that only reads the same lines."""
    writer, chance = Writer(), random.Random(1)
    written: list[float] = []
    woken: list[float] = []
    ready = threading.Event()
    bare = threading.Thread(target=bare_wakeups, args=(count, written, woken, ready))
    shown: list[float] = []
    name = 'problem_counter{reason="NeuronHasError_DMA_ERROR"}'
    with detector() as running:
        bare.start()
        ready.wait()
        before = running.metric(name)
        for number in range(count):
            time.sleep(chance.uniform(0.02, 0.04))
            written.append(time.monotonic())
            writer.write(fault(number % 100))
            while running.metric(name) == before:
                pass
            shown.append(time.monotonic() - written[-1])
            before += 1
        bare.join()
    print("line written to ..., ms, p50 / p99")
    for what, values in (("bare loop has read it", woken), ("metrics page shows it", shown)):
        print(f"| {what} | {percentile(values, 0.5) * 1000:.2f} / {percentile(values, 0.99) * 1000:.2f} |")


def scraping(every: float, stop: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", _PORT, timeout=5)
    while not stop.wait(every):
        connection.request("GET", "/metrics")
        connection.getresponse().read()


class Totals(NamedTuple):
    """What a detector says at one moment of a burst."""

    sequence: int
    records: float
    lost: float
    resident_mb: float
    log_lines: int

    @classmethod
    def of(cls, running: Detector) -> Totals:
        """Read them."""
        return cls(
            running.conditions()["sequence"],
            running.metric("chipwarden_detector_records_total"),
            running.metric("chipwarden_detector_lost_records_total"),
            running.resident_mb,
            running.log_lines,
        )


class Round(NamedTuple):
    """How one burst went."""

    lost_percent: float
    found: bool
    exact: bool
    growth_mb: float
    log_lines: int


def one_burst(running: Detector, count: int, rate: float | None, mark: str, *, in_the_middle: bool) -> Round:
    """Write a burst with one fault, a scrape every 50 ms meanwhile, and see what was made of it."""
    writer = Writer()
    writer.write("burst begins")
    time.sleep(0.3)
    before = Totals.of(running)
    stop = threading.Event()
    scraper = threading.Thread(target=scraping, args=(0.05, stop))
    scraper.start()
    first = count // 2 if in_the_middle else count
    writer.burst(PLAIN, first, rate=rate)
    writer.write(fault(mark))
    writer.burst(PLAIN, count - first, rate=rate)
    time.sleep(1.5)
    stop.set()
    scraper.join()
    after = Totals.of(running)
    read, lost = after.records - before.records, after.lost - before.lost
    return Round(
        lost_percent=lost * 100 / count,
        found=any(found["details"].get("nd-id") == mark for found in running.conditions()["faults"]),
        exact=read + lost == after.sequence - before.sequence,
        growth_mb=after.resident_mb - before.resident_mb,
        log_lines=after.log_lines - before.log_lines,
    )


def burst(
    count: int, rate: float | None, *, rounds: int = 5, in_the_middle: bool = False, extra: tuple[str, ...] = ()
) -> float:
    """Repeat a burst with a detector of its own each time; returns the median loss in per cent."""
    done = []
    for number in range(rounds):
        with detector(*extra) as running:
            done.append(one_burst(running, count, rate, f"{number}", in_the_middle=in_the_middle))
    losses = [one.lost_percent for one in done]
    pace = f"{rate:,.0f}/s" if rate else "full speed"
    print(
        f"| {count:,} at {pace} | lost {statistics.median(losses):.1f} % ({min(losses):.1f} - {max(losses):.1f}) "
        f"| fault found {sum(one.found for one in done)}/{rounds} | exact {sum(one.exact for one in done)}/{rounds} "
        f"| memory {max(one.growth_mb for one in done):+.1f} MB | {max(one.log_lines for one in done)} log lines |"
    )
    return statistics.median(losses)


def bare_cpu(seconds: float, rate: float) -> float:
    """CPU of a bare poll loop in a process of its own."""
    code = (
        "import os,select,time,sys\n"
        "fd=os.open('/dev/kmsg',os.O_RDONLY|os.O_NONBLOCK); os.lseek(fd,0,2)\n"
        "p=select.poll(); p.register(fd,1)\n"
        "while True:\n p.poll()\n try:\n  while True: os.read(fd,8192)\n"
        " except (BlockingIOError, BrokenPipeError): pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    time.sleep(0.5)
    before = _schedstat(process.pid)
    _trickle(seconds, rate)
    after = _schedstat(process.pid)
    process.kill()
    process.wait()
    return (after - before) / seconds


def _schedstat(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _trickle(seconds: float, rate: float) -> None:
    writer, start = Writer(), time.monotonic()
    for number in range(int(seconds * rate)):
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        writer.write(PLAIN[number % len(PLAIN)])


def trickle(rate: float, seconds: float = 8.0, rounds: int = 3) -> None:
    """CPU at a few records a second, x a bare poll loop."""
    ratios = []
    with detector() as running:
        time.sleep(3)
        for _ in range(rounds):
            before = running.cpu_seconds
            _trickle(seconds, rate)
            used = (running.cpu_seconds - before) / seconds
            ratios.append(used / bare_cpu(seconds, rate))
    spread = f"({min(ratios):.2f} - {max(ratios):.2f})"
    print(f"| {rate:g} records/s | {statistics.median(ratios):.2f} {spread} x a bare poll loop |")


def idle(seconds: float = 60.0) -> None:
    """Memory and CPU with nothing to do, then with a scrape every 15 s."""
    with detector() as running:
        time.sleep(5)
        print(f"| resident, {len(RULES)} rule sets, idle | {running.resident_mb:.1f} MB |")
        before = running.cpu_seconds
        time.sleep(seconds)
        print(f"| idle CPU over {seconds:g} s | {(running.cpu_seconds - before) / seconds * 100:.4f} % |")
        before = running.cpu_seconds
        for _ in range(int(seconds // 15)):
            time.sleep(15)
            running.get("/metrics")
        print(f"| idle CPU, a scrape every 15 s | {(running.cpu_seconds - before) / seconds * 100:.4f} % |")


def hostile() -> None:
    """Memory after texts made of pieces of the rules themselves."""
    from detector.hostile import sample  # noqa: PLC0415 - only here
    from detector.rulefiles import load_all  # noqa: PLC0415 - only here

    samples = [sample(rule.pattern) for rule_set in load_all(RULES).rule_sets for rule in rule_set.rules]
    chance = random.Random(2)
    texts = [
        "".join(chance.choice(samples)[: chance.randint(1, 60)] for _ in range(15)).replace("\n", " ")[:700]
        for _ in range(4000)
    ]
    with detector() as running:
        writer, before = Writer(), running.resident_mb
        writer.burst(texts, 20_000, rate=20_000)
        writer.burst([fault(n) for n in range(5_000)], 5_000, rate=10_000)
        time.sleep(2)
        what = "resident after 20,000 hostile lines and 5,000 different faults"
        print(f"| {what} | {before:.1f} -> {running.resident_mb:.1f} MB |")


def main() -> None:
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    Path("/proc/sys/kernel/printk_devkmsg").write_text("on\n")
    wanted = sys.argv[1:] or ["latency", "burst", "trickle", "idle", "hostile"]
    if "latency" in wanted:
        latency()
    if "burst" in wanted:
        burst(50_000, 250_000)
        burst(50_000, 100_000, in_the_middle=True)
        burst(300_000, None, rounds=3)
    if "trickle" in wanted:
        trickle(10)
        trickle(100)
    if "idle" in wanted:
        idle()
    if "hostile" in wanted:
        hostile()


if __name__ == "__main__":
    main()
