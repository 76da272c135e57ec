"""Which rules count for which records: benign records are dismissed by the batch, hits are decided one by one. Pure.

Nearly every record is benign, so up to 256 of them are joined and searched once, with the text anchors of the patterns
dropped; only a batch with a hit, and a record with an escaped byte, pays for parsing and the exact patterns. Records
with the same body get one verdict. Must never decide on the loose patterns: they only dismiss.

The measured reasons are in docs/benchmarks.md.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from detector.judge import Judge
from detector.model import Finding, KernelMessage, NpdRuleSet
from detector.parse import ParseError, parse, unescape
from detector.patterns import Automaton, relax
from detector.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from detector.model import RuleSet


# The numbers of a header that surely have 64 bits; `parse` decides on all others.
_SHORT_HEADER = re.compile(rb"(\d{1,19}),\d{1,19},(\d{1,19})(?:,[^;]*)?;")
_BODIES_REMEMBERED = 256  # a fault repeats its line; a body has 1 KB at the most, 8 KB on older kernels


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one batch that say the same thing, and the rules that count for them.

    Args:
        message: the first of them, parsed.
        records: all of them, raw, in their order.
        findings: never empty.
    """

    message: KernelMessage
    records: list[bytes]
    findings: tuple[Finding, ...]

    @property
    def stamps_us(self) -> list[int]:
        """The kernel's time stamp of each record, microseconds since boot."""
        return [int(record.split(b",", 3)[2].partition(b";")[0]) for record in self.records]


class Matcher:
    """Rule sets, compiled.

    Args:
        rule_sets: those to look for.
        kernel_only: refuse lines written by a person or a test.
        started_us: kernel time of the start of the program, microseconds since boot, for the sets that look back only
            a little; None = nothing is too old.

    Raises:
        PatternError: RE2 refuses a pattern.
    """

    def __init__(
        self, rule_sets: Sequence[RuleSet], *, kernel_only: bool = False, started_us: int | None = None
    ) -> None:
        self._judges: list[Judge] = []
        self._windows: list[Window] = []
        self._owners: list[tuple[int, int]] = []  # of each pattern of the automaton: its judge and its place there
        for rule_set in rule_sets:
            judge = Judge(rule_set, kernel_only=kernel_only, started_us=started_us)
            if isinstance(rule_set, NpdRuleSet) and rule_set.buffer_lines > 1:
                self._windows.append(Window(judge, rule_set.buffer_lines))
            else:
                self._owners += [(len(self._judges), place) for place in range(len(judge.patterns))]
                self._judges.append(judge)
        self._oldest_us = sorted({judge.oldest_us for judge in self._judges} - {0})
        self._exact = Automaton(pattern for judge in self._judges for pattern in judge.patterns)
        self._is_wanted = [place < len(self._judges[judge].wanted) for judge, place in self._owners]
        self._verdict = functools.lru_cache(maxsize=_BODIES_REMEMBERED)(self._verdict_on)
        self._loose = Automaton(relax(pattern) for judge in self._judges for pattern in judge.wanted)

    def batch(self, records: list[bytes]) -> list[Hit]:
        """Find what counts in a batch of raw records.

        Args:
            records: at most some hundred, each ending in a newline; malformed ones are passed over.
        """
        joined = b"".join(records)
        suspicious = bool(self._loose.match(joined))
        hits: list[Hit] = []
        if suspicious:
            hits = list(self._decide(records))
        elif b"\\" in joined:  # an escaped byte may hide a match from the loose patterns
            hits = list(self._decide([record for record in records if b"\\" in record]))
        for window in self._windows:
            for record, message, findings in window.batch(records):
                hits.append(Hit(message=message, records=[record], findings=findings))
        return hits

    def judge(self, message: KernelMessage) -> tuple[Finding, ...]:
        """Find the rules that count for one record by itself, in the order of the sets and their rules."""
        findings = self._findings(message, sorted(self._exact.match(message.text)))
        for window in self._windows:
            findings += window.judge(message)
        return findings

    def _decide(self, records: list[bytes]) -> Iterator[Hit]:
        bodies: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for record in records:
            bodies[record.partition(b";")[2]].append(record)
        for body, records_of_body in bodies.items():
            if numbers := self._verdict(body):
                for same in _alike(records_of_body, self._oldest_us):
                    message = parse(same[0])
                    if findings := self._findings(message, numbers):
                        yield Hit(message=message, records=same, findings=findings)

    def _verdict_on(self, body: bytes) -> tuple[int, ...]:
        """List the patterns that match what follows a header; () if all of them only say what to ignore."""
        numbers = self._exact.match(unescape(body.partition(b"\n")[0]))
        return tuple(sorted(numbers)) if any(self._is_wanted[number] for number in numbers) else ()

    def _findings(self, message: KernelMessage, numbers: Iterable[int]) -> tuple[Finding, ...]:
        matching: dict[int, list[int]] = {}
        for number in numbers:
            judge, place = self._owners[number]
            matching.setdefault(judge, []).append(place)
        found: list[Finding] = []
        for judge, places in matching.items():
            found += self._judges[judge].findings(message, places, message.text)
        return tuple(found)


def _alike(records: list[bytes], oldest_us: list[int]) -> Iterable[list[bytes]]:
    """Part well-formed records of one body by what decides beside it, in the order of the first of each.

    That is the priority, which tells who wrote them, and for which rule sets (`oldest_us`, ascending) they are too old.
    """
    headers = list(map(_SHORT_HEADER.match, records))
    if not oldest_us and None not in headers and len({header[1] for header in headers if header}) == 1:
        return [records]
    groups: defaultdict[tuple[bytes, int], list[bytes]] = defaultdict(list)
    for record, header in zip(records, headers, strict=True):
        if header is not None:
            priority, stamp = header.groups()
        elif _is_well_formed(record):  # a number of 20 digits may still be one of 64 bits
            priority, _, stamp = record.partition(b";")[0].split(b",")[:3]
        else:
            continue
        groups[priority, bisect(oldest_us, int(stamp)) if oldest_us else 0].append(record)
    return groups.values()


def _is_well_formed(record: bytes) -> bool:
    try:
        parse(record)
    except ParseError:
        return False
    return True
