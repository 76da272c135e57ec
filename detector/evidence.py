"""The records around each fault, picked out of a kernel log of any length in one pass. Pure.

Of each reason the first line and the newest ones are kept, with their neighbours: what came just before a fault often
says why. Must hold only what is picked, however long the log is and however often a line repeats.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from detector.details import is_foreign
from detector.parse import ParseError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detector.matcher import Matcher
    from detector.model import Finding

AROUND: Final = 20  # records before and after a fault's line, and at the end of the log
NEWEST: Final = 3  # lines of one reason that are kept beside its first
MOST_LINES: Final = 64  # lines with their neighbours in all; the oldest ones go first


class Verdict(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one rule says about a record, as in `replay --output json`.

    Args:
        condition: None for a temporary rule.
        foreign: the line speaks about another instance, and so does not count.
    """

    reason: str
    condition: str | None
    fault_class: str
    action: str
    rule_set: str
    details: dict[str, str]
    foreign: bool


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    r"""One record of the log.

    Args:
        sequence: its number; where numbers are missing, records were left out or lost.
        stamp_us: kernel time, microseconds since boot.
        facility: 0 kern, 1 user, ...
        level: 0 emerg to 7 debug.
        text: unescaped; bytes that are no UTF-8 are written `\xNN`.
        flags: not `-` for a fragment of a longer line.
        verdicts: empty for a neighbour.
    """

    sequence: int
    stamp_us: int
    facility: int
    level: int
    text: str
    flags: str = "-"
    verdicts: tuple[Verdict, ...] = ()


class _Read(NamedTuple):
    """A raw record, the how-manieth it is, and what the rules say about it."""

    number: int
    record: bytes
    verdicts: tuple[Verdict, ...]


class _Place:
    """A line that rules matched, and its neighbours."""

    def __init__(self, number: int, before: deque[_Read]) -> None:
        self.number = number
        self.records = list(before)
        self.wanted = AROUND + 1  # the line itself, and those behind it


class Evidence:
    """What is picked so far.

    Args:
        matcher: the rules.
        instance: our own id, to tell lines about others; None = unknown.
    """

    def __init__(self, matcher: Matcher, *, instance: str | None) -> None:
        self.records = 0  # read
        self.reasons: dict[str, int] = {}  # lines by reason, those about other instances too
        self._matcher = matcher
        self._instance = instance
        self._recent: deque[_Read] = deque(maxlen=AROUND)
        self._first: dict[str, _Place] = {}
        self._newest: dict[str, deque[_Place]] = {}
        self._filling: list[_Place] = []

    def take(self, records: list[bytes]) -> None:
        """Judge the next records of the log, as a reader gives them."""
        said: dict[bytes, tuple[Verdict, ...]] = {}
        for hit in self._matcher.batch(records):
            verdicts = tuple(_verdict(finding, self._instance) for finding in hit.findings)
            for record in hit.records:
                said[record] = (*said.get(record, ()), *verdicts)
        for record in records:
            read = _Read(self.records, record, said.get(record, ()))
            self.records += 1
            if read.verdicts:
                self._keep(read)
            for place in self._filling:
                place.records.append(read)
                place.wanted -= 1
            self._filling = [place for place in self._filling if place.wanted]
            self._recent.append(read)

    def lines(self) -> Iterator[Line]:
        """Give what was picked in its order, each record once, and the end of the log."""
        picked = {read.number: read for place in self._places() for read in place.records}
        picked |= {read.number: read for read in self._recent}
        for number in sorted(picked):
            yield from _line(picked[number])

    def _keep(self, read: _Read) -> None:
        place = _Place(read.number, self._recent)
        self._filling.append(place)
        for reason in dict.fromkeys(verdict.reason for verdict in read.verdicts):
            if reason in self.reasons:
                self._newest.setdefault(reason, deque(maxlen=NEWEST)).append(place)
            else:
                self._first[reason] = place
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self._first) + sum(map(len, self._newest.values())) > MOST_LINES:
            self._forget()

    def _forget(self) -> None:
        """Let go of the oldest lines beyond the number that is kept."""
        kept = set(sorted(self._places(), key=lambda place: place.number)[-MOST_LINES:])
        self._first = {reason: place for reason, place in self._first.items() if place in kept}
        for reason, newest in self._newest.items():
            self._newest[reason] = deque((place for place in newest if place in kept), maxlen=NEWEST)

    def _places(self) -> set[_Place]:
        return {*self._first.values(), *(place for newest in self._newest.values() for place in newest)}


def _line(read: _Read) -> Iterator[Line]:
    try:
        message = parse(read.record)
    except ParseError:
        return  # the reader's count of malformed records tells of it
    yield Line(
        sequence=message.sequence,
        stamp_us=message.timestamp_us,
        facility=message.facility,
        level=message.level,
        text=message.text.decode("utf-8", "backslashreplace"),
        flags=message.flags,
        verdicts=read.verdicts,
    )


def _verdict(finding: Finding, instance: str | None) -> Verdict:
    rule = finding.rule
    return Verdict(
        reason=rule.reason,
        condition=rule.condition,
        fault_class=rule.fault_class,
        action=rule.action,
        rule_set=finding.rule_set,
        details=finding.details,
        foreign=is_foreign(finding.details, instance),
    )
