"""A thousand nodes show the same fault within a minute: that is no hardware, and recovery stops itself.

The Prometheus server is a stand-in (`tests/recovery/prometheus_api.py`), the Nodes have no machines behind them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from tests.chain import aged
from tests.chain.place import DMA
from tests.detector.process import until
from tests.kubernetes.asks import STRATEGIC
from tests.kubernetes.ownnode import _connect
from tests.recovery.prometheus_api import PrometheusApi, Scraped

if TYPE_CHECKING:
    from tests.chain.place import Place
    from tests.recovery.program import Recovery

KIND = "NeuronHasError"
NODES, GROUPS = 1000, 10
BREAKER = 50  # min(10 % of 1,000, 50)
FIRST, FIRST_SECONDS = 30, 5.0  # how many come slowly before the flood
PAUSE = 60.0  # seconds
GROUP_READ = "autoscaling:DescribeAutoScalingGroups"


class Fleet:
    """A thousand Nodes of ten groups, and a Prometheus that has their detectors.

    Args:
        place: where they are.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.scraped: dict[str, Scraped] = {}
        documents: list[dict[str, Any]] = []
        for number in range(GROUPS):
            group = place.aws.player.make_group(NODES // GROUPS, launch_seconds=120, terminate_seconds=1)
            for at, instance in enumerate(place.aws.player.instances(group)):
                name = f"{place.namespace}-{at:03}-{number}"
                said = json.dumps({"instance": instance, "boot": "b"})
                annotations = {"chipwarden.io/detector": said}
                documents.append(aged.node(name, instance, annotations=annotations))
                self.scraped[name] = Scraped(instance=instance)
        place.plant(documents)
        place.set_fleet(NODES)

    def strike(self, *names: str) -> None:
        """Have these nodes become faulty."""
        condition = {"type": KIND, "status": "True", "reason": DMA, "message": DMA}
        body = json.dumps({"status": {"conditions": [condition]}})
        headers = {"Authorization": f"Bearer {self.place.plane.admin_token}", "Content-Type": STRATEGIC}
        with contextlib.closing(_connect(self.place.plane)) as connection:
            for name in names:
                connection.request("PATCH", f"/api/v1/nodes/{name}/status", body=body, headers=headers)
                answer = connection.getresponse()
                assert answer.status == 200, answer.read()
                answer.read()
                self.scraped[name].faults[KIND, DMA] = time.time()

    def fenced(self) -> set[str]:
        """List the Nodes with our taint."""
        listed = self.place.admin.ask("GET", "/api/v1/nodes?resourceVersion=0").body["items"]
        keys = {
            node["metadata"]["name"]: [taint["key"] for taint in node["spec"].get("taints") or ()] for node in listed
        }
        return {name for name in self.scraped if "chipwarden.io/unhealthy" in keys[name]}


class Observer(threading.Thread):
    """Reads the ledger all the time, and keeps the most that was ever open.

    Args:
        place: whose ledger.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self.begun: set[str] = set()
        self._place = place
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            with contextlib.suppress(OSError):  # the test has failed, and its API server has ended
                self._look()

    def _look(self) -> None:
        held = [entry for entry in self._place.entries() if entry["admitted_at"] and not entry["outcome"]]
        self.most = max(self.most, len(held))
        self.begun |= {entry["node"] for entry in held}

    def end(self) -> None:
        """Read no more."""
        self._ended.set()
        self.join(10)


def test_a_storm_trips_the_breaker_while_one_leader_is_paused_for_a_minute_and_the_next_is_killed(place: Place) -> None:
    fleet = Fleet(place)
    names = sorted(fleet.scraped)
    with PrometheusApi(fleet.scraped) as api:
        for _ in range(3):
            place.recovery("--prometheus-url", api.url, policies={DMA: {"confirmFor": "1s"}})
        first = place.leader()
        until(lambda: first.metric("observations", "healthy") == NODES, seconds=30, what="all are seen")
        observer = Observer(place)
        observer.start()

        began = time.monotonic()
        for name in names[:FIRST]:
            fleet.strike(name)
            time.sleep(FIRST_SECONDS / FIRST)
        until(lambda: len(place.marked()) == 3, seconds=20, what="as many are given away as may be")
        paused_at = _pause_in_a_pass(place, first)
        fleet.strike(*names[FIRST:])
        assert time.monotonic() - began < 60, "within a minute"

        second = place.leader(but=first)
        until(lambda: place.ledger().get("tripped"), seconds=30, what="the breaker trips")
        second.kill()  # in the middle of it
        third = place.leader(but=first)
        until(lambda: third.metric("breaker_tripped", DMA) == 1, seconds=20, what="the third knows")
        until(lambda: time.monotonic() - paused_at >= PAUSE, seconds=PAUSE, what="the pause is over")
        done = first.log("step")
        first.process.send_signal(signal.SIGCONT)
        until(lambda: first.metric("leader") == 0, seconds=10, what="it knows that it leads no more")
        passes = len(place.asked("get", "configmaps/recovery-control"))
        until(lambda: len(place.asked("get", "configmaps/recovery-control")) > passes + 3, seconds=30, what="3 passes")
        assert first.log("step") == done, "it has taken no step"
        assert third.metric("leader") == 1
        observer.end()

    assert observer.most <= 3
    assert len(observer.begun) == 3, "maxConcurrent, in all"
    assert len(place.marked()) == len(set(place.marked())) == 3
    fenced = fleet.fenced()
    assert observer.begun <= fenced
    assert len(fenced) <= BREAKER
    assert fenced <= {entry["node"] for entry in place.entries()}
    assert place.ledger()["tripped"].keys() == {DMA}
    told = [event for event in place.events("BreakerTripped") if event["involvedObject"]["name"] in fleet.scraped]
    assert [event.get("count", 1) for event in told] == [1], "one clear Event"
    assert "reset-breaker NeuronHasError_DMA_ERROR" in told[0]["message"]
    assert len(place.asked("patch", "/api/v1/nodes/")) < 4 * BREAKER, "no storm of requests"


def _pause_in_a_pass(place: Place, leader: Recovery) -> float:
    """Stop a leader that waits for an answer about a group; tell when, in monotonic seconds."""
    place.aws.proxy.always("slow:1", GROUP_READ)
    asked = len(place.aws.proxy.of(GROUP_READ))
    until(lambda: len(place.aws.proxy.of(GROUP_READ)) > asked, seconds=30, what="it asks about a group")
    leader.process.send_signal(signal.SIGSTOP)
    place.aws.proxy.always(None, GROUP_READ)
    return time.monotonic()
