"""The kernel log of the tour: a recorded one that grows, or with root this machine's own.

Lines are made by the detector's own `inject`, so that they are what a driver prints. Must never flood a real kernel
log: it is small, and holds what its owner may still want to read.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from demo.parts import DemoError
from detector.inject import InjectError, Order, inject, line_of
from detector.model import KernelMessage, State
from detector.parse import ParseError, parse, to_record
from detector.rulefiles import load_all
from detector.statefile import StateFile
from runtime.identity import boot_id
from tests.detector.process import REPOSITORY

if TYPE_CHECKING:
    from detector.model import Rule

DEVICE: Final = Path("/dev/kmsg")
_SAMPLES: Final = REPOSITORY / "tests" / "data" / "kmsg_lines.jsonl"
_ACCELERATORS: Final = ("neuron[0-9]*", "nvidia[0-9]*", "kfd", "accel/accel[0-9]*", "hl[0-9]*")  # below /dev
_QUIET: Final = ("BENIGN", "INFO", "APP", "NEGATIVE")
_BOOT: Final = "/proc/sys/kernel/random/boot_id"
_RECORDED_BOOT: Final = "7a0c3c1e-0000-4000-8000-00000000d1a0"
_INFO, _ERR = 6, 3
_UNLIMITED: Final = 10  # lines that the kernel takes from one writer in five seconds; a new writer begins anew
_RECORD_BYTES: Final = 8192
_MARK: Final = "chipwarden demo: begins"
_HEADER: Final = re.compile(r"(\d+),\d+,\d+,-;")


class Sample(NamedTuple):
    """A recorded line.

    Args:
        name: in the collection.
        priority: facility and level, as the kernel packs them.
        text: of it.
    """

    name: str
    priority: int
    text: str


class KernelLog(Protocol):
    """Where the lines of the tour are written.

    Attributes:
        name: for people.
        path: of it.
        flood: how many equal lines it may be given.
    """

    name: str
    path: Path
    flood: int

    def arguments(self) -> list[str]:
        """Tell the detector's arguments that have it read this log."""

    def prepare(self, state_dir: Path, instance: str) -> None:
        """Have a detector that starts there begin with what is written from now on."""

    def write(self, text: str, priority: int = _ERR) -> float:
        """Write a line; tell when, in monotonic seconds."""

    def inject(self, reason: str, fields: dict[str, str], count: int) -> None:
        """Write a rule's own line so many times."""


class Recorded:
    """A file of raw records that grows.

    Args:
        folder: where it is made.
    """

    name = "a recorded one that grows, read as the device is"
    flood = 20_000

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kmsg"
        self.path.touch()
        self._boot = folder / "boot_id"
        self._boot.write_text(f"{_RECORDED_BOOT}\n")
        self._next = 0

    def arguments(self) -> list[str]:
        """Tell the detector's arguments that have it read this log."""
        return ["--kmsg", str(self.path), "--kmsg-follow", "--boot-id-file", str(self._boot)]

    def prepare(self, state_dir: Path, instance: str) -> None:
        """Do nothing: the file is new, and all of it is the tour's."""

    def write(self, text: str, priority: int = _ERR) -> float:
        """Write a line; tell when, in monotonic seconds."""
        at = time.monotonic()
        message = KernelMessage(
            facility=priority >> 3,
            level=priority & 7,
            sequence=self._next,
            timestamp_us=int(at * 1e6),
            text=text.encode(),
        )
        with self.path.open("ab") as file:
            file.write(to_record(message))
        self._next += 1
        return at

    def inject(self, reason: str, fields: dict[str, str], count: int) -> None:
        """Write a rule's own line so many times. Raises DemoError."""
        _inject(reason, fields, count, str(self.path))
        self._next += count


