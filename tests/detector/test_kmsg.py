"""The reader of the kernel log against everything that read() may answer.

/dev/null stands for the device where it is opened; what read() answers is written in the tests.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from detector.kmsg import KmsgReader
from detector.source import BATCH, KmsgError
from tests.detector.kernel import Answers, record

MALFORMED = [b"no semicolon at all\n", b";x\n", b"a,b,c;x\n", b"3,1;x\n", b"\n", b"3,99999999999999999999,1,-;x\n"]


def reader(*answers: bytes | int, after: int | None = None) -> KmsgReader:
    made = KmsgReader("/dev/null", after=after, read=Answers(*answers))
    made.open()
    return made


def counts(made: KmsgReader) -> tuple[int, int, int, int]:
    return made.records, made.lost, made.overruns, made.malformed


def test_nothing_to_read_is_an_empty_batch() -> None:
    made = reader()
    assert made.batch() == []
    assert counts(made) == (0, 0, 0, 0)
    assert made.last is None


def test_a_batch_ends_where_there_is_nothing_more() -> None:
    made = reader(record(7), record(8), errno.EAGAIN, record(9))
    assert made.batch() == [record(7), record(8)]
    assert made.batch() == [record(9)]
    assert (made.records, made.last) == (3, 9)


def test_a_batch_never_grows_beyond_its_limit() -> None:
    made = reader(*(record(number) for number in range(BATCH + 1)))
    assert len(made.batch()) == BATCH
    assert made.batch() == [record(BATCH)]


def test_the_records_before_the_first_one_read_are_not_lost() -> None:
    made = reader(record(20_345), record(20_346))
    made.batch()
    assert made.lost == 0


def test_three_overruns_in_a_row_do_not_end_the_reading() -> None:
    made = reader(record(1), errno.EPIPE, errno.EPIPE, errno.EPIPE, record(50))
    assert made.batch() == [record(1), record(50)]
    assert counts(made) == (2, 48, 3, 0)


def test_a_record_too_long_for_the_buffer_is_one_lost_record() -> None:
    made = reader(record(1), errno.EINVAL, record(3))
    assert made.batch() == [record(1), record(3)]
    assert counts(made) == (2, 1, 0, 0)


def test_a_gap_in_the_numbers_is_lost_to_the_record() -> None:
    made = reader(record(100), errno.EAGAIN, record(180))
    made.batch()
    made.batch()
    assert made.lost == 79


def test_several_gaps_in_one_batch_are_added_up() -> None:
    made = reader(record(100), record(110), record(111), record(120))
    made.batch()
    assert made.lost == 9 + 8


def test_received_and_lost_are_all_that_was_written() -> None:
    made = reader(record(10), errno.EPIPE, record(500), errno.EINVAL, record(502), errno.EAGAIN, record(9_000))
    made.batch()
    made.batch()
    assert made.records + made.lost == 9_000 - 10 + 1


def test_an_unexpected_error_is_told_and_then_the_descriptor_is_closed() -> None:
    made = reader(errno.EIO)
    with pytest.raises(KmsgError, match=r"^/dev/null cannot be read: Input/output error$"):
        made.batch()
    with pytest.raises(KmsgError, match="not open"):
        made.batch()


def test_what_was_read_before_an_error_is_handed_out_first() -> None:
    made = reader(record(1), record(2), errno.EIO, errno.EIO)
    assert made.batch() == [record(1), record(2)]
    with pytest.raises(KmsgError):
        made.batch()
    assert made.last == 2


def test_after_an_error_it_goes_on_with_the_record_after_the_last_one() -> None:
    answers = Answers(record(1), record(2), errno.EAGAIN, errno.EIO, record(1), record(2), record(3), record(4))
    made = KmsgReader("/dev/null", read=answers)
    made.open()
    made.batch()
    with pytest.raises(KmsgError):
        made.batch()
    made.open()
    assert made.batch() == [record(3), record(4)]
    assert counts(made) == (4, 0, 0, 0)


def test_what_was_overwritten_while_it_was_closed_counts_as_lost() -> None:
    answers = Answers(record(1), errno.EIO, errno.EIO, record(40), record(41))
    made = KmsgReader("/dev/null", read=answers)
    made.open()
    made.batch()
    with pytest.raises(KmsgError):
        made.batch()
    made.open()
    assert made.batch() == [record(40), record(41)]
    assert made.lost == 38


def test_end_of_file_tells_that_it_is_no_kernel_log() -> None:
    made = reader(b"")
    with pytest.raises(KmsgError, match="not a kernel log device"):
        made.batch()


def test_end_of_file_after_a_record_hands_out_the_record_first() -> None:
    made = reader(record(1), b"", b"")
    assert made.batch() == [record(1)]
    with pytest.raises(KmsgError, match="end of file"):
        made.batch()


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_malformed_record_is_counted_and_passed_over(malformed: bytes) -> None:
    made = reader(malformed, errno.EAGAIN, record(5))
    assert made.batch() == []
    assert made.batch() == [record(5)]
    assert counts(made) == (1, 0, 0, 1)


def test_malformed_records_between_good_ones_are_passed_over() -> None:
    made = reader(record(1), *MALFORMED, record(2), record(4))
    assert made.batch() == [record(1), record(2), record(4)]
    assert counts(made) == (3, 1, 0, len(MALFORMED))


def test_the_largest_sequence_number_fits() -> None:
    made = reader(record(2**64 - 2), record(2**64 - 1))
    assert len(made.batch()) == 2
    assert (made.last, made.lost) == (2**64 - 1, 0)


def test_an_odd_priority_is_no_error() -> None:
    odd = b"4294967295,1,0,-;x\n"
    made = reader(odd)
    assert made.batch() == [odd]


def test_numbers_that_fall_begin_a_new_log_and_suppress_nothing() -> None:
    made = reader(record(20_000), errno.EAGAIN, record(5), record(6), record(8))
    made.batch()
    assert made.batch() == [record(5), record(6), record(8)]
    assert (made.last, made.lost) == (8, 1)


def test_time_stamps_that_fall_change_nothing() -> None:
    records = [record(1, stamp_us=900), record(2, stamp_us=100)]
    assert reader(*records).batch() == records


def test_a_record_of_2048_bytes_comes_whole() -> None:
    longest = record(1, "a" * 2000)
    longest = longest[:-1].ljust(2047, b"f") + b"\n"
    assert reader(longest).batch() == [longest]


def test_known_records_are_passed_over() -> None:
    made = reader(record(3), record(4), record(5), record(6), after=4)
    assert made.batch() == [record(5), record(6)]
    assert counts(made) == (2, 0, 0, 0)


def test_only_known_records_are_nothing_new() -> None:
    made = reader(record(3), record(4), errno.EAGAIN, record(5), after=4)
    assert made.batch() == []
    assert made.batch() == [record(5)]


def test_an_empty_log_is_nothing_new_either() -> None:
    made = reader(errno.EAGAIN, record(5), after=4)
    assert made.batch() == []
    assert made.batch() == [record(5)]
    assert made.lost == 0


def test_many_batches_of_known_records_are_not_mistaken_for_the_end_of_the_log() -> None:
    known = 5 * BATCH
    made = reader(*(record(number) for number in range(known + 3)), after=known)
    assert made.batch() == [record(known + 1), record(known + 2)]


def test_what_was_overwritten_before_the_start_counts_as_lost() -> None:
    made = reader(record(500), after=100)
    assert made.batch() == [record(500)]
    assert made.lost == 399


def test_a_log_that_ends_before_the_known_number_is_of_another_boot_and_read_from_its_beginning() -> None:
    ring = [record(0), record(1), record(2)]
    made = reader(*ring, errno.EAGAIN, *ring, after=20_000)
    assert made.batch() == ring
    assert counts(made) == (3, 0, 0, 0)
    assert made.last == 2


def test_malformed_records_do_not_keep_it_from_finding_its_place() -> None:
    made = reader(b"garbage\n", record(3), b"garbage\n", record(4), record(5), after=4)
    assert made.batch() == [record(5)]


@pytest.mark.parametrize("after", [None, 4])
def test_a_device_that_gives_nothing_but_garbage_is_as_good_as_lost(after: int | None) -> None:
    made = KmsgReader("/dev/zero", after=after)
    made.open()
    with pytest.raises(KmsgError, match="/dev/zero cannot be read: what it gives are no kernel log records"):
        made.batch()


def test_many_overruns_in_a_row_are_not_mistaken_for_the_end_of_the_log() -> None:
    made = reader(*[errno.EPIPE] * 3 * BATCH, record(9))
    assert made.batch() == [record(9)]
    assert made.overruns == 3 * BATCH


def test_overruns_without_end_do_not_hold_it_for_ever() -> None:
    made = reader(*[errno.EPIPE] * 100 * BATCH)
    assert made.batch() == []
    assert 0 < made.overruns < 100 * BATCH


def test_an_overrun_while_passing_over_known_records_is_counted() -> None:
    made = reader(record(3), errno.EPIPE, record(30), after=4)
    assert made.batch() == [record(30)]
    assert counts(made) == (1, 25, 1, 0)


def test_closing_twice_is_no_error() -> None:
    made = reader()
    made.close()
    made.close()


def test_opening_again_leaves_no_descriptor_behind() -> None:
    made = reader()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        made.open()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    made.close()
