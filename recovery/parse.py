r"""Read Prometheus' text format, and OpenMetrics as far as it is the same.

Own code, because client_python's parser takes four times as long (1 ms a page, 0.5 s of every poll of 500 nodes),
passes over duplicate series, and trips over what Prometheus itself takes: a blank before the brace, families in any
order. A page is read whole or not at all: half a page must not pass for a healthy node.

Source: prometheus.io/docs/instrumenting/exposition_formats and prometheus.io/docs/specs/om/open_metrics_spec (read
2026-11-29).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

# `problem_gauge {reason="X",type="NeuronHasError"} 1e+00 1795992678292`; the quantifiers with a second + never give
# back what they took, so that no text takes more than one pass.
_LINE = re.compile(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*+)?[ \t]*+(?:\{((?:[^"{}]++|"(?:[^"\\]|\\.)*+")*+)\}[ \t]*+|(?<=[ \t]))'
    r"([0-9a-zA-Z.+-]++)(?:[ \t]++(-?[0-9.eE+-]++))?+[ \t]*+(?:\#.*+)?+"
)
_LABEL = re.compile(r'[ \t]*+([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"[ \t]*+(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n"}
_END: Final = "# EOF"
_LONGEST_SHOWN = 80


class ParseError(ValueError):
    """The text is no whole page of metrics; the message says where. It says nothing about the node."""


class Series(NamedTuple):
    """One value.

    Args:
        value: any float, NaN too.
        at: the timestamp behind it, Unix seconds; None = the usual case, none.
    """

    name: str
    labels: dict[str, str]
    value: float
    at: float | None


def read_series(text: str, wanted: Collection[str], *, open_metrics: bool = False) -> list[Series]:
    """Read the series of some names; all other lines must be well-formed too.

    Args:
        text: the page.
        wanted: names of series.
        open_metrics: timestamps are seconds, and the page must say where it ends; else they are milliseconds.

    Raises:
        ParseError: a line is malformed, a wanted series stands twice, or the page is cut off.
    """
    lines = text.split("\n")
    if lines[-1] not in ("", _END):
        raise ParseError("the last line has no end")
    found: dict[tuple[str, frozenset[tuple[str, str]]], Series] = {}
    ended = False
    for number, raw in enumerate(lines, 1):
        line = raw.strip(" \t\r")
        if not line:
            continue
        if ended:
            raise ParseError(f"line {number} stands behind the end")
        if line.startswith("#"):
            ended = line == _END
            continue
        series = _series(line, number, wanted, 1.0 if open_metrics else 0.001)
        if series is None:
            continue
        key = (series.name, frozenset(series.labels.items()))
        if key in found:
            raise ParseError(f"line {number}: {series.name} stands twice with the same labels")
        found[key] = series
    if open_metrics and not ended:
        raise ParseError(f"there is no {_END}")
    return list(found.values())


def _series(line: str, number: int, wanted: Collection[str], tick_seconds: float) -> Series | None:
    """Read a line; None if its name is not wanted."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ParseError(f"line {number} is no series: {line[:_LONGEST_SHOWN]!r}")
    name, labels, value, at = match.groups()
    if name not in wanted:
        return None
    try:
        number_read = float(value)
        time_read = float(at) * tick_seconds if at else None
    except ValueError:
        raise ParseError(f"line {number} has no number: {line[:_LONGEST_SHOWN]!r}") from None
    return Series(name, _labels(labels, number) if labels else {}, number_read, time_read)


def _labels(text: str, number: int) -> dict[str, str]:
    labels: dict[str, str] = {}
    text = text.strip(" \t")
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None or match[1] in labels:
            raise ParseError(f"line {number} has malformed labels: {text[:_LONGEST_SHOWN]!r}")
        labels[match[1]] = _ESCAPE.sub(_escaped, match[2]) if "\\" in match[2] else match[2]
        position = match.end()
    return labels


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
