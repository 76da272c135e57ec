"""The whole way on a real node: the image, deployed by one command, sees the kernel log and tells the cluster.

The tests follow one Node through its life; each one leaves it as the next one finds it, or says why not.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from runtime.vocabulary import CLEAR_ANNOTATION, DETECTOR_METRICS, Reason
from tests.kubernetes import dockerfile, kernellog, overlay
from tests.kubernetes.binaries import program
from tests.kubernetes.node import NAME, PROVIDER_ID
from tests.kubernetes.overlay import DAEMON_SET, NAMESPACE
from tests.kubernetes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kubernetes.cluster import Cluster

_INSTANCE = PROVIDER_ID.rpartition("/")[2]
_TYPE = "NeuronHasError"
_DMA = "NeuronHasError_DMA_ERROR"
_HANG = "NeuronHasError_HANG_ON_COLLECTIVES"
_STATE = "/var/lib/chipwarden"
_BOOT_ID = f"{_STATE}/boot_id"
_CAP_SYSLOG = 1 << 34  # linux/capability.h
_MEBIBYTE = 1 << 20
_MOST_RESIDENT_BYTES = 58 * _MEBIBYTE


class Deployed:
    """The DaemonSet on the cluster's node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def pod(self) -> str:
        """Return the name of the pod that is not on its way out."""
        pods = self.cluster.get("pods", "-n", NAMESPACE, "-l", f"app={DAEMON_SET}")["items"]
        (name,) = (each["metadata"]["name"] for each in pods if "deletionTimestamp" not in each["metadata"])
        return str(name)

    def rolled_out(self) -> None:
        """Wait until the newest version runs and is ready."""
        rollout = ("rollout", "status", f"ds/{DAEMON_SET}", "-n", NAMESPACE, "--timeout=110s")
        self.cluster.kubectl(*rollout, timeout_seconds=120)

    def page(self, path: str) -> str:
        """Read one of the detector's pages, through the API server."""
        return self.cluster.kubectl(
            "get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{self.pod()}:20257/proxy{path}"
        )

    def in_pod(self, *command: str) -> str:
        return self.cluster.kubectl("exec", "-n", NAMESPACE, f"ds/{DAEMON_SET}", "--", *command)

    def condition(self) -> dict[str, str]:
        conditions = self.cluster.get("node", NAME)["status"]["conditions"]
        found: dict[str, str] = next((each for each in conditions if each["type"] == _TYPE), {})
        return found

    def faults(self) -> set[str]:
        return {each["reason"] for each in json.loads(self.page("/conditions"))["faults"]}

    def becomes(self, status: str, reason: str) -> None:
        """Wait until the Node says so."""

        def says_so() -> bool:
            found = self.condition()
            return (found.get("status"), found.get("reason")) == (status, reason)

        wait_until(says_so, seconds=40, what=f"{_TYPE}={status}, {reason}")

    def events(self, reason: str) -> list[dict[str, Any]]:
        selector = f"--field-selector=involvedObject.name={NAME},reason={reason}"
        found: list[dict[str, Any]] = self.cluster.get("events", "-n", "default", selector)["items"]
        return found


@pytest.fixture(scope="module")
def deployed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """Deploy the image by `kubectl apply -k`, without recovery, which would fence the only node of this cluster.

    All else that differs from a user's cluster is where the boot id is read.
    """
    dockerfile.import_into(cluster)
    kernellog.empty()
    state = cluster.node.path(_STATE)
    state.mkdir(exist_ok=True)
    cluster.node.path(_BOOT_ID).write_text(f"{uuid.uuid4()}\n")
    cluster.kubectl("label", "node", NAME, "node.kubernetes.io/instance-type=trn2.48xlarge", "--overwrite")
    patches = [overlay.patch_environment(CHIPWARDEN_BOOT_ID_FILE=_BOOT_ID), overlay.patch_replicas(0)]
    folder = overlay.write(tmp_path_factory.mktemp("overlay"), patches=patches)
    cluster.kubectl("apply", "-k", str(folder))
    deployed = Deployed(cluster)
    try:
        deployed.rolled_out()
        yield deployed
    finally:
        # Namespace, account and policies stay: a module that deploys again must not meet a namespace that ends.
        cluster.kubectl("delete", "daemonset", DAEMON_SET, "-n", NAMESPACE, "--cascade=foreground")
        cluster.kubectl("label", "node", NAME, "node.kubernetes.io/instance-type-")
        conditions = [{"$patch": "delete", "type": _TYPE}]
        body = {"metadata": {"annotations": {"chipwarden.io/detector": None}}, "status": {"conditions": conditions}}
        cluster.kubectl("patch", "node", NAME, "--subresource=status", "--type=strategic", "-p", json.dumps(body))
        shutil.rmtree(state)


@pytest.fixture
def statuses(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[], list[list[str]]]]:
    """Watch the condition; the function returns each status and transition time that was ever seen."""
    seen = tmp_path / "seen"
    found = f'{{.status.conditions[?(@.type=="{_TYPE}")]'
    template = f'jsonpath={found}.status}} {found}.lastTransitionTime}}{{"\\n"}}'
    command = [program("kubectl"), f"--kubeconfig={cluster.kubeconfig}", "get", "node", NAME, "--watch", "-o", template]
    with seen.open("wb") as output, subprocess.Popen(command, stdout=output) as watch:
        wait_until(lambda: seen.stat().st_size > 0, seconds=20, what="watched")
        yield lambda: [line.split() for line in seen.read_text().splitlines()]
        watch.kill()


