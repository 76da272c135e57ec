"""Recovery's commands on a real API server, as an operator's kubeconfig allows them."""

from __future__ import annotations

import itertools
import json
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from recovery.ledger import KubeLedger
from recovery.model import LedgerBody
from recovery.pods import DetectorPods
from recovery.scrape import PagesFleet
from runtime.clock import SystemClock
from runtime.durations import Duration
from tests.aws.surroundings import Aws
from tests.detector.kernel import record
from tests.detector.process import Detector, neuron_line, until
from tests.kubernetes.process import free_port
from tests.kubernetes.recovering import Hands, OnNode, entry, ledger, rest_for
from tests.recovery.program import recovery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

DMA = "NeuronHasError_DMA_ERROR"
DETECTOR = "chipwarden.io/detector"
# The API server proxies to no loopback address. This one is for documentation, RFC 5737, and here the machine's own.
ADDRESS = "192.0.2.77"
_numbers = itertools.count()


@pytest.fixture
def namespace(apiserver: ControlPlane) -> str:
    """Make a namespace, as recovery's own."""
    name = f"recovery-{next(_numbers)}"
    apiserver.kubectl("create", "namespace", name)
    apiserver.kubectl("create", "serviceaccount", "default", "-n", name)
    return name


@pytest.fixture
def hands(apiserver: ControlPlane) -> Iterator[Hands]:
    made = Hands(apiserver)
    yield made
    made.close()


def run(plane: ControlPlane, namespace: str, *arguments: str, kubeconfig: Path | None = None, **env: str) -> Any:
    """Run a command with the administrator's kubeconfig, or another."""
    environ = {"KUBECONFIG": str(kubeconfig or plane.kubeconfig)} | env
    return recovery(*arguments, "--namespace", namespace, env=environ)


def test_a_pause_is_seen_by_recovery_until_it_is_ended(apiserver: ControlPlane, namespace: str) -> None:
    store = KubeLedger(rest_for(apiserver), namespace, SystemClock())
    refused = run(apiserver, namespace, "pause")
    assert (refused.returncode, store.paused()) == (1, None)
    assert f"is or was in the cluster, namespace {namespace}" in refused.stderr
    store.load()
    store.save(LedgerBody())
    done = run(apiserver, namespace, "pause", "until the driver is fixed")
    assert (done.returncode, store.paused()) == (0, "until the driver is fixed")
    assert f"the cluster, namespace {namespace}" in done.stdout
    assert "paused: until the driver is fixed" in run(apiserver, namespace, "ledger").stdout
    done = run(apiserver, namespace, "resume")
    assert (done.returncode, store.paused()) == (0, None)
    assert "until the driver is fixed" in done.stdout
    assert "was not paused" in run(apiserver, namespace, "resume").stdout


def test_a_block_and_a_breaker_are_ended_once(apiserver: ControlPlane, namespace: str) -> None:
    store = KubeLedger(rest_for(apiserver), namespace, SystemClock())
    missing = run(apiserver, namespace, "reset-breaker", "all")
    assert (missing.returncode, "there is no ledger yet" in missing.stderr) == (1, True)
    assert store.load() is None
    young = entry(group="g1", young=True)
    tripped = {DMA: datetime.now(UTC)}
    store.save(ledger(young, tripped=tripped, blocked_groups={"g1": "RecursAfterReplacement", "g2": "the same"}))

    shown = run(apiserver, namespace, "ledger").stdout
    assert f"breaker of {DMA} tripped" in shown
    assert "group g1 is blocked: RecursAfterReplacement" in shown
    refused = run(apiserver, namespace, "reset-breaker", "NeuronHasError_SRAM")
    assert (refused.returncode, f"tripped: {DMA}" in refused.stderr) == (1, True)
    refused = run(apiserver, namespace, "resume", "--group", "g3")
    assert (refused.returncode, "blocked: g1, g2" in refused.stderr) == (1, True)

    assert run(apiserver, namespace, "resume", "--group", "g1").returncode == 0
    assert run(apiserver, namespace, "reset-breaker", DMA).returncode == 0
    body = store.load()
    assert body is not None
    assert (body.tripped, body.blocked_groups) == ({}, {"g2": "the same"})
    assert (list(body.reset), body.entries[0].young) == ([DMA], False)
    assert run(apiserver, namespace, "resume", "--group", "g1").returncode == 1


