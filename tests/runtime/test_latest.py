"""A place for the latest value between a quick thread and a slow one."""

from __future__ import annotations

import threading
import time

from runtime.latest import Latest


def test_what_was_put_is_taken_once() -> None:
    place: Latest[int] = Latest()
    place.put(1)
    assert place.take(0) == 1
    assert place.take(0) is None


def test_a_newer_value_takes_the_place_of_an_older_one() -> None:
    place: Latest[int] = Latest()
    place.put(1)
    place.put(2)
    assert place.take(0) == 2
    assert place.take(0) is None


def test_false_values_are_values() -> None:
    place: Latest[int] = Latest()
    place.put(0)
    assert place.take(0) == 0


def test_taking_gives_up_in_time() -> None:
    began = time.monotonic()
    assert Latest[int]().take(0.05) is None
    assert 0.05 <= time.monotonic() - began < 2


def test_taking_waits_for_a_value() -> None:
    place: Latest[int] = Latest()
    threading.Timer(0.05, place.put, [7]).start()
    assert place.take(10) == 7


def test_closing_ends_the_wait_for_a_value() -> None:
    place: Latest[int] = Latest()
    threading.Timer(0.05, place.close).start()
    assert place.take() is None
    assert place.closed


def test_what_is_there_at_the_end_may_still_be_taken() -> None:
    place: Latest[int] = Latest()
    place.put(1)
    place.close()
    assert place.take() == 1
    assert place.take() is None


def test_a_slow_taker_never_gets_an_older_value_after_a_newer_one() -> None:
    place: Latest[int] = Latest()
    taken: list[int] = []

    def take() -> None:
        while (value := place.take()) is not None:
            taken.append(value)

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(20_000):
        place.put(number)
    place.close()
    taker.join(10)
    assert taken == sorted(set(taken))
    assert taken[-1] == 19_999