class Device:
    """This machine's kernel log.

    Args:
        path: of the device.

    Raises:
        DemoError: it cannot be read or written here; the message says why.
    """

    name = f"real too: this machine's {DEVICE}, for you are root"
    flood = 200

    def __init__(self, path: Path = DEVICE) -> None:
        self.path = path
        try:
            self._newest = _mark(path)
        except (OSError, ParseError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise DemoError(f"{path} cannot be used: {why}") from error

    def arguments(self) -> list[str]:
        """Tell the detector's arguments that have it read this log."""
        return ["--kmsg", str(self.path)]

    def prepare(self, state_dir: Path, instance: str) -> None:
        """Have a detector that starts there begin with what is written from now on, not with older tries."""
        state = State(boot=boot_id(_BOOT), instance=instance, seq=self._newest)
        StateFile(str(state_dir)).save(state)

    def write(self, text: str, priority: int = _ERR) -> float:
        """Write a line as a person does; tell when, in monotonic seconds."""
        at = time.monotonic()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"<{priority}>{text}\n".encode())
        finally:
            os.close(descriptor)
        return at

    def inject(self, reason: str, fields: dict[str, str], count: int) -> None:
        """Write a rule's own line so many times, a few with each writer. Raises DemoError."""
        for done in range(0, count, _UNLIMITED):
            _inject(reason, fields, min(_UNLIMITED, count - done), str(self.path))


def choose(folder: Path, *, recorded: bool, device: Path = DEVICE) -> tuple[KernelLog, str]:
    """Choose the kernel log: this machine's with root, else a recorded one; and tell why, if that is worth a word.

    A machine with accelerators keeps its log to itself: another agent that watches it, and does not look whose line it
    is, would believe what the tour writes, and might have the machine replaced.

    Args:
        folder: for the recorded one.
        recorded: the recorded one is asked for.
        device: this machine's.
    """
    if recorded or not _is_root_with(device):
        return Recorded(folder), ""
    found = sorted(str(path) for pattern in _ACCELERATORS for path in device.parent.glob(pattern))
    if found:
        return Recorded(folder), f"This machine has {found[0]}, so that its own kernel log is left alone."
    try:
        return Device(device), ""
    except DemoError as error:
        return Recorded(folder), f"{error}, so that a recorded one is used."


def _is_root_with(device: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.geteuid() == 0 and stat.S_ISCHR(device.stat().st_mode)
    return False


def fault_line(reason: str, fields: dict[str, str]) -> str:
    """Make the line that a driver prints."""
    return line_of(_rule(reason), fields).decode()


def noise() -> list[Sample]:
    """List recorded lines about Neuron devices that are no faults, some of them made to look like one."""
    found = map(_sample, _SAMPLES.read_text().splitlines())
    return [each for each in found if each is not None and "neuron" in each.text.lower()]


def _sample(line: str) -> Sample | None:
    """Read a line of the collection; None = it is, or may be, a fault, or no plain text."""
    found = json.loads(line)
    if found["class"] not in _QUIET or found["match"] is not False or "\\" in found["line"]:
        return None
    header = _HEADER.match(found["line"])
    priority = int(header[1]) if header else _INFO
    text = found["line"][header.end() :] if header else found["line"]
    return Sample(name=found["id"], priority=priority, text=text)


def _rule(reason: str) -> Rule:
    return next(rule for rule in load_all(["neuron"]).rules if rule.reason == reason)


def _inject(reason: str, fields: dict[str, str], count: int, kmsg: str) -> None:
    order = Order(rule=_rule(reason), fields=fields, count=count, rate=None, kmsg=kmsg)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # its progress would meet the tour's own
            inject(order)
    except InjectError as error:
        raise DemoError(f"the kernel log: {error}") from error


def _mark(path: Path) -> int:
    """Write a line, find it again, and tell its sequence number. Raises OSError, ParseError."""
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.lseek(reader, 0, os.SEEK_END)
        writer = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(writer, f"<{_INFO}>{_MARK}\n".encode())
        finally:
            os.close(writer)
        while True:
            with contextlib.suppress(BrokenPipeError):
                message = parse(os.read(reader, _RECORD_BYTES))
                if message.text.decode(errors="replace") == _MARK:
                    return message.sequence
    finally:
        os.close(reader)
