"""Reading one record in calm times: the same records and the same counts as reading by the batch."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.kmsg import KmsgReader
from detector.source import KmsgError
from tests.detector.kernel import Answers, record

MALFORMED = b"no header\n"
_ERRORS = st.sampled_from([errno.EPIPE, errno.EINVAL, errno.EAGAIN])


@st.composite
def _answers(draw: st.DrawFn) -> list[bytes | int]:
    """Draw what a kernel may answer: numbers that grow, with gaps, and errors in between."""
    numbers = sorted(draw(st.sets(st.integers(1, 60), max_size=20)))
    answers: list[bytes | int] = [record(number) for number in numbers]
    for error in draw(st.lists(_ERRORS, max_size=10)):
        answers.insert(draw(st.integers(0, len(answers))), error)
    return answers


def reader(*answers: bytes | int) -> tuple[KmsgReader, Answers]:
    source = Answers(*answers)
    made = KmsgReader("/dev/null", read=source)
    made.open()
    return made, source


def counts(made: KmsgReader) -> tuple[int, ...]:
    return made.records, made.lost, made.overruns, made.malformed, made.last or 0


def all_of(made: KmsgReader, source: Answers, *, glances: bool) -> list[bytes]:
    found: list[bytes] = []
    while source.left:
        found += made.glance() if glances else made.batch()
    return found


def test_a_glance_reads_the_next_record_and_no_more() -> None:
    made, source = reader(record(1), errno.EAGAIN, record(2), record(3))
    made.batch()
    assert made.glance() == [record(2)]
    assert source.left == [record(3)]
    assert (made.records, made.last) == (2, 2)


def test_a_glance_at_nothing_is_empty() -> None:
    made, _ = reader(record(1), errno.EAGAIN, errno.EAGAIN)
    made.batch()
    assert made.glance() == []


def test_a_gap_that_a_glance_meets_is_counted() -> None:
    made, _ = reader(record(1), errno.EAGAIN, errno.EPIPE, record(40))
    made.batch()
    assert made.glance() == [record(40)]
    assert (made.lost, made.overruns) == (38, 1)


def test_a_malformed_record_is_counted_and_passed_over() -> None:
    made, _ = reader(record(1), errno.EAGAIN, MALFORMED, record(2))
    made.batch()
    assert made.glance() == [record(2)]
    assert (made.lost, made.malformed, made.records) == (0, 1, 2)


@pytest.mark.parametrize("answer", [errno.EIO, errno.EPERM, b""])
def test_a_descriptor_that_is_lost_is_said_to_be_lost(answer: bytes | int) -> None:
    made, source = reader(record(1), errno.EAGAIN)
    made.batch()
    source.left = [answer] * 2
    with pytest.raises(KmsgError, match="cannot be read"):
        made.glance()


@given(_answers())
def test_glances_find_what_batches_find(answers: list[bytes | int]) -> None:
    by_glance, by_batch = reader(record(0), errno.EAGAIN, *answers), reader(record(0), errno.EAGAIN, *answers)
    assert all_of(*by_glance, glances=True) == all_of(*by_batch, glances=False)
    assert counts(by_glance[0]) == counts(by_batch[0])
