"""The node of the test cluster is a real one: pods run on it, see what a pod sees, and are evicted from it."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import binaries, image
from tests.kubernetes.client import KubectlError
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.node import NAME

_IMAGE = "localhost/tool:test"


@pytest.fixture(scope="module")
def tool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with a shell and kubectl."""
    archive = tmp_path_factory.mktemp("tool") / "tool.tar"
    files = {"/bin/busybox": "/usr/bin/busybox", "/bin/kubectl": binaries.program("kubectl")}
    cluster.node.import_image(image.build(archive, _IMAGE, files, ["/bin/busybox", "sh", "-ec"]))
    archive.unlink()
    return _IMAGE


def _pod(
    name: str, script: str, *, image_name: str = _IMAGE, host_path: str | None = None, privileged: bool = False
) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": image_name,
        "imagePullPolicy": "Never",
        "args": [script],
        "securityContext": {"privileged": privileged},
        "volumeMounts": [] if host_path is None else [{"name": "host", "mountPath": host_path}],
    }
    volumes = [] if host_path is None else [{"name": "host", "hostPath": {"path": host_path}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "volumes": volumes,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
        },
    }


def _run(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Run a pod to its good end and return what it wrote."""
    name = pod["metadata"]["name"]
    cluster.apply(pod)
    try:
        cluster.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=50s")
        return cluster.kubectl("logs", name)
    except KubectlError as error:
        raise AssertionError(f"{error}\n{cluster.kubectl('describe', 'pod', name)}") from error
    finally:
        cluster.kubectl("delete", "pod", name, "--wait=false")


def test_a_pod_reaches_the_api_server_as_its_own_account(cluster: Cluster, tool: str) -> None:
    script = "kubectl auth whoami -o json"
    claims = json.loads(_run(cluster, _pod("whoami", script, image_name=tool)))["status"]["userInfo"]
    assert claims["username"] == "system:serviceaccount:default:default"
    assert claims["extra"]["authentication.kubernetes.io/node-name"] == [NAME]


def test_pods_have_addresses_of_their_own_and_reach_each_other(cluster: Cluster, tool: str) -> None:
    cluster.apply(_pod("server", "echo hello > /hello; exec busybox httpd -f -p 8080 -h /", image_name=tool))
    cluster.kubectl("wait", "pod/server", "--for=condition=Ready", "--timeout=50s")
    address = cluster.get("pod", "server")["status"]["podIP"]
    assert address.startswith("10.98.0.")
    asking = f"busybox wget -q -O - http://{address}:8080/hello"
    assert _run(cluster, _pod("asking", asking, image_name=tool)) == "hello\n"
    cluster.kubectl("delete", "pod", "server")


def test_a_privileged_pod_reads_the_kernel_log_of_the_machine(cluster: Cluster, tool: str) -> None:
    line = f"chipwarden-test-{os.getpid()}-{time.monotonic_ns()}"
    Path("/dev/kmsg").write_text(f"{line}\n")
    script = f"busybox timeout 20 busybox grep -m1 {line} /dev/kmsg"
    found = _run(cluster, _pod("reader", script, image_name=tool, host_path="/dev/kmsg", privileged=True))
    assert found.endswith(f";{line}\n")


def test_an_unprivileged_pod_does_not_read_the_kernel_log(cluster: Cluster, tool: str) -> None:
    script = "busybox head -c 1 /dev/kmsg 2>&1 || true"
    found = _run(cluster, _pod("curious", script, image_name=tool, host_path="/dev/kmsg"))
    assert "Operation not permitted" in found


def test_a_host_path_outlives_its_pod_and_stays_in_the_sandbox(cluster: Cluster, tool: str) -> None:
    folder = cluster.node.path("/var/lib/chipwarden")
    folder.mkdir()
    _run(
        cluster,
        _pod("writer", "echo kept > /var/lib/chipwarden/state", image_name=tool, host_path="/var/lib/chipwarden"),
    )
    assert (folder / "state").read_text() == "kept\n"
    assert not Path("/var/lib/chipwarden/state").exists()


def test_a_drain_evicts_and_an_uncordon_brings_back(cluster: Cluster, tool: str) -> None:
    pod = _pod("ignored", "exec busybox sleep 3600", image_name=tool)
    template = {
        "metadata": {"labels": {"app": "drained"}},
        "spec": {**pod["spec"], "restartPolicy": "Always", "tolerations": []},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "drained"}}, "template": template}
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "drained"}, "spec": spec})
    ready = ("wait", "deployment/drained", "--for=condition=Available", "--timeout=50s")
    cluster.kubectl(*ready)
    before = cluster.audit_offset()
    cluster.kubectl("drain", NAME, "--force", "--timeout=50s")
    evictions = [each for each in cluster.requests(since=before, verb="create") if "/eviction" in each.uri]
    assert [each.code for each in evictions] == [201]
    cluster.kubectl("uncordon", NAME)
    cluster.kubectl(*ready)
    cluster.kubectl("delete", "deployment", "drained")


def test_a_command_runs_in_a_running_pod(cluster: Cluster, tool: str) -> None:
    cluster.apply(_pod("running", "exec busybox sleep 3600", image_name=tool))
    cluster.kubectl("wait", "pod/running", "--for=condition=Ready", "--timeout=50s")
    assert cluster.kubectl("exec", "running", "--", "/bin/busybox", "echo", "here") == "here\n"
    cluster.kubectl("delete", "pod", "running")


def test_the_api_server_of_a_cluster_restarts_too(cluster: Cluster) -> None:
    cluster.stop_apiserver()
    cluster.start_apiserver()
    assert cluster.get("node", NAME)["metadata"]["name"] == NAME
