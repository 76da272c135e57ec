"""What a PromQL expression asks for: its metrics with the labels that it matches, and the labels that it groups by.

It takes expressions apart into words; whether they are right is for promtool and a real server to say.

Source: prometheus.io/docs/prometheus/latest/querying/{basics,operators} (read 2026-11-30).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_WORD = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"|(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)"
    r"|(?P<number>[0-9][0-9A-Za-z_.]*)"
    r"|(?P<sign>=~|!~|!=|==|>=|<=|[-{}()\[\],=<>+*/%^@.])"
    r"|(?P<blank>\s+|\#[^\n]*)"
    r"|(?P<variable>\$\w+)"  # Grafana's
)
_LISTS = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))
_AGGREGATIONS = frozenset(
    ("sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile")
)
_OTHERS = frozenset(("and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"))


class Asked(NamedTuple):
    """What is asked for.

    Args:
        metrics: each with the labels that its selectors match.
        labels: that it groups or joins by.
    """

    metrics: dict[str, set[str]]
    labels: set[str]


def asked(expression: str) -> Asked:
    """Take an expression apart.

    Raises:
        ValueError: there is something in it that is no word of PromQL.
    """
    words = _words(expression)
    metrics: dict[str, set[str]] = {}
    labels: set[str] = set()
    at = 0
    while at < len(words):
        kind, word = words[at]
        after = words[at + 1][1] if at + 1 < len(words) else ""
        at += 1
        if word == "[":
            at = _end(words, at, "]")
        elif kind != "name" or word in _AGGREGATIONS or word.lower() in _OTHERS:
            continue
        elif word in _LISTS:
            if after == "(":  # group_left may have no list
                end = _end(words, at + 1, ")")
                labels |= {name for _, name in words[at + 1 : end - 1] if name != ","}
                at = end
        elif after != "(":  # else a function
            end = _end(words, at + 1, "}") if after == "{" else at
            metrics.setdefault(word, set()).update(
                name
                for (sort, name), (_, sign) in zip(words[at:end], words[at + 1 : end], strict=False)
                if sort == "name" and sign in ("=", "!=", "=~", "!~")
            )
            at = end
    return Asked(metrics, labels)


def _words(expression: str) -> list[tuple[str, str]]:
    words = []
    at = 0
    while at < len(expression):
        found = _WORD.match(expression, at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"{expression[at:]!r} begins with no word of PromQL")
        if found.lastgroup != "blank":
            words.append((found.lastgroup, found[0]))
        at = found.end()
    return words


def _end(words: list[tuple[str, str]], at: int, closing: str) -> int:
    """Tell where it goes on after the next closing sign."""
    while words[at][1] != closing:
        at += 1
    return at + 1
