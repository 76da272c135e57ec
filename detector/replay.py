"""`replay`: a recorded kernel log through the rules, line by line, to see what the detector would have said."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from detector.details import is_foreign, printable
from detector.lines import read_line
from detector.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detector.model import Finding
    from detector.rules import Catalog

_LONGEST_LINE_BYTES = 1 << 16
_LONGEST_TEXT = 1024
_RAW_RECORD = re.compile(rb"\d+,\d+,\d+[,;]")
_DICTIONARY_LINE = re.compile(rb" [A-Z_]+=")
_COLOURS = {True: "\033[31m", False: "\033[33m"}


class ReplayError(Exception):
    """The recorded log cannot be read to its end. It says nothing about the lines that have been judged."""


class Match(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One rule that counts for one line of the input.

    Args:
        line: number of the line, from 1.
        condition: None for a temporary rule.
    """

    line: int
    reason: str
    condition: str | None
    fault_class: str
    action: str
    rule_set: str
    details: dict[str, str]
    text: str


def replay(stream: BinaryIO, catalog: Catalog, *, kernel_only: bool, instance: str | None, as_json: bool) -> int:
    """Judge each line by itself and print what matches.

    Args:
        stream: raw records or dmesg text.
        catalog: the rules.
        kernel_only: refuse lines not written by the kernel.
        instance: lines of other instances do not count; None = all lines count.
        as_json: one object a line instead of a table.

    Returns:
        1 if any line sets a condition, else 0.

    Raises:
        ReplayError: the log cannot be read to its end.
    """
    lines = 0
    found: list[bool] = []
    matcher = Matcher(catalog.rule_sets, kernel_only=kernel_only)
    for number, line in _lines(stream):
        lines = number
        message = read_line(line)
        for finding in matcher.judge(message):
            if is_foreign(finding.details, instance):
                continue
            match = _match(number, finding, message.text)
            found.append(match.condition is not None)
            print(msgspec.json.encode(match).decode() if as_json else _row(match))
    if not as_json:
        print(f"{lines} lines, {len(found)} matches, {sum(found)} of them with a condition", file=sys.stderr)
    return int(any(found))


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number the lines; the dictionary lines of a raw record belong to it and are passed over."""
    number, after_raw_record = 0, False
    while line := _next_line(stream):
        number += 1
        if after_raw_record and _DICTIONARY_LINE.match(line):
            continue
        after_raw_record = _RAW_RECORD.match(line) is not None
        yield number, line.rstrip(b"\r\n")


def _next_line(stream: BinaryIO) -> bytes:
    try:
        return stream.readline(_LONGEST_LINE_BYTES)
    except OSError as error:
        raise ReplayError(f"cannot be read: {error.strerror}") from error


def _match(number: int, finding: Finding, text: bytes) -> Match:
    rule = finding.rule
    return Match(
        line=number,
        reason=rule.reason,
        condition=rule.condition,
        fault_class=rule.fault_class,
        action=rule.action,
        rule_set=finding.rule_set,
        details=finding.details,
        text=printable(text, _LONGEST_TEXT),
    )


def _row(match: Match) -> str:
    where = " ".join(f"{name}={value}" for name, value in match.details.items())
    verdict = f"{match.condition}=True ({match.fault_class}, {match.action})" if match.condition else "Event only"
    row = f"{match.line:>6}  {match.reason}  {verdict}  {where}\n        {match.text}"
    if sys.stdout is not None and sys.stdout.isatty():
        return f"{_COLOURS[match.condition is not None]}{row}\033[0m"
    return row
