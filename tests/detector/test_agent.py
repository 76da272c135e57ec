"""The loop, with a clock that the tests move and a kernel log whose answers they write; all else is real."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

import pytest

from detector.source import BATCH, KmsgError
from tests.detector.kernel import record
from tests.detector.process import neuron_line, until
from tests.detector.rig import DMA, OURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.detector.rig import Rig


# Seeing and not seeing.


def test_a_lost_log_is_unknown_after_thirty_seconds_and_not_before(rig: Rig, told: Callable[[], list[object]]) -> None:
    rig.answers.left = [errno.EIO] * 1_000
    rig.goes_on(29.9)
    assert rig.condition.status == "False"
    assert not rig.sight.is_up
    rig.goes_on(0.2)
    assert (rig.condition.status, rig.condition.reason) == ("Unknown", "DetectorBlind")
    assert "Input/output error" in rig.condition.message
    assert told() == ["DetectorBlind"]


def test_a_fault_stays_true_while_nothing_can_be_read(rig: Rig) -> None:
    rig.reads(record(2, DMA))
    before = rig.condition
    rig.answers.left = [errno.EIO] * 1_000
    rig.goes_on(40)
    assert rig.condition == before
    assert rig.condition.status == "True"


def test_it_sees_again_and_says_so_once(rig: Rig, told: Callable[[], list[object]]) -> None:
    rig.answers.left = [errno.EIO] * 1_000
    rig.goes_on(40)
    rig.answers.left = [record(2)]
    rig.goes_on(6)
    assert (rig.condition.status, rig.condition.reason) == ("False", "NeuronHasNoError")
    assert rig.sight.is_up
    assert told() == ["DetectorBlind", "DetectorSeesAgain"]


def test_a_short_loss_is_not_told_to_anybody(rig: Rig, told: Callable[[], list[object]]) -> None:
    rig.reads(errno.EIO)
    rig.goes_on(5)
    assert rig.sight.is_up
    assert rig.condition.status == "False"
    assert told() == []


def test_a_line_written_while_it_could_not_read_is_found_with_its_own_time(rig: Rig) -> None:
    rig.reads(errno.EIO)
    written = rig.clock.now()
    stamp = int(rig.clock.seconds * 1e6)
    rig.clock.seconds += 20
    rig.reads(record(1), record(2, DMA, stamp_us=stamp))
    (fault,) = rig.faults
    assert fault.count == 1
    assert fault.first_at == written


def test_a_log_that_cannot_be_opened_is_tried_a_few_times_a_second_at_most(
    new_rig: Callable[..., Rig], tmp_path: Path
) -> None:
    rig = new_rig(path=tmp_path / "missing")
    with pytest.raises(KmsgError):
        rig.agent.open()
    rig.goes_on(60)
    assert 8 < rig.source.opens < 25
    assert rig.condition.reason == "DetectorBlind"
    (tmp_path / "missing").symlink_to("/dev/null")
    rig.answers.left = [record(1)]
    rig.goes_on(6)
    assert rig.condition.status == "False"


def test_a_log_whose_every_read_fails_is_opened_as_seldom(rig: Rig) -> None:
    rig.answers.left = [errno.EIO] * 1_000
    rig.goes_on(60)
    assert rig.source.opens < 25


def test_a_log_that_ends_is_as_good_as_lost(rig: Rig) -> None:
    rig.answers.left = [b""] * 1_000
    rig.goes_on(31)
    assert rig.condition.reason == "DetectorBlind"
    assert rig.source.opens < 25


def test_a_flood_of_overruns_opens_nothing_again(rig: Rig) -> None:
    rig.reads(*[errno.EPIPE] * 2_000, record(9_000, DMA))
    assert rig.source.opens == 1
    assert rig.condition.status == "True"
    assert (rig.source.overruns, rig.source.lost) == (2_000, 8_998)


# What is shown, and when.


def test_nothing_is_shown_until_the_ring_buffer_has_been_read(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig(*(record(number) for number in range(2 * BATCH)), record(2 * BATCH, DMA))
    rig.agent.open()
    rig.agent.step()
    rig.agent.step()
    assert rig.board.why_not_ready() == "the kernel log is still read for the first time"
    rig.agent.step()
    rig.agent.step()
    assert rig.board.why_not_ready() is None
    assert rig.condition.status == "True"


def test_a_flood_from_the_first_second_on_does_not_hide_the_first_view_for_ever(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig(*(record(number) for number in range(150 * BATCH)))
    rig.agent.open()
    rig.goes_on(1.1)
    assert rig.board.why_not_ready() is None
    assert rig.answers.left


def test_many_known_records_do_not_make_an_old_line_a_live_one(new_rig: Callable[..., Rig]) -> None:
    known = 4 * BATCH
    rig = new_rig(*(record(number) for number in range(known + 1)), after=known)
    written = rig.clock.now()
    rig.answers.left.append(record(known + 1, DMA, stamp_us=int(rig.clock.seconds * 1e6)))
    rig.clock.seconds += 100
    rig.agent.open()
    rig.reads()
    assert rig.faults[0].first_at == written


def test_a_live_line_is_as_old_as_its_reading_whatever_the_kernel_clock_says(rig: Rig) -> None:
    rig.reads(record(2, DMA, stamp_us=1))
    assert rig.faults[0].first_at == rig.clock.now()


def test_a_stamp_from_the_future_is_taken_for_now(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig(record(1, DMA, stamp_us=10**15))
    rig.agent.open()
    rig.reads()
    assert rig.faults[0].first_at == rig.clock.now()


def test_the_same_line_again_and_again_tells_people_once_a_minute(rig: Rig, told: Callable[[], list[object]]) -> None:
    rig.reads(*(record(number, DMA) for number in range(2, 5_002)))
    assert told() == ["NeuronHasError_DMA_ERROR"]
    assert rig.faults[0].count == 5_000
    rig.goes_on(61)
    assert told() == ["NeuronHasError_DMA_ERROR"] * 2


def test_a_heartbeat_moves_the_heartbeat_and_nothing_else(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig(record(1), heartbeat_seconds=10.0)
    rig.agent.open()
    rig.reads()
    before = rig.condition
    rig.goes_on(9)
    assert rig.condition == before
    rig.goes_on(2)
    assert rig.condition.last_heartbeat_at > before.last_heartbeat_at
    assert rig.condition.last_transition_at == before.last_transition_at


def test_there_is_no_heartbeat_while_it_is_blind(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig(record(1), heartbeat_seconds=10.0)
    rig.agent.open()
    rig.reads()
    rig.answers.left = [errno.EIO] * 1_000
    rig.goes_on(31)
    before = rig.condition
    rig.goes_on(30)
    assert rig.condition == before


def test_a_heartbeat_of_a_month_does_not_end_the_loop(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig(heartbeat_seconds=30 * 86_400.0)
    rig.agent.open()
    rig.agent.post(lambda _: rig.agent.stop())
    rig.agent.run()
    assert not rig.sight.is_stuck()


# What is kept.


def test_a_new_fault_is_kept_at_once(rig: Rig) -> None:
    rig.reads(record(2, DMA))
    until(lambda: (state := rig.kept()) is not None and state.seq == 2 and state.faults == rig.faults)


def test_counts_are_kept_within_a_second(rig: Rig) -> None:
    rig.reads(record(2, DMA))
    rig.reads(record(3, DMA), record(4, DMA))
    rig.goes_on(1.1)
    until(lambda: (state := rig.kept()) and state.faults and state.faults[0].count == 3 and state.seq == 4)


def test_the_position_is_kept_within_a_minute(rig: Rig) -> None:
    rig.reads(record(2), record(3))
    rig.goes_on(61)
    until(lambda: (state := rig.kept()) and state.seq == 3)


def test_nothing_new_is_nothing_to_write(rig: Rig) -> None:
    rig.goes_on(62)
    until(lambda: rig.keeper.written > 0)
    before = rig.keeper.written
    rig.goes_on(120)
    assert rig.keeper.written == before


def test_the_last_thing_it_does_is_to_keep_its_position(rig: Rig) -> None:
    rig.answers.left = [record(2), record(3)]
    rig.agent.post(lambda _: rig.agent.stop())
    rig.agent.run()
    rig.keeper.close()
    state = rig.kept()
    assert state
    assert state.seq == 3


def test_what_still_waits_to_be_told_is_told_before_the_end(rig: Rig, told: Callable[[], list[object]]) -> None:
    rig.reads(*(record(2 + n, neuron_line("DMA_ERROR", OURS, device=n // 8, core=n % 8)) for n in range(60)))
    assert len(told()) < 30
    rig.agent.stop()
    rig.agent.run()
    assert len(told()) == 60


# What it is asked.


def test_a_change_posted_by_another_thread_is_made_by_the_loop(rig: Rig) -> None:
    made_in: list[str] = []
    thread = threading.Thread(target=lambda: rig.agent.post(lambda _: made_in.append(threading.current_thread().name)))
    thread.start()
    thread.join()
    assert made_in == []
    rig.agent.step()
    assert made_in == [threading.current_thread().name]


def test_stopping_from_another_thread_wakes_a_loop_that_waits(rig: Rig) -> None:
    ended = threading.Thread(target=rig.agent.run)
    ended.start()
    until(lambda: rig.sight.busy_since is None)
    rig.agent.stop()
    ended.join(5)
    assert not ended.is_alive()
