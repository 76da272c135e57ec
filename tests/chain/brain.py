"""Recovery's loop of its real parts, in this process, pass by pass: for what takes hours by the clock.

Nothing is replaced but the clock, which a test may turn on. A Lease is renewed once a pass, in the same thread.
"""

from __future__ import annotations

import functools
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.loaders import Loader, create_loader

from recovery.autoscaling import AutoScaling
from recovery.cloud import Rounds, Sdk
from recovery.cloudwatch import CloudWatch
from recovery.controller import Controller
from recovery.drain import Drain
from recovery.events import Events
from recovery.karpenter import KarpenterClaims
from recovery.kube import KubeNodes
from recovery.lease import Alone, Lease
from recovery.led import LedRest
from recovery.ledger import KubeLedger, ledger_path
from recovery.pods import DetectorPods
from recovery.points import Schedule
from recovery.ports import PortError
from recovery.scrape import PagesFleet
from runtime.durations import Duration
from runtime.rest import Rest
from tests.aws.player import REGION

if TYPE_CHECKING:
    from pathlib import Path

    from recovery.model import LedgerBody
    from recovery.policy import Rules
    from recovery.ports import Fleet
    from tests.chain.place import Place

CONNECT, READ, ROUND = 0.2, 0.5, 1.5  # seconds for AWS: at most a tenth of the defaults


@functools.cache
def _loader() -> Loader:
    """Read the SDK's models once: that takes longer than most tests."""
    return create_loader()


class TurnedClock:
    """The machine's clock, turned on."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def turn(self, seconds: float) -> None:
        """Have so much time pass at once."""
        self._ahead += seconds


class KeptLedger(KubeLedger):
    """The ledger, all of whose versions are kept.

    Attributes:
        versions: as they were written.
        conflicts: how often somebody else was faster.
    """

    versions: list[LedgerBody]
    conflicts = 0

    def save(self, body: LedgerBody) -> None:
        """Write it, and keep what was written."""
        try:
            super().save(body)
        except PortError as error:
            self.conflicts += error.conflict
            raise
        self.versions.append(body)


class Brain:
    """A leader.

    Args:
        place: its cluster; this process has to find its AWS.
        rules: what an operator decided.
        clock: the time.
        kubeconfig: None = of recovery's account.
        fleet: where metrics come from; None = the detectors' pages.
        versions: where the ledger's versions are kept.
        whole_seconds: that the API server has for an answer.
        leads: by a Lease; False = it has no rival.
    """

    def __init__(
        self,
        place: Place,
        rules: Rules,
        clock: TurnedClock,
        *,
        kubeconfig: Path | None = None,
        fleet: Fleet | None = None,
        versions: list[LedgerBody] | None = None,
        whole_seconds: float = 5.0,
        leads: bool = False,
    ) -> None:
        self._whole_seconds = whole_seconds
        self._kubeconfig = str(kubeconfig or place.kubeconfig)
        self.lease = Lease(self._rest(), place.namespace, "brain") if leads else None
        lead = self.lease or Alone()
        rest = LedRest(
            lead.permit, swapped=ledger_path(place.namespace), environ=self._environ(), whole_seconds=whole_seconds
        )
        sdk = Sdk(region=REGION, counted=lambda *_: None, connect_seconds=CONNECT, read_seconds=READ)
        sdk._session.register_component("data_loader", _loader())
        self._rounds = Rounds(sdk, seconds=ROUND, permits=lead.permit)
        self._events = Events(self._rest(), clock)
        self.points = CloudWatch(sdk, Schedule(cluster=None, per_node=False, zeros=True), clock)
        self.ledger = KeptLedger(rest, place.namespace, clock)
        self.ledger.versions = [] if versions is None else versions
        pods = DetectorPods(rest, place.namespace)
        self.controller = Controller(
            rules=rules,
            fleet=fleet or PagesFleet(pods, stale_after=Duration(60), clock=clock),
            nodes=KubeNodes(rest, drain=Drain(rest, clock), events=self._events),
            ledger=self.ledger,
            lead=lead,
            cloud=AutoScaling(self._rounds),
            karpenter=KarpenterClaims(rest, self.ledger.now),
            points=self.points,
        )
        self._events.start()
        self.points.start()

    def _rest(self) -> Rest:
        return Rest(counted=lambda _verb, _code: None, environ=self._environ(), whole_seconds=self._whole_seconds)

    def _environ(self) -> dict[str, str]:
        return {"KUBECONFIG": self._kubeconfig}

    def step(self) -> float:
        """Do one pass; tell how long it took, in seconds."""
        began = time.monotonic()
        if self.lease is not None:
            self.lease._round()
        self.controller.step()
        return time.monotonic() - began

    def close(self) -> None:
        """End its threads."""
        self.points.close()
        self._events.close()
        self._rounds.close()