def test_an_api_server_that_refuses_or_is_not_there_is_one_sentence(apiserver: ControlPlane, namespace: str) -> None:
    nobody = apiserver.kubeconfig_for("no-such-token")
    for command in (["ledger"], ["pause"], ["resume"], ["cleanup"]):
        done = run(apiserver, namespace, *command, kubeconfig=nobody)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done
        assert "401" in done.stderr
    gone = apiserver.kubeconfig_for(apiserver.admin_token, url="https://127.0.0.1:9")
    done = run(apiserver, namespace, "ledger", kubeconfig=gone)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done


def _conditions(node: OnNode, *conditions: tuple[str, str]) -> None:
    listed = [
        {"type": kind, "status": "True", "reason": "R", "message": message, "lastHeartbeatTime": "2026-11-29T00:00:00Z"}
        for kind, message in conditions
    ]
    node.patch({"status": {"conditions": listed}}, "/status")


def test_cleanup_takes_away_what_is_ours_and_nothing_else(
    apiserver: ControlPlane, namespace: str, hands: Hands
) -> None:
    foreign = {"key": "example.com/other", "effect": "NoSchedule"}
    ours = OnNode(
        apiserver,
        annotations={DETECTOR: '{"instance":"i-0123456789abcdef0","boot":"b"}', "chipwarden.io/clear": "all", "a": "b"},
        labels={"chipwarden.io/recovery": "disabled"},
        spec={"taints": [foreign]},
    )
    _conditions(
        ours,
        ("NeuronHasError", "m"),
        ("OwnError", "m"),
        ("AcceleratedHardwareReady", "broken (chipwarden-detector)"),
        ("KernelDeadlock", "m"),
    )
    facts = hands.nodes.read(ours.name)
    hands.nodes.fence(facts, entry(node=ours.name, uid=ours.uid))
    cordoned = OnNode(apiserver, annotations={DETECTOR: "{}"}, spec={"unschedulable": True})
    facts = hands.nodes.read(cordoned.name)
    hands.nodes.fence(facts, entry(node=cordoned.name, uid=cordoned.uid))
    others = OnNode(apiserver, spec={"unschedulable": True, "taints": [foreign]})
    _conditions(others, ("NeuronHasError", "another program's"), ("AcceleratedHardwareReady", "EKS's own"))
    before = others.get()

    done = run(apiserver, namespace, "cleanup", "--condition", "OwnError", "--output", "json")
    assert done.returncode == 0, done.stderr
    told = {one["node"]: one for one in json.loads(done.stdout)}
    assert set(told[ours.name]["removed"]) >= {"taint", "cordon", "condition NeuronHasError", "condition OwnError"}
    assert others.name not in told

    node = ours.get()
    assert (ours.taints(), ours.is_cordoned()) == ([foreign], False)
    assert node["metadata"]["annotations"] == {"a": "b"}
    assert node["metadata"]["labels"]["chipwarden.io/recovery"] == "disabled"
    assert [each["type"] for each in node["status"]["conditions"]] == ["KernelDeadlock"]
    assert (cordoned.taints(), cordoned.is_cordoned(), cordoned.annotations()) == ([], True, {})
    assert others.get() == before
    again = run(apiserver, namespace, "cleanup", "--condition", "OwnError")
    assert ours.name not in again.stdout


def test_cleanup_knows_from_the_ledger_what_the_node_does_not_tell(
    apiserver: ControlPlane, namespace: str, hands: Hands
) -> None:
    node = OnNode(apiserver)
    hands.nodes.fence(hands.nodes.read(node.name), entry(node=node.name, uid=node.uid))
    node.patch({"metadata": {"annotations": {"chipwarden.io/recovery": None}}})
    store = KubeLedger(hands.rest, namespace, SystemClock())
    assert store.load() is None
    store.save(ledger(entry(node=node.name, uid=node.uid, added=("cordon", "taint", "scaleDownDisabled"))))
    assert run(apiserver, namespace, "cleanup").returncode == 0
    assert (node.is_cordoned(), node.taints(), node.annotations()) == (False, [], {})


