"""A recorded kernel log that grows, shrinks, vanishes and holds whatever files hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from detector.follow import FileReader
from detector.source import BATCH, KmsgError
from tests.detector.kernel import record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.touch()
    return path


def append(log: Path, *parts: bytes) -> None:
    with log.open("ab") as file:
        file.writelines(parts)


def follow(log: Path, *, after: int | None = None) -> FileReader:
    reader = FileReader(str(log), after=after)
    reader.open()
    return reader


def everything(reader: FileReader) -> list[bytes]:
    """Read until there is nothing new, as the loop does."""
    records: list[bytes] = []
    while batch := reader.batch():
        assert len(batch) <= BATCH
        records += batch
    return records


def test_it_is_read_from_its_beginning_and_as_it_grows(log: Path) -> None:
    append(log, record(1), record(2))
    reader = follow(log)
    assert reader.batch() == [record(1), record(2)]
    assert reader.batch() == []
    append(log, record(3))
    assert reader.batch() == [record(3)]
    assert (reader.records, reader.lost, reader.malformed, reader.last) == (3, 0, 0, 3)


def test_an_empty_file_is_nothing_new(log: Path) -> None:
    reader = follow(log)
    assert reader.batch() == []
    assert reader.last is None


def test_half_a_line_is_no_record_until_the_other_half_has_come(log: Path) -> None:
    reader = follow(log)
    append(log, record(1), record(2)[:9])
    assert reader.batch() == [record(1)]
    assert reader.batch() == []
    append(log, record(2)[9:])
    assert reader.batch() == [record(2)]


def test_dictionary_lines_belong_to_the_record_before_them(log: Path) -> None:
    lines = record(1) + b" SUBSYSTEM=pci\n DEVICE=+pci:0000:a0:1e.0\n"
    append(log, lines, record(2))
    assert follow(log).batch() == [lines, record(2)]


def test_a_dictionary_line_without_a_record_is_passed_over(log: Path) -> None:
    append(log, b" SUBSYSTEM=pci\n", record(2))
    assert follow(log).batch() == [record(2)]


@pytest.mark.parametrize(
    "line",
    [b"no semicolon\n", b";x\n", b"a,b,c;x\n", b"3,1;x\n", b"\n", b"3,1,noon,-;x\n", b"\xff\x00\n", b"-1,1,1,-;x\n"],
)
def test_what_is_no_record_is_counted_and_passed_over(log: Path, line: bytes) -> None:
    append(log, record(1), line, record(2))
    reader = follow(log)
    assert everything(reader) == [record(1), record(2)]
    assert (reader.records, reader.malformed, reader.lost) == (2, 1, 0)


def test_more_malformed_lines_than_a_batch_do_not_look_like_the_end(log: Path) -> None:
    append(log, b"[   12.345678] dmesg text\n" * (3 * BATCH), record(1))
    reader = follow(log)
    assert reader.batch() == [record(1)]
    assert reader.malformed == 3 * BATCH


def test_an_endless_line_fills_no_memory(log: Path) -> None:
    reader = follow(log)
    for _ in range(40):
        append(log, b"x" * 65_536)
        assert reader.batch() == []
        assert len(reader._rest) <= 2 * 65_536
    append(log, b"\n", record(1))
    assert everything(reader) == [record(1)]


def test_a_gap_in_the_numbers_is_lost_to_the_record(log: Path) -> None:
    append(log, record(100), record(180))
    reader = follow(log)
    everything(reader)
    assert reader.lost == 79


def test_known_records_are_passed_over(log: Path) -> None:
    append(log, *(record(number) for number in range(3 * BATCH)))
    reader = follow(log, after=3 * BATCH - 2)
    assert reader.batch() == [record(3 * BATCH - 1)]
    assert (reader.records, reader.lost) == (1, 0)


def test_a_quiet_run_keeps_the_position_it_was_started_with(log: Path) -> None:
    append(log, record(1), record(2))
    reader = follow(log, after=2)
    assert reader.last == 2
    assert everything(reader) == []
    assert reader.last == 2
    append(log, record(3))
    assert everything(reader) == [record(3)]
    assert (reader.last, reader.lost) == (3, 0)


def test_a_file_that_ends_before_the_known_number_is_another_recording(log: Path) -> None:
    append(log, record(1), record(2))
    reader = follow(log, after=500)
    assert reader.batch() == [record(1), record(2)]


def test_numbers_that_fall_suppress_nothing(log: Path) -> None:
    append(log, record(20_000), record(5), record(6))
    assert len(everything(follow(log))) == 3


def test_a_file_that_was_emptied_is_read_again_from_its_beginning(log: Path) -> None:
    append(log, record(1), record(2), record(3))
    reader = follow(log)
    everything(reader)
    log.write_bytes(record(1, "new"))
    assert everything(reader) == [record(1, "new")]


def test_a_file_that_was_replaced_is_read_from_its_beginning(log: Path) -> None:
    append(log, record(1), record(2))
    reader = follow(log)
    everything(reader)
    fresh = log.with_name("fresh")
    fresh.write_bytes(record(1, "new"))
    fresh.replace(log)
    assert everything(reader) == [record(1, "new")]


def test_a_file_that_vanished_is_told_and_found_again(log: Path) -> None:
    append(log, record(1))
    reader = follow(log)
    everything(reader)
    log.unlink()
    with pytest.raises(KmsgError, match="No such file"):
        reader.batch()
    with pytest.raises(KmsgError, match="not open"):
        reader.batch()
    with pytest.raises(KmsgError, match="cannot be opened"):
        reader.open()
    append(log, record(1), record(2))
    reader.open()
    assert everything(reader) == [record(2)]


def test_records_not_yet_handed_out_when_it_is_opened_again_come_once(log: Path) -> None:
    numbers = range(2 * BATCH)
    append(log, *(record(number) for number in numbers))
    reader = follow(log)
    first = reader.batch()
    reader.open()
    assert first + everything(reader) == [record(number) for number in numbers]
    assert reader.records == len(numbers)


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "missing"])
def test_only_a_regular_file_is_followed(tmp_path: Path, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with pytest.raises(KmsgError, match=str(tmp_path / kind)):
        follow(tmp_path / kind)


def test_opening_again_leaves_no_descriptor_behind(log: Path) -> None:
    reader = follow(log)
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the names are what is compared
    for _ in range(5):
        reader.open()
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above
    reader.close()
    reader.close()
