"""What an operator types while recovery runs: plan, ledger, pause, resume, cleanup.

The Prometheus server is a stand-in (`tests/recovery/prometheus_api.py`).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.chain import aged
from tests.chain.place import DMA
from tests.detector.process import until
from tests.recovery.prometheus_api import PrometheusApi, Scraped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chain.place import Place

KIND = "NeuronHasError"
SETTINGS: dict[str, Any] = {"policies": {DMA: {"confirmFor": "1s"}}, "budget": {"maxConcurrent": 1}}


class Pair:
    """Two Nodes, of two groups whose replacements take an hour.

    Args:
        place: their cluster.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.scraped: dict[str, Scraped] = {}
        for number in range(2):
            group = place.aws.player.make_group(5, launch_seconds=3600)
            instance = place.aws.player.instances(group)[0]
            name = f"{place.namespace}-{number}"
            said = json.dumps({"instance": instance, "boot": "b"})
            annotations = {"chipwarden.io/detector": said}
            place.plant([aged.node(name, instance, conditions={KIND: DMA}, annotations=annotations)])
            self.scraped[name] = Scraped(instance=instance)
        place.set_fleet(2)

    def strike(self, name: str) -> None:
        """Have a node become faulty."""
        self.scraped[name].faults[KIND, DMA] = time.time()

    def keys(self, name: str) -> list[str]:
        """List the keys of a Node's taints."""
        node = self.place.admin.ask("GET", f"/api/v1/nodes/{name}").body
        return [taint["key"] for taint in node["spec"].get("taints") or ()]


@pytest.fixture
def pair(place: Place) -> Pair:
    return Pair(place)


@pytest.fixture
def url(pair: Pair) -> Iterator[str]:
    with PrometheusApi(pair.scraped) as api:
        yield api.url


def test_an_operator_pauses_plans_resumes_and_cleans_up(place: Place, pair: Pair, url: str) -> None:
    first, second = pair.scraped

    def plan() -> dict[str, dict[str, Any]]:
        done = place.command("plan", "--prometheus-url", url, "--output", "json", **SETTINGS)
        assert done.returncode == 0, done
        plans.append(json.loads(done.stdout))
        return {node["node"]: node for node in plans[-1]["nodes"]}

    plans: list[dict[str, Any]] = []
    assert plan() == {}
    assert place.command("pause", "driver update").returncode == 0
    replica = place.recovery("--prometheus-url", url, **SETTINGS)
    pair.strike(first)
    until(lambda: replica.metric("blocked_total", "Paused") == 1, seconds=20, what="blocked")
    told = plan()[first]
    assert (told["decision"], told["why"], told["detail"]) == ("blocked", "Paused", "driver update")
    assert plans[-1]["paused"] == "driver update"
    assert (place.marked(), pair.keys(first), place.entries()) == ([], [], [])

    assert "driver update" in place.command("resume").stdout
    until(place.marks, seconds=20, what="it goes on")
    pair.strike(second)
    until(lambda: pair.keys(second), seconds=20, what="the second is fenced, and waits")
    until(lambda: plan()[second]["why"] == "MaxConcurrent", seconds=20, what="the plan says why")
    assert plans[-1]["budgetRemainingInAll"] == 0
    text = place.command("plan", "--prometheus-url", url, **SETTINGS).stdout
    assert "MaxConcurrent" in text
    assert "budget: 0 more in all" in text
    shown = json.loads(place.command("ledger", "--output", "json").stdout)["ledger"]
    assert {(entry["node"], entry["outcome"]) for entry in shown["entries"]} == {(first, None), (second, None)}

    refused = place.command("cleanup")
    assert (refused.returncode, "still leads" in refused.stderr) == (1, True)
    assert pair.keys(second) == ["chipwarden.io/unhealthy"]
    assert replica.stop() == 0
    refused = place.command("cleanup")
    assert (refused.returncode, "2 detectors" in refused.stderr) == (1, True)
    place.set_fleet(0)
    cleaned = place.command("cleanup")
    assert cleaned.returncode == 0, cleaned
    for name in (first, second):
        node = place.admin.ask("GET", f"/api/v1/nodes/{name}").body
        assert (pair.keys(name), node["spec"].get("unschedulable", False)) == ([], False)
        assert node["metadata"].get("annotations", {}) == {}
        assert [each["type"] for each in node["status"]["conditions"]] == ["Ready"]
    assert len(place.marks()) == 1
