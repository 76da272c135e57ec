"""Lines on their way to a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.model import Pending
from detector.tally import MOST_STAMPS, Tally
from tests.detector.builders import finding, rule, threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detector.model import Finding

THREE = rule(threshold=threshold(3, 10))
SECOND = 1_000_000


def seconds(*stamps: float) -> list[int]:
    return [round(stamp * SECOND) for stamp in stamps]


def count(tally: Tally, found: Finding, stamps: Sequence[int]) -> int:
    """Tell how many lines count."""
    return len(tally.add(found, stamps))


@pytest.mark.parametrize(
    ("stamps", "counts"),
    [
        ([0, 1, 2], [0, 0, 3]),
        ([0, 5, 10], [0, 0, 3]),
        ([0, 5, 10.000001], [0, 0, 0]),
        ([0, 1, 20, 21, 22], [0, 0, 0, 0, 3]),
        ([0, 9, 11, 18], [0, 0, 0, 3]),
        ([0, 0, 0, 0, 0, 0, 0], [0, 0, 3, 0, 0, 3, 0]),
        ([5, 4.999, 5.001], [0, 0, 3]),
    ],
)
def test_enough_lines_within_the_window_count(stamps: list[float], counts: list[int]) -> None:
    tally = Tally(limit=9)
    assert [count(tally, finding(THREE), seconds(stamp)) for stamp in stamps] == counts


def test_the_lines_that_count_are_told_and_none_that_had_grown_old() -> None:
    tally = Tally(limit=9)
    assert tally.add(finding(THREE), seconds(0, 20, 21)) == []
    assert tally.add(finding(THREE), seconds(22, 40)) == seconds(20, 21, 22)


def test_lines_of_one_batch_count_as_if_they_came_one_by_one() -> None:
    assert count(Tally(limit=9), finding(THREE), seconds(0, 1, 2, 3, 50, 51, 52)) == 6


def test_devices_and_reasons_are_counted_apart() -> None:
    tally, other = Tally(limit=9), rule(reason="Other", threshold=threshold(3, 10))
    for found in (finding(THREE, nd_id="1"), finding(THREE, nd_id="2"), finding(other, nd_id="1")):
        assert count(tally, found, seconds(0, 1)) == 0
    assert count(tally, finding(THREE, nd_id="2", hostname="h"), seconds(2)) == 3


def test_what_is_under_way_can_be_kept_and_taken_over() -> None:
    first, second = Tally(limit=9), Tally(limit=9)
    assert count(first, finding(THREE, nd_id="1", nc_id="2"), seconds(0, 1)) == 0
    kept = msgspec.json.decode(msgspec.json.encode(first.pending()), type=tuple[Pending, ...])
    assert kept == (Pending(reason="ChipBroken", details={"nc-id": "2", "nd-id": "1"}, stamps_us=(0, SECOND)),)
    second.restore(kept)
    assert count(second, finding(THREE, nc_id="2", nd_id="1"), seconds(2)) == 3
    assert second.pending() == ()


def test_lines_taken_over_grow_old_like_others() -> None:
    tally = Tally(limit=9)
    tally.restore([Pending(reason="ChipBroken", details={}, stamps_us=(0, SECOND))])
    assert count(tally, finding(THREE), seconds(30)) == 0
    assert tally.pending()[0].stamps_us == (30 * SECOND,)


def test_a_threshold_lowered_meanwhile_is_reached_by_the_next_line() -> None:
    tally = Tally(limit=9)
    tally.restore([Pending(reason="ChipBroken", details={}, stamps_us=(0, 1, 2, 3, 4))])
    assert count(tally, finding(THREE), [5]) == 6


def test_too_many_devices_push_out_the_one_whose_last_line_is_oldest() -> None:
    tally = Tally(limit=2)
    for device in ("1", "2", "1", "3"):
        count(tally, finding(THREE, nd_id=device), seconds(0))
    assert [item.details["nd-id"] for item in tally.pending()] == ["1", "3"]


def test_memory_is_bounded_whatever_the_threshold_and_however_many_devices() -> None:
    tally, many = Tally(limit=512), rule(threshold=threshold(10_000, 3600))
    for device in range(600):
        count(tally, finding(many, nd_id=str(device)), range(999))
    kept = [len(item.stamps_us) for item in tally.pending()]
    assert sum(kept) <= MOST_STAMPS
    assert len(kept) == MOST_STAMPS // 999
    for _ in range(9):
        assert count(tally, finding(many, nd_id="599"), range(1000)) == 0
    assert count(tally, finding(many, nd_id="599"), range(1)) == 10_000


def test_one_device_alone_is_never_pushed_out() -> None:
    tally = Tally(limit=512)
    tally.restore([Pending(reason="ChipBroken", details={}, stamps_us=tuple(range(MOST_STAMPS + 1)))])
    assert len(tally.pending()) == 1


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(2, 5), st.integers(1, 9), st.integers(0, 30))
def test_a_restart_in_between_changes_nothing(gaps: list[int], least: int, window: int, restart_after: int) -> None:
    found, stamps, now = finding(rule(threshold=threshold(least, window))), [], 0
    for gap in gaps:
        now += gap * SECOND // 10
        stamps.append(now)
    through, restarted = Tally(limit=9), Tally(limit=9)
    expected = sum(count(through, found, [stamp]) for stamp in stamps)
    before = count(restarted, found, stamps[:restart_after])
    later = Tally(limit=9)
    later.restore(restarted.pending())
    assert before + count(later, found, stamps[restart_after:]) == expected
    assert later.pending() == through.pending()
