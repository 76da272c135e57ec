"""Two leaders at once, which the Lease is there to prevent: the ledger alone keeps the budget, and every act single."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from recovery import entries
from recovery.policy import Policy, Rules
from recovery.prometheus import PrometheusFleet
from runtime.durations import Duration
from tests.aws.surroundings import set_environment
from tests.chain import aged
from tests.chain.brain import Brain, TurnedClock
from tests.chain.place import SRAM
from tests.detector.process import until
from tests.recovery.prometheus_api import PrometheusApi, Scraped

if TYPE_CHECKING:
    import pytest

    from recovery.model import LedgerBody
    from tests.chain.place import Place

KIND = "NeuronHasError"
RULES = Rules(policies={SRAM: Policy(confirm_for=Duration(0), drain_timeout=Duration(0))})


class Count:
    """How many detectors there should be."""

    def current(self) -> int:
        return 300


def test_two_leaders_at_once_are_never_over_budget_and_act_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch, place.aws)
    scraped: dict[str, Scraped] = {}
    faulty: set[str] = set()
    clock = TurnedClock()
    for number in range(3):
        group = place.aws.player.make_group(20, launch_seconds=0.3, terminate_seconds=0.2)
        for place_in, instance in enumerate(place.aws.player.instances(group)[:5]):
            name = f"{place.namespace}-{number}-{place_in}"
            place.plant([aged.node(name, instance, conditions={KIND: SRAM}, annotations=_said_by(instance))])
            fault = {(KIND, SRAM): clock.now().timestamp() - 1}
            scraped[name] = Scraped(instance=instance, faults=fault)
            faulty.add(instance)
    versions: list[LedgerBody] = []
    with PrometheusApi(scraped) as api:
        brains = [_leader(place, api.url, clock, versions) for _ in range(2)]
        ended = threading.Event()
        threads = [threading.Thread(target=_lead, args=(brain, ended), daemon=True) for brain in brains]
        for thread in threads:
            thread.start()
        until(lambda: len(place.marked()) >= 6, seconds=40, what="six machines are given away")
        ended.set()
        for thread in threads:
            thread.join(20)
        for brain in brains:
            brain.close()

    marked = place.marked()
    assert len(marked) == len(set(marked)), "no machine was given away twice"
    assert set(marked) <= faulty
    for body in versions:
        held = [entry for entry in body.entries if entries.holds_slot(entry)]
        assert len(held) <= 3, "maxConcurrent"
        assert max(Counter(entry.group for entry in held).values(), default=0) <= 1, "maxPerGroup"
        assert max(Counter(entry.node for entry in body.entries).values(), default=0) <= 1
    assert all(brain.ledger.conflicts for brain in brains), "they did get in each other's way"


def _said_by(instance: str) -> dict[str, str]:
    return {"chipwarden.io/detector": f'{{"instance":"{instance}","boot":"b"}}'}


def _leader(place: Place, url: str, clock: TurnedClock, versions: list[LedgerBody]) -> Brain:
    fleet = PrometheusFleet(url, selector="", stale_after=Duration(60), clock=clock, fleet=Count())
    return Brain(place, RULES, clock, fleet=fleet, versions=versions)


def _lead(brain: Brain, ended: threading.Event) -> None:
    while not ended.is_set():
        brain.step()
