"""Nothing is faulty: nothing is asked of Auto Scaling or EC2, one call a minute goes to CloudWatch, no Node is read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from recovery.points import ALWAYS
from recovery.policy import Rules
from tests.aws.surroundings import set_environment
from tests.chain.brain import Brain, TurnedClock
from tests.chain.place import POINTS
from tests.detector.process import until

if TYPE_CHECKING:
    import pytest

    from tests.chain.place import Place

POLLS, SECONDS = 200, 5.0


def test_two_hundred_polls_of_a_healthy_fleet_ask_for_next_to_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, place.aws)
    place.machines_of(place.aws.player.make_group(3), 2)
    clock = TurnedClock()
    brain = Brain(place, Rules(), clock)
    brain.step()
    assert place.ledger()["entries"] == []
    place.since = place.plane.audit_offset()
    for _ in range(POLLS):
        clock.turn(SECONDS)
        brain.step()
        assert brain.controller.snapshot.observations["healthy"] == 2
        until(lambda: brain.points._latest._value is None, what="the points were taken")
    brain.close()

    assert {call.action for call in place.aws.proxy.calls} == {POINTS}
    minutes = POLLS * SECONDS / 60
    assert minutes - 1 <= len(place.aws.proxy.of(POINTS)) <= minutes + 2
    for call in place.aws.proxy.of(POINTS):
        told = {datum["MetricName"]: datum["Values"] for datum in call.parameters["MetricData"]}
        assert told == {key: [0.0] for key in ALWAYS}
    asked = Counter((each.verb, each.uri.partition("?")[0].rpartition("/")[2]) for each in place.asked())
    assert asked.keys() == {
        ("get", "recovery-ledger"),
        ("get", "recovery-control"),
        ("get", "node-problem-detector"),
        ("list", "pods"),
    }
    assert asked["list", "pods"] <= POLLS * SECONDS / 15 + 2
    assert asked["get", "recovery-ledger"] == POLLS
