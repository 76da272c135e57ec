"""Waking a poll() from elsewhere."""

from __future__ import annotations

import os
import select
import signal
import threading
import time

import pytest

from runtime.wake import Wake


def is_readable(wake: Wake) -> bool:
    poll = select.poll()
    poll.register(wake.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def test_it_sleeps_until_it_is_set() -> None:
    assert not is_readable(Wake())


def test_setting_wakes_and_clearing_puts_to_sleep_again() -> None:
    wake = Wake()
    wake.set()
    assert is_readable(wake)
    wake.clear()
    assert not is_readable(wake)


def test_many_wake_ups_are_taken_back_at_once() -> None:
    wake = Wake()
    for _ in range(10_000):
        wake.set()
    wake.clear()
    assert not is_readable(wake)


def test_clearing_what_is_not_set_does_not_wait() -> None:
    Wake().clear()


def test_a_wake_up_before_the_poll_is_not_missed() -> None:
    wake = Wake()
    thread = threading.Thread(target=wake.set)
    thread.start()
    thread.join()
    assert is_readable(wake)


@pytest.mark.parametrize("way", ["thread", "signal"])
def test_a_poll_without_end_is_woken(way: str) -> None:
    wake = Wake()
    poll = select.poll()
    poll.register(wake.fileno(), select.POLLIN)
    before = signal.signal(signal.SIGUSR1, lambda *_: wake.set())
    try:
        rouse = wake.set if way == "thread" else lambda: os.kill(os.getpid(), signal.SIGUSR1)
        began = time.monotonic()
        threading.Timer(0.05, rouse).start()
        assert poll.poll(10_000)
        assert time.monotonic() - began < 5
    finally:
        signal.signal(signal.SIGUSR1, before)
