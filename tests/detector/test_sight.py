"""What the detector knows of its own sight."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import pytest

from detector.follow import FileReader
from detector.kmsg import KmsgReader
from detector.sight import Sight
from detector.source import KmsgError
from tests.detector.kernel import Clock

if TYPE_CHECKING:
    from pathlib import Path

LOST = KmsgError("/dev/kmsg cannot be read: Input/output error")


class Watch:
    """A sight of a log that nobody reads, with a clock to move.

    Args:
        source: None = a device.
    """

    def __init__(self, source: KmsgReader | FileReader | None = None) -> None:
        self.clock = Clock()
        self.source = source or KmsgReader("/dev/null")
        self.sight = Sight(self.source, self.clock)

    def seen(self, records: int = 0) -> bool:
        return self.sight.seen(self.clock.seconds, records=records)

    def lost(self) -> bool:
        return self.sight.lost(LOST, self.clock.seconds)


@pytest.fixture
def watch() -> Watch:
    made = Watch()
    made.sight.opened(3)
    return made


def test_it_does_not_see_before_the_log_is_open() -> None:
    assert not Watch().sight.is_up


def test_it_sees_once_the_log_is_open(watch: Watch) -> None:
    assert watch.sight.is_up
    assert watch.sight.last_read_at is None


def test_a_read_without_records_is_a_read_that_works_but_read_nothing(watch: Watch) -> None:
    assert not watch.seen()
    assert watch.sight.is_up
    assert watch.sight.last_read_at is None


def test_a_read_with_records_tells_when(watch: Watch) -> None:
    watch.seen(records=3)
    assert watch.sight.last_read_at == watch.clock.now()


def test_after_a_failure_it_does_not_see_and_says_why(watch: Watch) -> None:
    watch.lost()
    assert not watch.sight.is_up
    assert watch.sight.why_not == str(LOST)
    assert not watch.sight.is_open


def test_opening_alone_is_not_seeing(watch: Watch) -> None:
    watch.lost()
    watch.sight.opened(4)
    assert not watch.sight.is_up
    assert watch.seen()
    assert watch.sight.is_up
    assert watch.sight.why_not is None
    assert not watch.seen()


def test_a_failure_is_logged_once_and_its_end_once(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "chipwarden")
    for _ in range(10):
        watch.lost()
    watch.clock.seconds += 12
    watch.seen()
    assert caplog.messages == ["kernel log cannot be read", "kernel log is read again"]


def test_blindness_begins_thirty_seconds_after_the_first_failure_and_no_later(watch: Watch) -> None:
    began = watch.clock.seconds
    while not watch.lost():
        assert watch.clock.seconds < began + 30
        watch.clock.seconds = watch.sight.next_deadline(watch.clock.seconds)
    assert watch.clock.seconds == began + 30


def test_a_read_that_works_starts_the_thirty_seconds_anew(watch: Watch) -> None:
    watch.lost()
    watch.clock.seconds += 29
    watch.seen()
    watch.lost()
    watch.clock.seconds += 29
    assert not watch.lost()


def test_it_is_opened_again_soon_and_then_ever_more_seldom(watch: Watch) -> None:
    waits = []
    for _ in range(40):
        watch.lost()
        assert not watch.sight.must_reopen(watch.clock.seconds)
        waits.append(watch.sight.next_deadline(watch.clock.seconds) - watch.clock.seconds)
        watch.clock.seconds += waits[-1]
        assert watch.sight.must_reopen(watch.clock.seconds)
    assert waits[:5] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert min(waits) == 0.25
    assert waits[-10:] == [5.0] * 10


def test_a_log_that_opens_but_gives_nothing_does_not_make_it_hurry(watch: Watch) -> None:
    for _ in range(10):
        watch.lost()
        watch.seen()
    watch.lost()
    assert watch.sight.next_deadline(watch.clock.seconds) == watch.clock.seconds + 5


def test_a_log_that_gave_records_is_opened_again_soon(watch: Watch) -> None:
    for _ in range(10):
        watch.lost()
    watch.seen(records=1)
    watch.lost()
    assert watch.sight.next_deadline(watch.clock.seconds) == watch.clock.seconds + 0.25


def test_a_log_lost_in_a_flood_is_opened_again_no_sooner(watch: Watch) -> None:
    watch.source.lost += 7
    watch.seen(records=1)
    watch.clock.seconds += 0.5
    for _ in range(10):
        watch.lost()
        wait = watch.sight.next_deadline(watch.clock.seconds) - watch.clock.seconds
        assert wait >= 0.25
        watch.clock.seconds += wait


def test_a_device_needs_no_looking_at(watch: Watch) -> None:
    assert watch.sight.next_deadline(watch.clock.seconds) == math.inf


def test_a_file_is_looked_at_twenty_times_a_second(tmp_path: Path) -> None:
    watch = Watch(FileReader(str(tmp_path / "kmsg")))
    watch.sight.opened(None)
    assert watch.sight.next_deadline(watch.clock.seconds) == watch.clock.seconds + 0.05


def test_a_loop_that_waits_is_not_stuck(watch: Watch) -> None:
    watch.sight.busy_since = None
    watch.clock.seconds += 3600
    assert not watch.sight.is_stuck()


def test_a_loop_that_does_not_come_round_for_ten_seconds_is_stuck(watch: Watch) -> None:
    watch.sight.busy_since = watch.clock.seconds
    watch.clock.seconds += 9.9
    assert not watch.sight.is_stuck()
    watch.clock.seconds += 0.2
    assert watch.sight.is_stuck()


def test_a_flood_is_logged_once_when_it_is_over_with_its_totals(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "chipwarden")
    for _ in range(1_000):
        watch.source.lost += 7
        watch.source.overruns += 1
        watch.seen(records=1)
        watch.clock.seconds += 0.01
    assert caplog.messages == []
    watch.clock.seconds = watch.sight.next_deadline(watch.clock.seconds)
    watch.seen()
    watch.seen()
    (told,) = caplog.records
    assert told.getMessage() == "kernel log overran the reader"
    assert told.__dict__["fields"] == {"lost": 7_000, "overruns": 1_000, "remedy": "log_buf_len=4M"}
    assert watch.sight.next_deadline(watch.clock.seconds) == math.inf


def test_a_second_flood_is_told_with_its_own_totals(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    for lost in (5, 3):
        watch.source.lost += lost
        watch.seen(records=1)
        watch.clock.seconds += 2
        watch.seen()
    assert [told.__dict__["fields"]["lost"] for told in caplog.records] == [5, 3]
