"""The API server's time, between its answers and when its clock is set."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from recovery.ledger import KubeLedger
from tests.kubernetes.faults import FaultProxy, says, whole
from tests.kubernetes.recovering import NOW, TurnedClock, rest_to

if TYPE_CHECKING:
    from pathlib import Path


def test_time_goes_on_between_answers_and_steps_back_only_with_the_server(tmp_path: Path) -> None:
    clock = TurnedClock()
    with FaultProxy() as proxy:
        rest = rest_to(proxy.url, tmp_path)
        writer = KubeLedger(rest, "n", clock)

        def answered(seconds: int) -> float:
            date = (NOW + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")
            proxy.will(says(whole(404, Date=date)))
            writer.load()
            assert rest.dated is not None
            rest.dated = rest.dated._replace(monotonic=clock.monotonic())
            return (writer.now() - NOW).total_seconds()

        assert answered(0) == 0
        clock.passed += 0.9
        assert answered(0) == pytest.approx(0.9)
        clock.passed += 0.6
        assert answered(1) == pytest.approx(1.5)
        clock.passed += 60
        assert (writer.now() - NOW).total_seconds() == pytest.approx(61.5)
        assert answered(100) == 100, "set forward"
        assert answered(40) == 40, "set back"