def test_cleanup_does_not_run_beside_what_would_put_it_back(apiserver: ControlPlane, namespace: str) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "chipwarden-recovery", "namespace": namespace},
        "spec": {"holderIdentity": "pod-1", "renewTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"},
    }
    apiserver.apply(lease)
    done = run(apiserver, namespace, "cleanup")
    assert (done.returncode, "pod-1 still leads" in done.stderr, "--replicas=0" in done.stderr) == (1, True, True)
    lease["spec"] = {"holderIdentity": "pod-1", "renewTime": "2026-01-01T00:00:00.000000Z"}
    apiserver.apply(lease)
    _daemonset(apiserver, namespace, 3)
    done = run(apiserver, namespace, "cleanup")
    assert (done.returncode, "3 detectors would publish" in done.stderr) == (1, True)
    _daemonset(apiserver, namespace, 0)
    assert run(apiserver, namespace, "cleanup").returncode == 0


def _daemonset(plane: ControlPlane, namespace: str, desired: int) -> None:
    """Make the detectors' DaemonSet, and say what its controller would say."""
    labels = {"app": "node-problem-detector"}
    container = {"name": "detector", "image": "none.invalid/none"}
    plane.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "node-problem-detector", "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
    )
    counts = {"currentNumberScheduled": desired, "numberMisscheduled": 0, "numberReady": 0}
    _patch_status(plane, namespace, "ds/node-problem-detector", counts | {"desiredNumberScheduled": desired})


def _patch_status(plane: ControlPlane, namespace: str, what: str, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    plane.kubectl("patch", what, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)


@pytest.fixture
def address() -> Iterator[str]:
    """Give this machine an address that is not loopback."""
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    yield ADDRESS
    subprocess.run(["ip", "address", "del", f"{ADDRESS}/32", "dev", "lo"], check=True)


class Fleet:
    """Two Nodes with a detector each, listed as the DaemonSet's pods, and a third whose pod has just begun.

    Args:
        plane: the API server.
        namespace: the detectors'.
        address: where they listen.
    """

    def __init__(self, plane: ControlPlane, namespace: str, address: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.nodes: list[OnNode] = []
        self.detectors: list[Detector] = []
        self._address = address

    def begin(self, folder: Path, instances: list[str]) -> None:
        """Start the detectors, each with its files in a folder and the instance that it speaks for."""
        for number, instance in enumerate(instances):
            port = free_port()
            own = folder / f"detector{number}"
            own.mkdir()
            (own / "kmsg").touch()
            detector = Detector(own, instance=instance)
            self.detectors.append(detector)
            detector.launch(
                *("run", "--kubernetes", "off", "--listen", f"{self._address}:{port}"),
                *("--instance-id", instance, "--state-dir", str(own / "state"), "--kmsg-follow"),
                *("--kmsg", str(own / "kmsg"), "--boot-id-file", str(detector.boot_id_file)),
                *("--enable-recovery", "true"),
            )
            annotation = json.dumps({"instance": instance, "boot": "b"})
            node = OnNode(self.plane, provider_id=f"aws:///us-east-2b/{instance}", annotations={DETECTOR: annotation})
            self.nodes.append(node)
            running = {"phase": "Running", "podIP": self._address, "podIPs": [{"ip": self._address}]}
            self._pod(node.name, running, port)
        self.nodes.append(OnNode(self.plane))
        self._pod(self.nodes[-1].name, {"phase": "Pending"}, 20257)
        _daemonset(self.plane, self.namespace, 3)

    def _pod(self, node: str, status: dict[str, Any], port: int) -> None:
        ports = [{"name": "metrics", "containerPort": port}]
        self.plane.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"pod-{node}",
                    "namespace": self.namespace,
                    "labels": {"app": "node-problem-detector"},
                },
                "spec": {
                    "nodeName": node,
                    "automountServiceAccountToken": False,
                    "containers": [{"name": "detector", "image": "none.invalid/none", "ports": ports}],
                },
            }
        )
        _patch_status(self.plane, self.namespace, f"pod/pod-{node}", status)

    def break_first(self) -> None:
        """Have the first detector see a fault, and its Node say so."""
        first = self.detectors[0]
        with (first.state_dir.parent / "kmsg").open("ab") as file:
            file.write(record(1, neuron_line("DMA_ERROR", first.instance)))
        _conditions(self.nodes[0], ("NeuronHasError", DMA))

    def look(self) -> Any:
        """Look as recovery does in the cluster."""
        pods = DetectorPods(rest_for(self.plane), self.namespace)
        return PagesFleet(pods, stale_after=Duration(60), clock=SystemClock()).look()


