"""When announcements are told: soon, but not all at once and not again and again."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from detector.herald import BURST, PACE_SECONDS, REPEAT_SECONDS, Herald
from detector.model import Announcement
from tests.detector.builders import at


def news(key: str, count: int = 1) -> Announcement:
    return Announcement(reason="ChipBroken", message=key, warning=True, key=key, count=count, at=at(0))


def keys(announcements: list[Announcement]) -> list[str]:
    return [announcement.key for announcement in announcements]


def test_a_new_announcement_is_told_at_once_and_only_once() -> None:
    herald = Herald()
    assert herald.next_due(0) is None
    herald.offer([news("a")])
    assert herald.next_due(0) == 0
    assert herald.due(0) == [news("a")]
    assert herald.due(REPEAT_SECONDS * 9) == []
    assert herald.next_due(0) is None


def test_at_the_end_nothing_that_waits_is_left_untold() -> None:
    herald = Herald()
    herald.offer(news(str(number)) for number in range(BURST + 40))
    told = herald.due(0)
    herald.offer([news("0", count=9)])
    assert keys(told + herald.rest()) == [*(str(number) for number in range(BURST + 40)), "0"]
    assert (herald.rest(), herald.next_due(0)) == ([], None)


def test_a_growing_count_is_told_once_a_minute_with_the_newest_number() -> None:
    herald = Herald()
    told = []
    for second in range(180):
        herald.offer([news("a", count=second + 1)])
        told += [(second, announcement.count) for announcement in herald.due(second)]
    assert told == [(0, 1), (60, 61), (120, 121)]


def test_what_was_held_back_is_told_when_it_is_due() -> None:
    herald = Herald()
    herald.offer([news("a")])
    herald.due(0)
    herald.offer([news("a", 2)])
    assert herald.next_due(1) == REPEAT_SECONDS
    assert herald.due(REPEAT_SECONDS - 0.1) == []
    assert herald.due(REPEAT_SECONDS) == [news("a", 2)]


def test_a_new_announcement_does_not_wait_behind_one_that_is_not_due() -> None:
    herald = Herald()
    herald.offer([news("a")])
    herald.due(0)
    herald.offer([news("a", 2), news("b")])
    assert herald.next_due(1) == 1
    assert keys(herald.due(1)) == ["b"]


def test_a_storm_is_told_in_a_burst_and_then_at_a_walking_pace() -> None:
    herald = Herald()
    herald.offer([news(str(n)) for n in range(30)])
    assert keys(herald.due(0)) == [str(n) for n in range(BURST)]
    assert herald.next_due(0) == PACE_SECONDS
    assert herald.due(0.5) == []
    assert herald.next_due(0.5) == PACE_SECONDS
    assert [keys(herald.due(second)) for second in range(1, 12)] == [*([str(n)] for n in range(20, 30)), []]


def test_the_burst_comes_back_after_a_quiet_time() -> None:
    herald = Herald()
    herald.offer([news(f"a{n}") for n in range(BURST)])
    herald.due(0)
    herald.offer([news(f"b{n}") for n in range(BURST + 9)])
    assert len(herald.due(1000)) == BURST


def test_nothing_of_a_storm_is_lost() -> None:
    herald, told = Herald(), []
    for n in range(1500):
        herald.offer([news(str(n))])
        herald.offer([news(str(n), 2)])
    for second in range(1500):
        told += herald.due(second)
    assert [(announcement.key, announcement.count) for announcement in told] == [(str(n), 2) for n in range(1500)]


def test_memory_stays_bounded_in_any_storm() -> None:
    herald = Herald()
    for n in range(10_000):
        herald.offer([news(str(n))])
        herald.due(float(n))
    herald.offer(news(f"more {n}") for n in range(10_000))
    assert len(herald._told) <= 2048
    assert len(herald._waiting) <= 2048


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abcdefgh")), max_size=150))
def test_every_key_is_told_in_the_end_and_never_twice_within_a_minute(steps: list[tuple[int, str]]) -> None:
    herald, second, newest, told = Herald(), 0, dict[str, int](), list[tuple[int, Announcement]]()
    for gap, key in steps:
        second += gap
        newest[key] = newest.get(key, 0) + 1
        herald.offer([news(key, newest[key])])
        told += [(second, announcement) for announcement in herald.due(second)]
    while (due := herald.next_due(second)) is not None:
        second = max(second + 1, math.ceil(due))
        now_due = herald.due(second)
        assert now_due, "next_due must not tell a time at which nothing is due"
        told += [(second, announcement) for announcement in now_due]
    for key, count in newest.items():
        times = [(when, announcement.count) for when, announcement in told if announcement.key == key]
        assert times[-1][1] == count
        assert all(later[0] - earlier[0] >= REPEAT_SECONDS for earlier, later in itertools.pairwise(times))
