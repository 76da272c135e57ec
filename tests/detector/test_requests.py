"""What operators ask a stand-alone detector for: each request is met, and none wipes what came after it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from detector.health import NOTHING_CLEARED
from tests.detector.kernel import record
from tests.detector.rig import DMA, HANG

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.detector.rig import Rig


def test_a_request_to_clear_is_done_within_thirty_seconds(rig: Rig, told: Callable[[], list[object]]) -> None:
    rig.reads(record(2, DMA), record(3, HANG))
    rig.ask_to_clear("NeuronHasError_DMA_ERROR")
    rig.goes_on(30)
    assert [fault.reason for fault in rig.faults] == ["NeuronHasError_HANG_ON_COLLECTIVES"]
    assert rig.condition.status == "True"
    rig.ask_to_clear("all")
    rig.goes_on(30)
    assert rig.condition.status == "False"
    assert told()[-2:] == ["FaultCleared", "FaultCleared"]


def test_a_request_to_clear_what_is_not_there_changes_nothing_and_is_said(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.reads(record(2, DMA))
    rig.ask_to_clear("NeuronHasError_NONSENSE")
    rig.goes_on(30)
    assert rig.condition.status == "True"
    assert caplog.messages.count(NOTHING_CLEARED) == 1


def test_two_requests_in_a_row_are_both_met(rig: Rig) -> None:
    rig.reads(record(2, DMA), record(3, HANG))
    rig.ask_to_clear("NeuronHasError_DMA_ERROR")
    rig.ask_to_clear("NeuronHasError_HANG_ON_COLLECTIVES")
    rig.goes_on(30)
    assert rig.faults == ()


def test_a_line_between_a_request_and_its_being_met_keeps_the_fault(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.reads(record(2, DMA))
    rig.ask_to_clear("all")
    rig.reads(record(3, DMA))
    rig.goes_on(30)
    assert [fault.count for fault in rig.faults] == [2]
    assert caplog.messages.count(NOTHING_CLEARED) == 1
    rig.ask_to_clear("all")
    rig.goes_on(30)
    assert rig.faults == ()


def test_a_request_of_garbage_keeps_nobody_from_clearing(rig: Rig) -> None:
    rig.reads(record(2, DMA))
    garbage = rig.file.path.parent / "clear-request-0"
    garbage.write_bytes(b"all")
    os.utime(garbage, ns=(2**62, 2**62))
    rig.goes_on(15)
    rig.ask_to_clear("all")
    rig.goes_on(30)
    assert rig.faults == ()


def test_a_cleared_fault_is_not_read_again_out_of_the_ring_buffer(rig: Rig) -> None:
    rig.reads(record(2, DMA))
    rig.ask_to_clear("all")
    rig.goes_on(30)
    rig.reads(errno.EIO)
    rig.answers.left = [record(1), record(2, DMA), record(3)]
    rig.goes_on(6)
    assert rig.source.last == 3
    assert rig.condition.status == "False"