def test_it_runs_where_an_accelerator_is_and_says_that_nothing_is_wrong(deployed: Deployed) -> None:
    daemon_set = deployed.cluster.get("daemonset", DAEMON_SET, "-n", NAMESPACE)
    assert daemon_set["status"]["numberReady"] == daemon_set["status"]["desiredNumberScheduled"] == 1
    deployed.becomes("False", "NeuronHasNoError")
    assert f'{DETECTOR_METRICS}instance_info{{instance="{_INSTANCE}"}} 1' in deployed.page("/metrics")


def test_it_keeps_no_right_but_to_read_the_kernel_log(deployed: Deployed) -> None:
    status = dict(
        line.split(":\t", 1) for line in deployed.in_pod("cat", "/proc/1/status").splitlines() if ":\t" in line
    )
    capabilities = {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")}
    assert capabilities == {_CAP_SYSLOG}
    assert (int(status["CapInh"], 16), int(status["CapAmb"], 16), status["NoNewPrivs"]) == (0, 0, "1")
    with pytest.raises(Exception, match="Read-only file system"):
        deployed.in_pod("touch", "/touched")


def test_a_line_in_the_kernel_log_is_seen_in_describe_node(deployed: Deployed) -> None:
    kernellog.write(kernellog.neuron_line("DMA_ERROR", _INSTANCE))
    deployed.becomes("True", _DMA)
    wait_until(lambda: bool(deployed.events(_DMA)), seconds=20, what="an Event")
    told = deployed.cluster.kubectl("describe", "node", NAME)
    conditions, events = told.partition("Conditions:")[2].partition("Addresses:")[0], told.partition("Events:")[2]
    rows = {row[0]: row[1:] for row in map(str.split, conditions.splitlines()) if row}
    assert rows[_TYPE][0] == "True"
    assert _DMA in rows[_TYPE]
    assert rows["Ready"][0] == "True"
    (event,) = (each.split() for each in events.splitlines() if _DMA in each)
    assert event[:2] == ["Warning", _DMA]
    assert f'problem_gauge{{type="{_TYPE}",reason="{_DMA}"}} 1' in deployed.page("/metrics")


def test_an_edit_rolls_it_and_the_fault_stays(deployed: Deployed, statuses: Callable[[], list[list[str]]]) -> None:
    before, pod = deployed.condition(), deployed.pod()
    (event,) = deployed.events(_DMA)
    assert f"{DETECTOR_METRICS}recovery_enabled 0" in deployed.page("/metrics")
    deployed.cluster.kubectl("set", "env", "-n", NAMESPACE, f"ds/{DAEMON_SET}", "ENABLE_RECOVERY=true")
    deployed.rolled_out()
    assert deployed.pod() != pod
    assert f"{DETECTOR_METRICS}recovery_enabled 1" in deployed.page("/metrics")
    assert deployed.condition()["reason"] == before["reason"]
    seen = statuses()
    assert seen
    assert all(each == ["True", before["lastTransitionTime"]] for each in seen)
    (after,) = deployed.events(_DMA)
    assert after["count"] == event["count"]


def test_a_reboot_clears_what_a_reboot_clears(deployed: Deployed, statuses: Callable[[], list[list[str]]]) -> None:
    deployed.in_pod("chipwarden-detector", "inject", _HANG)
    wait_until(lambda: deployed.faults() == {_DMA, _HANG}, seconds=20, what="both faults")
    before = deployed.condition()
    kernellog.empty()
    deployed.cluster.node.path(_BOOT_ID).write_text(f"{uuid.uuid4()}\n")
    deployed.cluster.kubectl("delete", "pod", "-n", NAMESPACE, deployed.pod())
    deployed.rolled_out()
    assert deployed.faults() == {_DMA}
    deployed.becomes("True", _DMA)
    assert _HANG not in deployed.condition()["message"]
    assert all(each == ["True", before["lastTransitionTime"]] for each in statuses())
    wait_until(lambda: bool(deployed.events(Reason.FAULT_CLEARED)), seconds=20, what="an Event")


def test_an_operator_clears_it(deployed: Deployed) -> None:
    deployed.cluster.kubectl("annotate", "node", NAME, f"{CLEAR_ANNOTATION}={_DMA}")
    deployed.becomes("False", "NeuronHasNoError")
    assert CLEAR_ANNOTATION not in deployed.cluster.get("node", NAME)["metadata"]["annotations"]
    assert f'problem_gauge{{type="{_TYPE}",reason="{_DMA}"}} 0' in deployed.page("/metrics")


def test_the_memory_limit_leaves_room(deployed: Deployed) -> None:
    status = deployed.in_pod("cat", "/proc/1/status")
    (resident,) = (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
    (container,) = deployed.cluster.get("pod", deployed.pod(), "-n", NAMESPACE)["spec"]["containers"]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * _MEBIBYTE
    assert resident <= _MOST_RESIDENT_BYTES
    assert limit >= 2 * resident


@pytest.mark.parametrize("name", ["chipwarden-detector", "chipwarden-detector-events"])
def test_kubernetes_finds_nothing_wrong_with_a_policy(deployed: Deployed, name: str) -> None:
    def warnings() -> dict[str, Any] | None:
        """Return what the check of the types found; None = it has not been made yet."""
        found: dict[str, Any] = deployed.cluster.get("validatingadmissionpolicy", name).get("status", {})
        return found.get("typeChecking")

    wait_until(lambda: warnings() is not None, seconds=20, what="checked")
    assert warnings() == {}
