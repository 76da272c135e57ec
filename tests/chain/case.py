"""One machine of a group of five becomes faulty and is replaced, by recovery's loop in this process, pass by pass.

The detector's page is a stand-in (`tests/recovery/detector_page.py`), the clock is turned on after each pass.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

from recovery.policy import Policy, Rules
from runtime.durations import Duration
from tests.chain import aged
from tests.chain.brain import Brain, TurnedClock
from tests.chain.place import DMA
from tests.recovery import detector_page
from tests.recovery.servers import Server, answers, http

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.ports import Fleet
    from tests.chain.place import Place
    from tests.kubernetes.faults import FaultProxy

KIND = "NeuronHasError"
RULES = Rules(policies={DMA: Policy(confirm_for=Duration(0), drain_timeout=Duration(20))})
STATES = ["observed", "fenced", "admitted", "notified", "drained", "terminating", "gone", "replaced"]
PASSES, SECONDS = 60, 5.0
WHOLE = 0.4  # seconds that the API server has for an answer


def brain(
    place: Place, rules: Rules, clock: TurnedClock, proxy: FaultProxy | None, *, fleet: Fleet | None = None
) -> Brain:
    """Make a leader; one behind a proxy leads by a Lease, and waits for an answer no longer than WHOLE."""
    if proxy is None:
        return Brain(place, rules, clock, fleet=fleet)
    kubeconfig = place.kubeconfig_at(proxy.url)
    return Brain(place, rules, clock, kubeconfig=kubeconfig, fleet=fleet, whole_seconds=WHOLE, leads=True)


def passes_of(leader: Brain, clock: TurnedClock, is_over: Callable[[], bool], *, most: int = PASSES) -> float:
    """Have a leader do passes until it is over; tell how long the longest took, in seconds."""
    longest = 0.0
    for _ in range(most):
        longest = max(longest, leader.step())
        clock.turn(SECONDS)
        if is_over():
            break
    leader.close()
    return longest


class Case:
    """A group of five, one of whose machines is faulty and has a pod.

    Args:
        place: its cluster.
        proxy: recovery's way to the API server, by which it then leads, too; None = it has no rival.
        page: serves the detector's page.
    """

    def __init__(self, place: Place, proxy: FaultProxy | None, page: Server) -> None:
        self.place = place
        self.group = place.aws.player.make_group(5)
        self.before = place.aws.player.instances(self.group)
        self.instance = self.before[2]
        self.node = f"{place.namespace}-node"
        said = json.dumps({"instance": self.instance, "boot": "b"})
        annotations = {"chipwarden.io/detector": said}
        place.plant([aged.node(self.node, self.instance, conditions={KIND: DMA}, annotations=annotations)])
        page.way = answers(http(detector_page.page(detector_page.DMA, instance=self.instance, enabled=True)))
        place.add_pod(self.node, page.port)
        self.job = place.add_pod(self.node, 1, app="job")
        place.set_fleet(1)
        self.clock = TurnedClock()
        self.brain = brain(place, RULES, self.clock, proxy)
        self.longest = 0.0

    def run(self) -> None:
        """Do passes until the entry is closed ."""
        self.longest = passes_of(self.brain, self.clock, self._is_over)

    def _is_over(self) -> bool:
        return any(entry["outcome"] for entry in self.place.entries())

    def check(self) -> None:
        """It was replaced, once, and nothing else was touched."""
        (entry,) = self.place.entries()
        assert (entry["outcome"], entry["instance"], entry["kind"]) == ("replaced", self.instance, None), entry
        assert set(self.place.marked()) == {self.instance}
        after = self.place.aws.player.instances(self.group)
        assert set(self.before) - set(after) == {self.instance}
        assert len(after) == 5
        assert self.job not in self.place.pods()

    def steps_back(self) -> set[tuple[str, str]]:
        """List steps that were taken back."""
        states = [body.entries[0].state.value for body in self.brain.ledger.versions if body.entries]
        return {(one, two) for one, two in pairwise(states) if STATES.index(two) < STATES.index(one)}
