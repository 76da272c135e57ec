"""A line of a recorded kernel log, in any of the shapes that people keep, to a KernelMessage. Pure.

Used by `replay` and for the examples in rule files, so that both are judged like the real thing.

Source: util-linux sys-utils/dmesg.c (print_record, options -x, -r, -T, -d, -e, --time-format) and systemd's
journalctl -k (read 2026-11-29).
"""

from __future__ import annotations

import re

from detector.model import KernelMessage
from detector.parse import ParseError, parse, unescape

_FACILITIES = ("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_PREFIX = re.compile(
    rb"^(?:<(?P<priority>\d{1,5})>|(?P<facility>[a-z0-9]+) *:(?P<level>[a-z]+) *: )?"
    rb"(?:"
    rb"\[ *\d+\.\d+(?:[<, ]+[+0-9.]+>?)?\]"  # [   12.345678], [  12.3 <    0.0001>]
    rb"|\[ *\+\d+\.\d+\]"  # [  +0.000012]
    rb"|\[[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d\]"  # [Nov29 10:15]
    rb"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]"  # [Sun Nov 29 10:15:30 2026]
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d+(?:[+-]\d\d:?\d\d|Z)"  # 2026-11-29T10:15:30,123456+00:00
    rb")"
    rb"(?:\[ *[TC]\d+\])?(?: |$)"
    rb"|^<(?P<bare>\d{1,5})>(?! *\[)"
    rb"|^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:[+-]\d\d:?\d\d|Z)) "
    rb"[\w.-]+ kernel: (?:\[ *\d+\.\d+\] ?)?"  # Nov 29 10:15:30 host kernel: [12.3]
)


def read_line(line: bytes) -> KernelMessage:
    """Read one line: with a valid header a raw record, else (behind a dmesg or syslog prefix) escaped kernel text.

    Where the prefix tells who wrote the line (`dmesg -x`, `dmesg -r`) that is kept; otherwise it was the kernel.
    """
    try:
        return parse(line)
    except ParseError:
        prefix = _PREFIX.match(line)
        priority = _priority(prefix) if prefix else 0
        text = unescape(line[prefix.end() :] if prefix else line)
        return KernelMessage(facility=priority >> 3, level=priority & 7, sequence=0, timestamp_us=0, text=text)


def _priority(prefix: re.Match[bytes]) -> int:
    number = prefix["priority"] or prefix["bare"]
    if number:
        return int(number)
    names = (prefix["facility"] or b"kern").decode(), (prefix["level"] or b"emerg").decode()
    facility = _FACILITIES.index(names[0]) if names[0] in _FACILITIES else len(_FACILITIES)
    return facility << 3 | (_LEVELS.index(names[1]) if names[1] in _LEVELS else 0)
