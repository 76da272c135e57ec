"""Makes many requests to an API server, many of which fail, and tells what that costs: memory, threads, descriptors.

Run as a program of its own, by a test that has the API server fail in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

from recovery.drain import Drain
from recovery.events import Events
from recovery.karpenter import KarpenterClaims
from recovery.kube import KubeNodes
from recovery.lease import Alone
from recovery.led import LedRest
from recovery.ledger import KubeLedger, ledger_path
from recovery.model import LedgerBody
from recovery.ports import PortError
from runtime.clock import SystemClock
from tests.aws.many_calls import costs
from tests.kubernetes.recovering import NOW, PROVIDER, entry

if TYPE_CHECKING:
    from collections.abc import Callable

_WARM = 200


def main(count: int) -> None:
    """Make the requests; write costs and outcomes as JSON."""
    rest = LedRest(Alone().permit, swapped=ledger_path("n"), environ=os.environ, whole_seconds=0.4)
    clock = SystemClock()
    events = Events(LedRest(Alone().permit, swapped="", environ=os.environ, whole_seconds=0.4), clock)
    events.start()
    nodes = KubeNodes(rest, drain=Drain(rest, clock), events=events)
    claims, ledger = KarpenterClaims(rest, lambda: NOW), KubeLedger(rest, "n", clock)
    with contextlib.suppress(PortError):
        nodes.read("n")
    calls: list[Callable[[], object]] = [
        lambda: nodes.fence(nodes.read("n"), entry(uid="u")),
        lambda: nodes.drain(nodes.read("n")),
        lambda: claims.terminate(nodes.read("n")),
        lambda: claims.is_gone("n", PROVIDER),
        lambda: _written(ledger),
        ledger.paused,
    ]
    outcomes: Counter[str] = Counter()
    warm: dict[str, float] = {}
    while sum(outcomes.values()) < count:
        done = sum(outcomes.values())
        nodes.tell("n", "Blocked", f"sentence {done % 50}", warning=True)
        try:
            calls[done % len(calls)]()
            outcomes["ok"] += 1
        except PortError:
            outcomes["failed"] += 1
        if not warm and done >= _WARM:
            warm = costs()
    json.dump({"warm": warm, "end": costs(), "outcomes": outcomes}, sys.stdout)


def _written(ledger: KubeLedger) -> None:
    ledger.load()
    ledger.save(LedgerBody(entries=(entry(),)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
