r"""RE2 patterns: how they are compiled, checked, and loosened for the first look at a whole batch. Pure.

All patterns and texts are Latin-1 bytes: under UTF-8 one invalid byte hides a match without a word. Nothing is
compiled with the standard library's `re`, whose backtracking a hostile line could use to stop the reader.

Source: google/re2 re2.h, set.h and syntax (read 2026-11-29); `../docs/benchmarks.md` has the measured traps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import re2

if TYPE_CHECKING:
    from collections.abc import Iterable

# Two automata caches of this size are all the memory that hostile text can make the matcher take.
_SET_BYTES = 2 << 20
_LATIN1: int = cast("Any", re2.Options).Encoding.LATIN1  # google-re2-stubs do not know the enum
_EDGES = ("^", "$", r"\A", r"\z")


class PatternError(ValueError):
    """RE2 refuses the pattern; the message says why."""


def options(max_mem: int = _SET_BYTES) -> re2.Options:
    """Make the options that every pattern of ours is compiled with."""
    chosen = re2.Options()
    chosen.encoding = _LATIN1
    chosen.log_errors = False  # else absl writes to stderr, into the log
    chosen.max_mem = max_mem
    return chosen


def compile_one(pattern: str) -> re2._Regexp[bytes]:
    """Compile a pattern for searching with submatches.

    Raises:
        PatternError: RE2 refuses it, or two groups bear the same name (RE2 lets the second one win).
    """
    if wide := [c for c in pattern if "\x7f" < c <= "\xff"]:  # as a Latin-1 byte it would never match without a word
        written = "".join(f"\\x{byte:02x}" for byte in wide[0].encode("utf-8"))
        raise PatternError(f"{wide[0]!r} takes several bytes in the kernel log; write {written} for it")
    names = group_names(pattern)
    if len(names) != len(set(names)):
        raise PatternError(f"group name used twice: {', '.join(sorted({n for n in names if names.count(n) > 1}))}")
    try:
        return re2.compile(pattern.encode("latin-1"), options())
    except UnicodeEncodeError as error:
        raise PatternError("a pattern may hold only characters up to U+00FF (write \\xNN for bytes)") from error
    except re2.error as error:
        text = error.args[0].decode("latin-1") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise PatternError(text) from error


class Automaton:
    """Patterns compiled together: one pass over a text tells which of them match.

    An re2.Set without patterns, or not compiled, silently matches nothing: one pattern that can never match stands in.

    Args:
        patterns: each already accepted by `compile_one`.

    Raises:
        PatternError: the patterns together need more memory than the automaton may take.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._set = cast("Any", re2.Set.SearchSet(options()))  # google-re2-stubs get Match wrong
        for pattern in list(patterns) or [r"[^\x00-\xff]"]:
            self._set.Add(pattern.encode("latin-1"))
        try:
            self._set.Compile()
        except re2.error as error:
            raise PatternError("the patterns together need more than 2 MiB of automaton") from error
        # The library's own wrapper costs as much as the search itself when it is called only now and then.
        self._match = self._set._set.Match  # noqa: SLF001 - there is no other way around it

    def match(self, text: bytes) -> list[int]:
        """List the numbers of the patterns that match, in no order; [] for none."""
        found: list[int] = self._match(text)
        return found


def group_names(pattern: str) -> list[str]:
    """List the names of the groups, in order, with repetitions."""
    return [token[token.index("<") + 1 : -1] for token in tokens(pattern) if token.startswith("(?") and "<" in token]


def relax(pattern: str) -> str:
    """Loosen a pattern so that it can be searched in many records joined: it finds at least what the strict one finds.

    Text anchors are dropped: without a backslash the raw text equals the text, `;` before and a newline after it are
    non-word bytes like a text edge, and `.` does not cross a newline. A beginning that may match nothing is dropped
    too: a search finds the rest without it, and a hostile text cannot keep all patterns half matched in it.
    """
    parts = ["(?:)" if token in _EDGES else token for token in tokens(pattern)]
    if _changes_flags(parts) or "|" in _at_top(parts):
        return "".join(parts)
    start = 0
    while (after := _after_optional(parts, start)) < len(parts):
        if after == start:
            break
        start = after
    return "".join(parts[start:])


def _at_top(parts: list[str]) -> list[str]:
    depth, top = 0, []
    for part in parts:
        depth -= part == ")"
        if depth == 0:
            top.append(part)
        depth += _opens(part)
    return top


def _opens(part: str) -> bool:
    return part.startswith("(") and part != "(?:)"


def _changes_flags(parts: list[str]) -> bool:
    """Tell whether a group such as `(?i)` changes what the patterns after it mean."""
    return any(part == "(" and parts[at + 1] == "?" and parts[at + 2] != ":" for at, part in enumerate(parts[:-2]))


def _after_optional(parts: list[str], start: int) -> int:
    """Give the place after a piece that may match nothing; `start` itself if there is none such there."""
    if parts[start] == "(?:)" and parts[start + 1 : start + 2] not in (["{"], ["*"], ["+"], ["?"]):
        return start + 1
    if not _opens(parts[start]):
        return start
    end = _closing(parts, start)
    quantifier = parts[end + 1] if end + 1 < len(parts) else ""
    if quantifier in ("?", "*"):
        lazy = parts[end + 2 : end + 3] == ["?"]
        return end + 2 + lazy
    inside = parts[start + 1 : end]
    if inside[:2] == ["?", ":"]:
        inside = inside[2:]
    empty_first = inside[:2] == ["(?:)", "|"] and quantifier not in ("+", "{")
    return end + 1 if empty_first else start


def _closing(parts: list[str], start: int) -> int:
    depth = 0
    for at in range(start, len(parts)):
        depth += _opens(parts[at]) - (parts[at] == ")")
        if depth == 0:
            return at
    return len(parts) - 1


def tokens(pattern: str) -> list[str]:
    r"""Split a pattern into `[...]`, `\Q...\E`, escapes, group openings and single characters."""
    found, at = [], 0
    while at < len(pattern):
        end = _token_end(pattern, at)
        found.append(pattern[at:end])
        at = end
    return found


def _token_end(pattern: str, at: int) -> int:
    if pattern.startswith(r"\Q", at):
        end = pattern.find(r"\E", at)
        return len(pattern) if end < 0 else end + 2
    if pattern.startswith((r"\p{", r"\P{"), at) and (end := pattern.find("}", at)) > 0:  # `\p{^Greek}` is no anchor
        return end + 1
    if pattern[at] == "\\":
        return at + 2
    if pattern[at] == "[":
        return _class_end(pattern, at)
    if pattern.startswith(("(?P<", "(?<"), at) and (end := pattern.find(">", at)) > 0:
        return end + 1
    return at + 1


def _class_end(pattern: str, at: int) -> int:
    end = at + 1
    if pattern.startswith("^", end):
        end += 1
    if pattern.startswith("]", end):  # a first `]` is a member
        end += 1
    while end < len(pattern) and pattern[end] != "]":
        if pattern.startswith("[:", end) and (named := pattern.find(":]", end + 2)) > 0:
            end = named + 2
        else:
            end += 2 if pattern[end] == "\\" else 1
    return end + 1
