"""`inject`: write a realistic fault line into the kernel log, and make sure that it arrived.

An edge. A write to /dev/kmsg succeeds even when the kernel's rate limit drops the line, so the lines are read back.

Source: torvalds/linux Documentation/ABI/testing/dev-kmsg and kernel/printk/printk.c, devkmsg_write (read 2026-11-29).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import stat
import sys
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from detector.follow import FileReader
from detector.kmsg import KmsgReader
from detector.lines import read_line
from detector.model import KernelMessage, Rule
from detector.parse import parse, to_record
from detector.source import KmsgError
from runtime.identity import instance_id
from runtime.layers import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_LONGEST_BYTES = 976  # what the oldest kernels in use take in one write
_PRIORITY = b"<3>"  # err; the kernel makes it facility user
_ARRIVES_SECONDS = 2.0
_LONGEST_ANSWER_BYTES = 1 << 20
_CHUNK = 200  # lines written before some are read back, so that the ring buffer cannot overrun the check
_NUMBERS = ("nd-id", "nc-id")  # fields that count devices and cores
_FIELD = r"(?<![\w-]){name}=[^\s,;]+"


class InjectError(Exception):
    """The lines could not be written, or not all arrived. It says nothing about the detector."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to inject.

    Args:
        rule: whose first example is written.
        fields: `key=value` fields to put into a Neuron line.
        count: how many lines.
        rate: lines per second; None = as fast as it goes.
        kmsg: the device, or a file that a detector follows.
    """

    rule: Rule
    fields: dict[str, str]
    count: int
    rate: float | None
    kmsg: str


def inject(order: Order) -> str:
    """Write the lines and wait until they have arrived; return the text of one.

    Raises:
        InjectError: one sentence: how many arrived, and what to do.
        SettingsError: there is no such device or core.
    """
    for name in _NUMBERS:
        if order.fields.get(name, "").startswith("-"):
            raise SettingsError(f"{name}: {order.fields[name]} is no device or core (allowed: 0 and more)")
    text = line_of(order.rule, order.fields)
    if len(_PRIORITY + text) + 1 > _LONGEST_BYTES:
        raise InjectError(f"the line has {len(text)} bytes, the kernel takes {_LONGEST_BYTES} in one write")
    try:
        follows = stat.S_ISREG(Path(order.kmsg).stat().st_mode)
        arrived = _into_file(order, text) if follows else _into_device(order, text)
    except (OSError, KmsgError) as error:
        raise InjectError(f"{order.kmsg}: {error.strerror if isinstance(error, OSError) else error}") from error
    if arrived < order.count:
        raise InjectError(
            f"only {arrived} of {order.count} lines arrived: the kernel's rate limit drops the others "
            "(`sysctl kernel.printk_devkmsg=on` lifts it until the next boot)"
        )
    return text.decode("utf-8", "replace")


def line_of(rule: Rule, fields: Mapping[str, str]) -> bytes:
    """Make a line that the rule matches out of its first example.

    Raises:
        InjectError: the rule has no example.
    """
    if not rule.examples.match:
        raise InjectError(f"rule {rule.reason} has no example of a line to write")
    text = read_line(rule.examples.match[0].encode()).text.decode("utf-8", "replace")
    if "NEURON_HW_ERR=" in text:
        for name, value in fields.items():
            before, found, after = _split_at(_FIELD.format(name=re.escape(name)), text)
            text = f"{before}{name}={value}{after}" if found else f"{text} {name}={value}"
    return text.encode("utf-8", "surrogateescape")


def _split_at(pattern: str, text: str) -> tuple[str, str, str]:
    """Split a text at the first match, as str.partition does."""
    found = re.search(pattern, text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def fields_of_this_machine(detector_url: str, setting: str) -> dict[str, str]:
    """Tell whose line it is to be: the running detector's instance, else what this machine knows of itself.

    Where no detector answers it says so on standard error, for a line in the log proves nothing then.
    """
    page = _conditions(detector_url)
    if page is None:
        print(f"no detector answers at {detector_url}: nobody may see this line", file=sys.stderr)
    found = (page or {}).get("instance")
    instance = setting or (found if isinstance(found, str) else "") or instance_id(None).instance
    fields = {"hostname": socket.gethostname()}
    return {"instance-id": instance} | fields if instance else fields


def _conditions(detector_url: str) -> dict[str, Any] | None:
    """Read a running detector's /conditions; None if there is no detector."""
    with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(detector_url).netloc, timeout=2.0)
        with contextlib.closing(connection):
            connection.request("GET", "/conditions")
            answer = json.loads(connection.getresponse().read(_LONGEST_ANSWER_BYTES))
        return answer if isinstance(answer, dict) else None
    return None


def _into_device(order: Order, text: bytes) -> int:
    reader = KmsgReader(order.kmsg)
    fd = reader.open()
    os.lseek(fd, 0, os.SEEK_END)
    arrived = 0
    out = os.open(order.kmsg, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for written in _paced(order):
            os.write(out, _PRIORITY + text + b"\n")
            if written % _CHUNK == 0:
                arrived += _count(reader, text)
        deadline = time.monotonic() + _ARRIVES_SECONDS
        while arrived < order.count and time.monotonic() < deadline:
            arrived += _count(reader, text) or _pause()
    finally:
        os.close(out)
        reader.close()
    return arrived


def _count(reader: KmsgReader | FileReader, text: bytes) -> int:
    found = 0
    while records := reader.batch():
        found += sum(parse(record).text == text for record in records)
    return found


def _pause() -> int:
    time.sleep(0.005)
    return 0


def _into_file(order: Order, text: bytes) -> int:
    """Append raw records, numbered on from the last one in the file, and read them back."""
    reader = FileReader(order.kmsg)
    reader.open()
    while reader.batch():
        pass
    first = 0 if reader.last is None else reader.last + 1
    with Path(order.kmsg).open("ab+") as file:
        if file.seek(0, os.SEEK_END) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            file.write(b"\n")  # somebody's half a line must not swallow ours
        for written in _paced(order):
            message = KernelMessage(
                facility=1,
                level=3,
                sequence=first + written - 1,
                timestamp_us=int(time.monotonic() * 1_000_000),
                text=text,
            )
            file.write(to_record(message))
            file.flush()
    arrived = _count(reader, text)
    reader.close()
    return arrived


def _paced(order: Order) -> Iterator[int]:
    """Count the lines from 1 at the rate asked for; on a terminal, show how far it is."""
    start = time.monotonic()
    for number in range(1, order.count + 1):
        if order.rate:
            time.sleep(max(0.0, start + (number - 1) / order.rate - time.monotonic()))
        yield number
        if sys.stderr.isatty() and order.count > 1 and (number % 100 == 0 or number == order.count):
            print(f"\r{number} of {order.count} lines", end="\n" if number == order.count else "", file=sys.stderr)
