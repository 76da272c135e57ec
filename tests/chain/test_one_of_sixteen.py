"""One chip dies, and every other worker of its job prints that it hangs: the one is replaced, the others are left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.chain.place import DMA, HANG, points
from tests.detector.process import until

if TYPE_CHECKING:
    from tests.chain.place import Place


def test_of_sixteen_nodes_the_one_with_the_dead_chip_is_replaced(place: Place) -> None:
    aws = place.aws
    group = aws.player.make_group(16, launch_seconds=0.5, terminate_seconds=0.5)
    before = set(aws.player.instances(group))
    machines = place.machines_of(group, 16)
    replica = place.recovery()  # all of its settings are the defaults
    until(lambda: replica.metric("observations", "healthy") == 16, seconds=30, what="all are seen")

    dead, *others = machines
    began = time.monotonic()
    for machine in others[:7]:
        machine.break_down("HANG_ON_COLLECTIVES")
    dead.break_down("DMA_ERROR")
    for machine in others[7:]:
        machine.break_down("HANG_ON_COLLECTIVES")
    for machine in machines:
        machine.wait_for("True", seconds=20)
    assert time.monotonic() - began < 10 + 20, "the detectors were told within 10 s"

    until(lambda: dead.entry().get("outcome") == "replaced", seconds=40, what="the one is replaced")
    until(lambda: replica.metric("observations", "ignored") == 15, seconds=10, what="the others are seen to hang")
    assert place.marked() == [dead.instance]
    assert before - set(aws.player.instances(group)) == {dead.instance}
    assert [entry["node"] for entry in place.entries()] == [dead.name]
    assert place.ledger()["tripped"] == {}
    assert replica.metric("breaker_tripped", DMA) == 0
    assert not replica.log("breaker tripped")
    for machine in others:
        assert not machine.is_fenced()
        assert place.asked(part=machine.path) == [], "a node without an action is not even read"
    until(lambda: max((count for _, value, count in points(aws, HANG) if value == 1), default=0) > 0, seconds=5)
    assert sum(value * count for _, value, count in points(aws, DMA)) >= 1
