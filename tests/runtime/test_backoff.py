"""Waiting grows with failures, differs from machine to machine, and does as the server asks."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from runtime.backoff import FIRST_SECONDS, LONGEST_SECONDS, Lane


def _lane(seed: int = 1, pace_seconds: float = 0.0) -> Lane:
    return Lane(pace_seconds=pace_seconds, chance=random.Random(seed))  # noqa: S311 - not a secret


def test_the_first_request_waits_for_nothing() -> None:
    assert _lane().not_before == 0


def test_a_success_is_followed_by_the_pace() -> None:
    lane = _lane(pace_seconds=1.0)
    lane.succeeded(100.0)
    assert lane.not_before == 101.0


def test_waits_grow_to_the_longest_and_stay_there() -> None:
    lane = _lane()
    waits = [lane.failed(0.0) for _ in range(2000)]
    assert FIRST_SECONDS / 2 <= waits[0] <= FIRST_SECONDS
    assert all(FIRST_SECONDS * 2**n / 2 <= wait <= FIRST_SECONDS * 2**n for n, wait in enumerate(waits[:6]))
    assert all(LONGEST_SECONDS / 2 <= wait <= LONGEST_SECONDS for wait in waits[10:])


def test_a_success_forgets_the_failures() -> None:
    lane = _lane()
    for _ in range(10):
        lane.failed(0.0)
    lane.succeeded(0.0)
    assert lane.failures == 0
    assert lane.failed(0.0) <= FIRST_SECONDS


@given(st.integers(0, 40), st.floats(0, 300), st.integers())
def test_no_wait_is_shorter_than_the_server_asks(failures: int, asked: float, seed: int) -> None:
    lane = _lane(seed)
    for _ in range(failures):
        lane.failed(0.0)
    wait = lane.failed(50.0, asked)
    assert asked <= wait <= max(LONGEST_SECONDS, asked * 1.25)
    assert lane.not_before == 50.0 + wait


def test_machines_that_fail_together_do_not_come_back_together() -> None:
    waits = {round(_lane(seed).failed(0.0, 10.0), 1) for seed in range(200)}
    assert len(waits) > 15
