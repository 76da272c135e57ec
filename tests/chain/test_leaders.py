"""Who leads may change at any time: what was begun goes on, and nothing is done twice."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.chain.place import DMA, SRAM
from tests.detector.process import until

if TYPE_CHECKING:
    from tests.chain.place import Machine, Place

QUICK = {SRAM: {"confirmFor": "1s", "drainTimeout": "0s"}, DMA: {"confirmFor": "1s"}}
GROUP_READ = "autoscaling:DescribeAutoScalingGroups"


def _two(place: Place) -> tuple[Machine, Machine]:
    """Have two machines of a group of ten, of which one may be away at a time, and two replicas."""
    group = place.aws.player.make_group(10, launch_seconds=1.0, terminate_seconds=0.5)
    first, second = place.machines_of(group, 2)
    for _ in range(2):
        place.recovery(policies=QUICK)
    until(lambda: place.leader().metric("observations", "healthy") == 2, seconds=30, what="both are seen")
    return first, second


def _assert_each_was_given_away_once(place: Place, first: Machine, second: Machine) -> None:
    assert place.marked() == [first.instance, second.instance]
    assert {entry["outcome"] for entry in place.entries()} == {"replaced"}
    one, two = first.entry(), second.entry()
    assert two["admitted_at"] >= one["ended_at"], "at no time were both away"
    (group,) = place.aws.player.names()
    left = set(place.aws.player.instances(group))
    assert not left & {first.instance, second.instance}
    assert len(left) == 10


def test_a_leader_that_dies_right_after_its_call_leaves_nothing_open(place: Place) -> None:
    first, second = _two(place)
    leader = place.leader()
    first.break_down("SRAM_UNCORRECTABLE_ERROR")
    second.break_down("DMA_ERROR")
    until(place.marks, seconds=30, what="the first is given away")
    leader.kill()
    if place.marked() == [second.instance]:  # whichever detector was faster
        first, second = second, first
    assert place.marked() == [first.instance]

    heir = place.leader(but=leader)
    until(lambda: first.entry()["outcome"] == "replaced", seconds=20, what="the other replica closes the entry")
    until(lambda: second.entry().get("outcome") == "replaced", seconds=30, what="the group's next node had its turn")
    _assert_each_was_given_away_once(place, first, second)
    assert "admitted" in [line["step"] for line in heir.log("step")]


def test_a_leader_that_was_stopped_in_the_middle_of_a_pass_does_nothing_when_it_goes_on(place: Place) -> None:
    first, second = _two(place)
    leader = place.leader()
    place.aws.proxy.always("slow:0.5", GROUP_READ)
    first.break_down("SRAM_UNCORRECTABLE_ERROR")
    until(lambda: place.aws.proxy.of(GROUP_READ), seconds=30, what="the leader asks about the group")
    leader.process.send_signal(signal.SIGSTOP)
    place.aws.proxy.always(None, GROUP_READ)
    second.break_down("DMA_ERROR")

    place.leader(but=leader)
    until(lambda: first.entry().get("outcome") == "replaced", seconds=30, what="the other replica replaces the first")
    leader.process.send_signal(signal.SIGCONT)
    until(lambda: second.entry().get("outcome") == "replaced", seconds=30, what="and the second")
    until(lambda: leader.metric("leader") == 0, seconds=10, what="it knows that it leads no more")
    _assert_each_was_given_away_once(place, first, second)
    assert not leader.log("step"), "it has taken no step"
