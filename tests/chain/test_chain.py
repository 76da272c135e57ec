"""From a line in the kernel log to a new machine, on real parts: only AWS is played."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.chain.place import DMA, POINTS, at, points, wall
from tests.detector.process import until
from tests.kubernetes import kernellog
from tests.kubernetes.process import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chain.place import Machine, Place

STEPS = ["fenced", "admitted", "notified", "drained", "terminating", "gone", "replaced"]


class Prometheus:
    """A real Prometheus server.

    Args:
        place: where its files are.
        machines: whose detectors it scrapes.
    """

    def __init__(self, place: Place, machines: list[Machine]) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        targets = [
            {"targets": [machine.detector.url.removeprefix("http://")], "labels": {"node": machine.name}}
            for machine in machines
        ]
        scrape = [{"job_name": "detectors", "static_configs": targets}]
        every = {"scrape_interval": "500ms", "scrape_timeout": "400ms"}
        config = place.folder / "prometheus.yaml"
        config.write_text(json.dumps({"global": every, "scrape_configs": scrape}))
        with (place.folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "--", "prometheus", f"--config.file={config}"),
                    *(f"--storage.tsdb.path={place.folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"),
                ],
                stdout=log,
                stderr=log,
            )

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)


@pytest.fixture
def machine(place: Place) -> Machine:
    """One of three machines of a group, whose real detector reads the real kernel log."""
    group = place.aws.player.make_group(3, launch_seconds=0.3, terminate_seconds=0.3)
    made = place.machine(place.aws.player.instances(group)[1])
    made.start("--enable-recovery", "true")
    made.announce()
    place.set_fleet(1)
    return made


@pytest.fixture
def prometheus(place: Place, machine: Machine) -> Iterator[Prometheus]:
    server = Prometheus(place, [machine])
    yield server
    server.close()


@pytest.mark.parametrize("source", ["pages", "prometheus"])
def test_a_line_in_the_kernel_log_replaces_exactly_this_machine(
    request: pytest.FixtureRequest, place: Place, machine: Machine, source: str
) -> None:
    aws = place.aws
    (group,) = aws.player.names()
    before = aws.player.instances(group)
    job = place.add_pod(machine.name, 1, app="job")
    more = [] if source == "pages" else ["--prometheus-url", request.getfixturevalue("prometheus").url]
    policy = {"drainTimeout": "30s"} | ({} if source == "pages" else {"confirmFor": "2s"})  # else the default: 10 s
    replica = place.recovery(*more, policies={DMA: policy})
    until(lambda: replica.metric("observations", "healthy") == 1, seconds=30, what="the node is seen")
    until(lambda: list(points(aws, DMA)), what="the first points are sent")
    assert aws.proxy.actions() == {POINTS}

    kernellog.write(kernellog.neuron_line("DMA_ERROR", machine.instance))
    machine.wait_for("True")
    until(lambda: machine.entry().get("outcome"), seconds=45, what="the entry is closed")

    entry = machine.entry()
    after = aws.player.instances(group)
    assert (entry["outcome"], entry["state"], entry["instance"]) == ("replaced", "replaced", machine.instance)
    assert (entry["group"], entry["reason"], entry["would"]) == (group, DMA, False)
    assert set(before) - set(after) == {machine.instance}
    assert set(after) - set(before) == {entry["replacement"]}
    assert {member.lifecycle_state for member in aws.player.members()} == {"InService"}
    (mark,) = place.marks()
    assert (mark.parameters["InstanceId"], mark.parameters["HealthStatus"]) == (machine.instance, "Unhealthy")
    assert mark.parameters["ShouldRespectGracePeriod"] == "false"
    assert {value for _, value, _ in points(aws, DMA)} == {0.0, 1.0}
    faulty = [(when, count) for when, value, count in points(aws, DMA) if value == 1]
    assert faulty[0][0] < mark.at, "the metric was 1 before the machine was given away"
    assert faulty[0][1] == 1
    assert job not in place.pods()
    assert [line["step"] for line in replica.log("step")] == STEPS
    _assert_order(place, machine, entry)
    assert replica.stop() == 0


def _assert_order(place: Place, machine: Machine, entry: dict[str, str]) -> None:
    """Fence, eviction and call came in this order, each after the ledger was written."""
    (mark,) = place.marks()
    fence = place.asked("patch", machine.path)[0]
    (eviction,) = place.asked("create", "/eviction")
    acts = [at(fence.received_at), at(eviction.received_at), wall(mark.at)]
    assert acts == sorted(acts)
    written = [at(each.received_at) for each in place.asked("patch", "configmaps/recovery-ledger") if each.code == 200]
    made = [at(each.received_at) for each in place.asked("create", "/configmaps")]
    for earlier, later in pairwise([min(made + written), *acts]):
        assert any(earlier <= when <= later for when in made + written), (earlier, later, written)
    names = ("observed_at", "fenced_at", "admitted_at", "terminating_at", "called_at", "ended_at")
    times = [at(entry[name]) for name in names]
    assert times == sorted(times)
    reads = [call.at for call in place.aws.proxy.of("autoscaling:DescribeAutoScalingGroups")]
    assert any(when < mark.at for when in reads), "the group was read before the call"
    assert any(when > mark.at for when in reads), "and after it"
    listed = [at(each.received_at) for each in place.asked("list", "/api/v1/nodes")]
    assert all(when < min(made) for when in listed), "Nodes were listed although there was a ledger"
    assert {each.code for each in place.asked() if each.code >= 400} <= {404, 409}
