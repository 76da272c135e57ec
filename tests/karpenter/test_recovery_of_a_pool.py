"""Recovery's whole loop over Karpenter: a faulty node goes, its pods land on a new one, the ledger closes its entry.

Only what the detectors would say is made up; no detector runs on a node without a machine.
"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from recovery.controller import Controller
from recovery.karpenter import KarpenterClaims
from recovery.lease import Alone
from recovery.ledger import KubeLedger
from recovery.model import FaultSeen, Outcome, Seen, Sighting, State
from recovery.policy import Policy, Rules
from runtime.durations import Duration
from runtime.vocabulary import Action, FaultClass
from tests.detector.process import until
from tests.karpenter.fleet import POOL, account
from tests.karpenter.jobs import Job
from tests.kubernetes.overlay import NAMESPACE
from tests.kubernetes.recovering import Hands, RunningClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recovery.model import Entry
    from tests.karpenter.fleet import Fleet

_REASON = "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"
_SECONDS = 90.0
_SEEN = [State.NOTIFIED, State.TERMINATING, State.GONE]  # where a pass ends: before a step that takes time


class Detectors:
    """What the detectors of a pool's nodes would say."""

    def __init__(self, fleet: Fleet) -> None:
        self.faulty: dict[str, FaultSeen] = {}
        self._fleet = fleet

    def look(self) -> Sighting:
        names = [each["metadata"]["name"] for each in self._fleet.get("nodes")["items"]]
        seen = {name: self._seen(name) for name in names}
        return Sighting(seen=seen, blind={}, why_blind=None, fleet=len(names))

    def _seen(self, name: str) -> Seen:
        faults = (self.faulty[name],) if name in self.faulty else ()
        return Seen(node=name, faults=faults, enabled=True, platform_repair=False, instance=None, reasons=(_REASON,))


class NoCloud:
    """Auto Scaling and EC2, which nobody may ask about a NodePool."""

    def begin_round(self) -> None:
        """A pass begins."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError(f"{name} was called")

        return refuse


class NoPoints:
    """CloudWatch, which is no part of this."""

    def publish(self, counts: dict[str, int], nodes: dict[str, tuple[str, ...]]) -> None:
        """Take them."""


class Loop(Hands):
    """Recovery, pass by pass."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, kubeconfig=account(fleet))
        self.detectors = Detectors(fleet)
        self.ledger = KubeLedger(self.rest, NAMESPACE, RunningClock())
        policy = Policy(confirm_for=Duration(1), drain_timeout=Duration(4))
        self.controller = Controller(
            rules=Rules(policies={_REASON: policy}),
            fleet=self.detectors,
            nodes=self.nodes,
            ledger=self.ledger,
            lead=Alone(),
            cloud=NoCloud(),
            karpenter=KarpenterClaims(self.rest, self.ledger.now),
            points=NoPoints(),
            poll_seconds=1.0,
            busy_seconds=0.2,
        )

    def condemn(self, node: str) -> None:
        """Have a node's detector say, in its condition and on its page, that a chip is broken."""
        condition = {"type": "NeuronHasError", "status": "True", "reason": _REASON, "message": "nd-id=3"}
        body = json.dumps({"status": {"conditions": [condition]}})
        self.plane.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", body)
        self.detectors.faulty[node] = FaultSeen(
            type="NeuronHasError",
            reason=_REASON,
            fault_class=FaultClass.POISONED,
            action=Action.REPLACE,
            since=self.ledger.now() - timedelta(seconds=2),
        )

    def entry(self) -> Entry | None:
        """Do a pass, and return what the ledger says then."""
        wait = self.controller.step()
        time.sleep(min(wait, 0.2))
        return next(iter(self.controller.snapshot.ledger.entries), None)


@pytest.fixture
def loop(fleet: Fleet) -> Iterator[Loop]:
    loop = Loop(fleet)
    yield loop
    loop.close()


def test_a_faulty_node_of_a_pool_is_replaced_by_the_loop(fleet: Fleet, loop: Loop) -> None:
    guarded = Job(fleet, guarded=True, annotations={"karpenter.sh/do-not-disrupt": "true"})
    free = Job(fleet, replicas=1, beside=guarded)
    name = guarded.node()
    assert free.node() == name
    neighbour = Job(fleet, replicas=1)
    states: list[State] = []

    def is_over() -> bool:
        entry = loop.entry()
        if entry is not None and (not states or states[-1] != entry.state):
            states.append(entry.state)
        return entry is not None and entry.outcome is not None

    loop.condemn(name)
    until(is_over, seconds=_SECONDS, what="the entry is closed")
    (entry,) = loop.controller.snapshot.ledger.entries
    assert (entry.outcome, entry.group, entry.node) == (Outcome.GONE, POOL, name)
    assert [state for state in states if state in _SEEN] == _SEEN, "the budget held the drain up until its timeout"
    for job in (guarded, free):
        job.wait_elsewhere(name)
    reasons = {each["reason"] for each in fleet.get("events", f"--field-selector=involvedObject.name={name}")["items"]}
    assert {"Fenced", "Admitted", "Terminating", "Gone"} <= reasons
    loop.detectors.faulty.clear()
    loop.entry()
    assert [each.outcome for each in loop.controller.snapshot.ledger.entries] == [Outcome.GONE]
    taints = [each["key"] for each in fleet.get("node", neighbour.node())["spec"].get("taints", [])]
    assert "chipwarden.io/unhealthy" not in taints
    for job in (free, guarded, neighbour):
        job.delete()
