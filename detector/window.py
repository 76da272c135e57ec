"""Patterns that span several records, as node-problem-detector's may. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from detector.parse import ParseError, parse
from detector.patterns import Automaton

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detector.judge import Judge
    from detector.model import Finding, KernelMessage


class Window:
    """The texts of the newest records, joined by newlines, and a rule set that is searched in them.

    Every record is parsed: a set whose patterns cannot cross a line end should not come here.

    Args:
        judge: the rule set; its patterns end where the text ends.
        lines: how many records at the most are searched together.
    """

    def __init__(self, judge: Judge, lines: int) -> None:
        self._judge = judge
        self._exact = Automaton(judge.patterns)
        self._texts: deque[bytes] = deque(maxlen=lines)

    def batch(self, records: list[bytes]) -> Iterator[tuple[bytes, KernelMessage, tuple[Finding, ...]]]:
        """Go through raw records; malformed ones are passed over."""
        for record in records:
            try:
                message = parse(record)
            except ParseError:
                continue
            self._texts.append(message.text)
            if findings := self._search(message, b"\n".join(self._texts)):
                yield record, message, findings

    def judge(self, message: KernelMessage) -> tuple[Finding, ...]:
        """Search one record by itself."""
        return self._search(message, message.text)

    def _search(self, message: KernelMessage, text: bytes) -> tuple[Finding, ...]:
        return tuple(self._judge.findings(message, self._exact.match(text), text))