@pytest.fixture
def aws() -> Iterator[Aws]:
    with Aws() as played:
        yield played


@pytest.fixture
def fleet(apiserver: ControlPlane, namespace: str, tmp_path: Path, address: str, aws: Aws) -> Iterator[Fleet]:
    group = aws.player.make_group(3)
    made = Fleet(apiserver, namespace, address)
    try:
        made.begin(tmp_path, aws.player.instances(group)[:2])
        yield made
    finally:
        for detector in made.detectors:
            detector.kill()
    apiserver.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")


def _reader(plane: ControlPlane, namespace: str) -> Path:
    """Make a kubeconfig of somebody who may read, and nothing else."""
    role = f"reads-{namespace}"
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods", "configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
    ]
    plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    plane.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": rules,
        }
    )
    plane.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--serviceaccount={namespace}:reader")
    return plane.kubeconfig_for(plane.token("reader", namespace=namespace))


def test_detectors_are_found_by_their_pods_and_seen_as_their_pages_say(fleet: Fleet) -> None:
    one, two, three = (node.name for node in fleet.nodes)
    until(lambda: fleet.look().seen.keys() == {one, two}, seconds=20, what="both are seen")
    sighting = fleet.look()
    assert (sighting.fleet, sighting.blind) == (3, {three: "its detector pod has no address yet"})
    assert [sighting.seen[name].instance for name in (one, two)] == [one.instance for one in fleet.detectors]
    fleet.break_first()
    until(lambda: fleet.look().seen[one].faults, seconds=10)
    assert fleet.look().seen[two].faults == ()


def test_a_plan_works_with_the_kubeconfig_of_somebody_who_may_only_read(
    fleet: Fleet, aws: Aws, apiserver: ControlPlane, namespace: str
) -> None:
    until(lambda: len(fleet.look().seen) == 2, seconds=20, what="both are seen")
    fleet.break_first()
    until(lambda: fleet.look().seen[fleet.nodes[0].name].faults, seconds=10)
    mark = apiserver.audit_offset()
    reader = _reader(apiserver, namespace)
    config = fleet.detectors[0].state_dir.parent / "recovery.yaml"
    config.write_text(json.dumps({"policies": {DMA: {"confirmFor": "0s"}}}))
    arguments = ["plan", "--output", "json", "--config", str(config)]
    done = run(apiserver, namespace, *arguments, kubeconfig=reader, **aws.env())
    assert done.returncode == 1, done  # one of them is blind
    plan = json.loads(done.stdout)
    assert len(plan["blind"]) == 1
    (node,) = plan["nodes"]
    assert (node["node"], node["reason"], node["decision"]) == (fleet.nodes[0].name, DMA, "fenced"), node
    assert (plan["observations"]["healthy"], plan["observations"]["blind"]) == (1, 1)
    user = f"system:serviceaccount:{namespace}:reader"
    assert {each.verb for each in apiserver.requests(since=mark, user=user)} <= {"get", "list"}
    assert not [action for action in aws.proxy.actions() if "Describe" not in action]

    apiserver.kubectl("delete", "clusterrolebinding", f"reads-{namespace}")
    done = run(apiserver, namespace, *arguments, kubeconfig=reader, **aws.env())
    assert (done.returncode, "403" in json.loads(done.stdout)["source"]) == (1, True)
