"""A line of a recorded kernel log, in any of the shapes that people keep, to a KernelMessage. Pure.

Used by `replay` and for the examples in rule files, so that both are judged like the real thing.

Source: util-linux sys-utils/dmesg.c (print_record, options -x, -r, -t, -T, -d, -e, --time-format) and systemd's
journalctl -k (also -o short-monotonic; read 2026-11-29).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from detector.model import KernelMessage
from detector.parse import ParseError, parse, unescape

if TYPE_CHECKING:
    from collections.abc import Iterable

_FACILITIES = ("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_FIRST_LOCAL = 16


def _one_of(names: Iterable[str]) -> str:
    """Write an alternative of names as dmesg -x pads them."""
    return "|".join(f"{name:6}" for name in names)


_STAMPS = (
    r"\[ *\d+\.\d+(?:[<, ]+[+0-9.]+>?)?\]",  # [   12.345678], [  12.3 <    0.0001>]
    r"\[ *\+\d+\.\d+\]",  # [  +0.000012]
    r"\[< *\d+\.\d+>\]",  # [<    0.000012>]
    r"\[[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d\]",  # [Nov29 10:15]
    r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}(?: < *\d+\.\d+>)?\]",  # [Sun Nov 29 10:15:30 2026]
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d+(?:[+-]\d\d:?\d\d|Z)",  # 2026-11-29T10:15:30,123456+00:00
)
_CALLER = r"\[ *[TC]\d+\]"  # [ T4242], of a kernel that tells who printed
_STAMP = rf"(?:{'|'.join(_STAMPS)})(?:{_CALLER})?(?: |$)"
_TAG = r"[\w.-]+ kernel: "  # host kernel:
_SYSLOG = rf"(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[\d:.,Z+-]*) {_TAG}"
_LOCALS = [f"local{number}" for number in range(8)]
_NAMES = rf"(?P<facility>{_one_of([*_FACILITIES, *_LOCALS])}):(?P<level>{_one_of(_LEVELS)}): "  # kern  :err   :
_STAMPED = rf"(?:{_STAMP})+(?:{_CALLER} )?(?:{_TAG})?"
_PREFIX = re.compile(rf"(?:{_SYSLOG})?(?:<(?P<priority>\d{{1,5}})>|{_NAMES})?(?:{_STAMPED}|{_CALLER} )?".encode())


def read_line(line: bytes) -> KernelMessage:
    """Read one line: with a valid header a raw record, else (behind a dmesg or syslog prefix) escaped kernel text.

    Where the prefix tells who wrote the line (`dmesg -x`, `dmesg -r`) that is kept; otherwise it was the kernel.
    """
    try:
        return parse(line)
    except ParseError:
        prefix = _PREFIX.match(line)
        priority, end = (_priority(prefix), prefix.end()) if prefix else (0, 0)
        text = unescape(line[end:])
        return KernelMessage(facility=priority >> 3, level=priority & 7, sequence=0, timestamp_us=0, text=text)


def _priority(prefix: re.Match[bytes]) -> int:
    if prefix["priority"]:
        return int(prefix["priority"])
    if not prefix["facility"]:
        return 0  # a kernel log that tells no writer
    facility, level = prefix["facility"].decode().strip(), prefix["level"].decode().strip()
    number = _FACILITIES.index(facility) if facility in _FACILITIES else _FIRST_LOCAL + _LOCALS.index(facility)
    return number << 3 | _LEVELS.index(level)
