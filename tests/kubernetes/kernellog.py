"""The kernel log of the machine, as the tests of a whole node use it: written to, and emptied as a reboot does.

It must not read records for a test: whether a line arrived is the detector's to say.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_KMSG = Path("/dev/kmsg")
_RATE_LIMIT = Path("/proc/sys/kernel/printk_devkmsg")
_RECORD_BYTES = 8192
# Level debug: no console has to print it.
_FILLER = b"<7>chipwarden test: filler " + b"." * 900 + b"\n"
_BURST = 100


def neuron_line(code: str, instance: str) -> str:
    """Return what the Neuron driver prints."""
    return f"NEURON_HW_ERR={code} instance-id={instance} hostname=node-1 nd-id=11 nc-id=1 serial-num=1a2b action=NONE"


def write(line: str) -> None:
    """Write a line as a person does: facility user."""
    with _not_limited(), _KMSG.open("wb", buffering=0) as device:
        device.write(f"<3>{line}\n".encode())


def empty() -> None:
    """Push everything that is in the log out of it."""
    with _not_limited(), _KMSG.open("wb", buffering=0) as device, _reader() as end:
        os.lseek(end, 0, os.SEEK_END)
        device.write(_FILLER)
        newest = _sequence(end)
        while True:
            with _reader() as start:
                if _sequence(start) >= newest:
                    return
            for _ in range(_BURST):
                device.write(_FILLER)


@contextlib.contextmanager
def _reader() -> Iterator[int]:
    """Open the log at its oldest record."""
    descriptor = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sequence(descriptor: int) -> int:
    """Read the next record's sequence number: the second field of "prefix,sequence,time,flags;text"."""
    while True:
        with contextlib.suppress(BrokenPipeError):  # overwritten while it was read; the next one is taken
            return int(os.read(descriptor, _RECORD_BYTES).split(b",", 2)[1])


@contextlib.contextmanager
def _not_limited() -> Iterator[None]:
    """Lift the rate limit, which drops lines without a word; the kernel takes the setting only with a newline."""
    before = _RATE_LIMIT.read_text()
    _RATE_LIMIT.write_text("on\n")
    try:
        yield
    finally:
        _RATE_LIMIT.write_text(before)
