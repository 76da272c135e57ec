"""A detector as a user starts it: a process of its own, with its own state directory, port and instance id.

Nothing here knows what a test is about. The kernel ends the process with pytest, however pytest ends.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

REPOSITORY = Path(__file__).resolve().parents[2]
KMSG = "/dev/kmsg"
CODES = (
    "SRAM_UNCORRECTABLE_ERROR",
    "NC_UNCORRECTABLE_ERROR",
    "HBM_UNCORRECTABLE_ERROR",
    "DMA_ERROR",
    "HANG_ON_COLLECTIVES",
)
_OURS = re.compile(r"(CHIPWARDEN|AWS|KUBE|POD|NODE|ENABLE|COV)[A-Z_]*")
_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_Value = TypeVar("_Value")
Metrics = dict[tuple[str, tuple[str, ...]], float]


def until(condition: Callable[[], _Value | None], *, seconds: float = 10.0, what: str = "") -> _Value:
    """Ask again and again, and return the first answer that is true.

    Args:
        condition: asked every 10 ms.
        seconds: how long.
        what: says in the failure what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition}"
        time.sleep(0.01)
    return answer


def new_instance_id() -> str:
    """Make up an instance id that no line in the kernel log speaks of yet."""
    return f"i-{secrets.token_hex(9)[:17]}"


def environment(**more: str) -> dict[str, str]:
    """Make an environment in which only a test's own settings count, and no metadata service is asked."""
    plain = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
    plain.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled once for all the processes of all tests
    plain |= {"PYTHONPATH": str(REPOSITORY), "PYTHONPYCACHEPREFIX": str(REPOSITORY / ".cache" / "pycache")}
    return plain | {"AWS_EC2_METADATA_DISABLED": "true"} | more


def command(*arguments: str | Path) -> list[str]:
    """Write the command line of the program."""
    return [sys.executable, "-m", "detector", *map(str, arguments)]


def chipwarden(
    *arguments: str | Path, given: bytes = b"", env: Mapping[str, str] | None = None, through: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run one of the program's commands to its end.

    Args:
        arguments: of the command line.
        given: standard input.
        env: settings in the environment.
        through: a command that starts the program, such as setpriv.
    """
    done = subprocess.run(
        [*through, *command(*arguments)],
        input=given,
        capture_output=True,
        env=environment(**(env or {})),
        timeout=20,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def write_kernel_log(*lines: str) -> None:
    """Write lines as a person does; each is one record of facility user."""
    with Path(KMSG).open("wb", buffering=0) as device:
        device.writelines(line.encode() + b"\n" for line in lines)  # one write() each, for there is no buffer


def neuron_line(code: str, instance: str, *, device: int = 0, core: int = 0, serial: str = "1a2b3c4d") -> str:
    """Write what the Neuron driver prints."""
    return (
        f"NEURON_HW_ERR={code} instance-id={instance} hostname=ip-10-0-0-1 nd-id={device} nc-id={core} "
        f"serial-num={serial} action=TERMINATE_INSTANCE"
    )


class Detector:
    """A running `chipwarden-detector run`.

    Args:
        folder: where its state, log and boot id are; the state survives a restart in the same folder.
        instance: its instance id; None = a new one.
    """

    def __init__(self, folder: Path, *, instance: str | None = None) -> None:
        self.instance = instance or new_instance_id()
        self.state_dir = folder / "state"
        self.boot_id_file = folder / "boot_id"
        self.boot_id_file.write_text("a2f0c1d4-0000-4000-8000-000000000001\n")
        self._log = folder / "log"
        self._log_starts_at = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def start(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
        ready: bool = True,
    ) -> Self:
        """Start it, and wait until its pages can be relied on.

        Args:
            arguments: more of them, after those that make it the test's own.
            env: settings in the environment.
            through: a command that starts it.
            ready: False = return as soon as it has started.
        """
        own = ["run", "--kubernetes", "off", "--listen", "127.0.0.1:0", "--instance-id", self.instance]
        own += ["--state-dir", str(self.state_dir), "--boot-id-file", str(self.boot_id_file)]
        self.launch(*own, *arguments, env=env, through=through)
        self._port = until(self._port_told, seconds=20, what="the detector started")
        if ready:
            until(lambda: self.page("/readyz")[0] == 200, seconds=20, what="the detector is ready")
        return self

    def launch(self, *arguments: str | Path, env: Mapping[str, str] | None = None, through: Sequence[str] = ()) -> None:
        """Start the program with these arguments only, and return at once."""
        self._log_starts_at = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *through, *command(*arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**(env or {})),
            )

    def _port_told(self) -> int:
        assert self.process.poll() is None, f"ended at once:\n{self._log.read_text()}"
        ports = [line["port"] for line in self.log("detector started")]
        return int(ports[0]) if ports else 0

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process itself."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://127.0.0.1:{self._port}"

    def page(self, path: str) -> tuple[int, str]:
        """Get a page: its status and its text."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def conditions(self) -> dict[str, Any]:
        """Get /conditions."""
        answer: dict[str, Any] = json.loads(self.page("/conditions")[1])
        return answer

    def condition(self, kind: str = "NeuronHasError") -> dict[str, str]:
        """Get one condition."""
        (found,) = (condition for condition in self.conditions()["conditions"] if condition["type"] == kind)
        return dict(found)

    def faults(self) -> dict[str, int]:
        """Count the lines of each active reason."""
        counts: dict[str, int] = {}
        for fault in self.conditions()["faults"]:
            counts[fault["reason"]] = counts.get(fault["reason"], 0) + fault["count"]
        return counts

    def metrics(self) -> Metrics:
        """Get /metrics: values by name and label values, in the order of the page."""
        return read_metrics(self.page("/metrics")[1])

    def metric(self, name: str, *labels: str) -> float:
        """Get one value; `chipwarden_detector_` may be left out of the name."""
        values = self.metrics()
        key = (name, labels)
        return values[key] if key in values else values["chipwarden_detector_" + name, labels]

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """Read what it has logged since it was started last.

        Args:
            event: only these lines; None = all.
        """
        text = self._log.read_bytes()[self._log_starts_at :].decode()
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]
        return [line for line in lines if event in (None, line["event"])]

    def told(self) -> list[str]:
        """List the reasons that it has told people about."""
        return [line["reason"] for line in self.log() if line["event"] in ("problem", "notice")]

    def resident_bytes(self) -> int:
        """Tell its resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def write(self, code: str, **fields: Any) -> None:
        """Write a Neuron line about this instance into the kernel log."""
        write_kernel_log(neuron_line(code, self.instance, **fields))

    def stop(self) -> int:
        """End it with SIGTERM as an orchestrator does, who waits five seconds; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(5)

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)


def read_metrics(page: str) -> Metrics:
    """Read a page in Prometheus' text format."""
    values: Metrics = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            found = _SAMPLE.fullmatch(line)
            assert found, line
            values[found[1], tuple(value for _, value in _LABEL.findall(found[2] or ""))] = float(found[3])
    return values
