"""Patterns that span several records, as node-problem-detector's may. Pure.

Nearly every batch is benign, so it is searched once, joined to the kept texts, with the text anchors of the patterns
dropped; only a batch with a hit is searched again after each record. Must never decide on the loose patterns.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from detector.parse import ParseError, parse
from detector.patterns import Automaton, relax

if TYPE_CHECKING:
    from detector.judge import Judge
    from detector.model import Finding, KernelMessage

# A record that needs no unescaping, and its text: half the price of `parse`, which decides on all others.
_PLAIN = re.compile(rb"\d{1,19},\d{1,19},(\d{1,19})(?:,[^;]*)?;([^\n\\]*)(?:\n|\Z)")


class Window:
    """The texts of the newest records, joined by newlines, and a rule set that is searched in them.

    Costs more than the search of single records: a set whose patterns cannot cross a line end should not come here.

    Args:
        judge: the rule set; its patterns end where the text ends.
        lines: how many records at the most are searched together; before the first ones there are empty lines.
    """

    def __init__(self, judge: Judge, lines: int) -> None:
        self._judge = judge
        self._exact = Automaton(judge.patterns)
        self._loose = Automaton(relax(pattern) for pattern in judge.patterns)
        self._texts = deque([b""] * lines, maxlen=lines)
        self._before_one = b"\n" * (lines - 1)

    def batch(self, records: list[bytes]) -> list[tuple[bytes, KernelMessage, tuple[Finding, ...]]]:
        """Go through raw records, in their order; malformed and too old ones are passed over.

        Returns:
            Each record with which something counts, parsed, and what counts.
        """
        oldest_us = self._judge.oldest_us
        readable = [(record, text) for record in records if (text := _text(record, oldest_us)) is not None]
        texts = [text for _, text in readable]
        if not self._loose.match(b"\n".join([*self._texts, *texts])):
            self._texts.extend(texts)
            return []
        hits = []
        for record, text in readable:
            self._texts.append(text)
            joined = b"\n".join(self._texts)
            if numbers := self._exact.match(joined):
                message = parse(record)
                if findings := self._judge.findings(message, numbers, joined):
                    hits.append((record, message, tuple(findings)))
        return hits

    def judge(self, message: KernelMessage) -> tuple[Finding, ...]:
        """Search one record as if it were the first; what `batch` has seen neither counts nor changes."""
        text = self._before_one + message.text.strip(b" ")
        return tuple(self._judge.findings(message, self._exact.match(text), text))


def _text(record: bytes, oldest_us: int) -> bytes | None:
    """Read the text alone, without the spaces around it; None if the record is malformed or too old."""
    if plain := _PLAIN.match(record):
        return plain[2].strip(b" ") if int(plain[1]) >= oldest_us else None
    try:
        message = parse(record)
    except ParseError:
        return None
    return message.text.strip(b" ") if message.timestamp_us >= oldest_us else None
