"""Recovery as it runs in a cluster: leads, looks, ends in time, stays small. The fleet is played, the rest is real."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.aws.surroundings import Aws
from tests.detector.process import until
from tests.kubernetes.recovering import OnNode
from tests.recovery.detector_page import DMA, page
from tests.recovery.program import Recovery
from tests.recovery.prometheus_api import PrometheusApi, Scraped
from tests.recovery.servers import Server, answers, http

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

MEBIBYTE = 1 << 20
_numbers = itertools.count()


@pytest.fixture
def aws() -> Iterator[Aws]:
    with Aws() as played:
        yield played


class Site:
    """A namespace with recovery in it.

    Args:
        plane: the API server.
        folder: for logs.
        aws: played.
    """

    def __init__(self, plane: ControlPlane, folder: Path, aws: Aws) -> None:
        self.plane = plane
        self.folder = folder
        self.aws = aws
        self.namespace = f"recovery-run-{next(_numbers)}"
        self._running: list[Recovery] = []
        plane.kubectl("create", "namespace", self.namespace)
        plane.kubectl("create", "serviceaccount", "default", "-n", self.namespace)

    def start(self, *arguments: str, **env: str) -> Recovery:
        """Start one replica."""
        own = self.folder / f"replica{len(self._running)}"
        own.mkdir()
        env = self.aws.env() | {"KUBECONFIG": str(self.plane.kubeconfig)} | env
        replica = Recovery(own, "--namespace", self.namespace, *arguments, env=env)
        self._running.append(replica)
        return replica.start()

    def lease(self) -> dict[str, Any]:
        """Read the Lease."""
        found: dict[str, Any] = self.plane.get("lease", "chipwarden-recovery", "-n", self.namespace)["spec"]
        return found

    def end(self) -> None:
        """End all replicas."""
        for replica in self._running:
            replica.kill()


@pytest.fixture
def site(apiserver: ControlPlane, tmp_path: Path, aws: Aws) -> Iterator[Site]:
    made = Site(apiserver, tmp_path, aws)
    yield made
    made.end()


def leads(replica: Recovery) -> bool:
    return replica.metric("leader") == 1


def test_one_of_two_leads_both_are_ready_and_the_other_takes_over_at_once(site: Site, aws: Aws) -> None:
    with PrometheusApi({"n1": Scraped("i-0123456789abcdef0")}) as api:
        one = site.start("--prometheus-url", api.url, "--poll", "1s")
        until(lambda: leads(one), seconds=20, what="the first leads")
        two = site.start("--prometheus-url", api.url, "--poll", "1s")
        until(lambda: two.page("/readyz")[0] == 200, seconds=20, what="the follower is ready")
        assert not leads(two)
        assert one.page("/readyz")[0] == one.page("/healthz")[0] == two.page("/healthz")[0] == 200
        until(lambda: one.metric("observations", "healthy") == 1, seconds=20)
        assert one.stop() == 0
        assert not one.log("page failed")
        until(lambda: leads(two), seconds=10, what="the second leads")
        assert aws.proxy.actions() <= {"cloudwatch:PutMetricData"}
        two.process.send_signal(signal.SIGSTOP)
        three = site.start("--prometheus-url", api.url, "--poll", "1s")
        until(lambda: leads(three), seconds=40, what="the third leads after the Lease has expired")
        two.process.send_signal(signal.SIGCONT)
        until(lambda: not leads(two), seconds=20, what="the second has noticed")


def test_it_ends_in_time_when_the_api_server_hangs(site: Site) -> None:
    with PrometheusApi({"n1": Scraped()}) as api:
        replica = site.start("--prometheus-url", api.url, "--poll", "1s")
        until(lambda: leads(replica), seconds=20)
        site.plane.freeze_apiserver()
        try:
            assert replica.stop() == 0  # within five seconds
        finally:
            site.plane.thaw_apiserver()


@pytest.mark.parametrize(("count", "most"), [(1_000, 100), (10_000, 150)])
def test_a_large_fleet_through_prometheus_fits_into_memory(site: Site, count: int, most: int) -> None:
    nodes = {f"ip-10-{n // 250}-{n % 250}-1.ec2.internal": Scraped(f"i-{n:017x}") for n in range(count)}
    for one in list(nodes.values())[:20]:
        one.faults[DMA] = 1795992678.25
    began = site.plane.audit_offset()
    with PrometheusApi(nodes) as api:
        replica = site.start("--prometheus-url", api.url, "--poll", "1s")
        until(lambda: replica.metric("observations", "healthy") == count - 20, seconds=60, what="all are seen")
        mark = len(api.asked)
        until(lambda: len(api.asked) > mark + 15 * 3, seconds=60, what="three more polls")
        assert replica.resident_bytes() / MEBIBYTE < most
        asked = site.plane.requests(since=began, verb="list")
        assert len([each for each in asked if each.uri.startswith("/api/v1/nodes")]) <= 1  # a lost ledger is rebuilt


def test_a_hundred_pages_fit_into_memory(site: Site) -> None:
    with contextlib.ExitStack() as stack:
        pods = []
        for number in range(100):
            text = page(*([DMA] if number < 2 else []), instance=f"i-{number:017x}")
            server = stack.enter_context(Server(answers(http(text))))
            pods.append((f"page-node-{number}", server.port))
        _list_pods(site, pods)
        replica = site.start("--poll", "1s")
        until(lambda: replica.metric("observations", "healthy") == 98, seconds=60, what="98 are healthy")
        assert replica.resident_bytes() / MEBIBYTE < 90


def _list_pods(site: Site, pods: list[tuple[str, int]]) -> None:
    """Have the API server list detectors' pods."""
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"d-{node}", "namespace": site.namespace, "labels": {"app": "node-problem-detector"}},
            "spec": {
                "nodeName": node,
                "automountServiceAccountToken": False,
                "containers": [
                    {"name": "d", "image": "none.invalid/d", "ports": [{"name": "metrics", "containerPort": port}]}
                ],
            },
        }
        for node, port in pods
    ]
    site.plane.apply(*objects)
    admin = OnNode(site.plane).admin
    for node, _ in pods:
        status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        path = f"/api/v1/namespaces/{site.namespace}/pods/d-{node}/status"
        done = admin.patch(path, {"status": status})
        assert done.code == 200, done.text


def test_the_region_is_the_one_of_the_own_node_unless_it_is_said(site: Site) -> None:
    node = OnNode(site.plane, labels={"topology.kubernetes.io/region": "ap-south-1"})
    label = site.start("--node-name", node.name, AWS_REGION="")
    said = site.start("--node-name", node.name, AWS_REGION="eu-west-1")
    assert [replica.log("recovery started")[0]["region"] for replica in (label, said)] == ["ap-south-1", "eu-west-1"]


def test_settings_that_do_not_work_are_told_before_anything_is_led(site: Site) -> None:
    from tests.recovery.program import recovery

    done = recovery("run", "--config", "/nonexistent", env={"KUBECONFIG": str(site.plane.kubeconfig)})
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True)
    assert json.loads(site.plane.kubectl("get", "leases", "-n", site.namespace, "-o", "json"))["items"] == []
