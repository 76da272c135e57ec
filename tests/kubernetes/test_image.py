"""The image holds what the programs need, nothing of the machine that built it, and runs without any rights."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from runtime.vocabulary import RECOVERY_METRICS, VERSION
from tests.kubernetes import dockerfile, overlay
from tests.kubernetes.client import KubectlError
from tests.kubernetes.node import NAME
from tests.kubernetes.overlay import NAMESPACE, RECOVERY
from tests.kubernetes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.cluster import Cluster

_OURS = "opt/chipwarden/"


class Image(NamedTuple):
    """An image, unpacked as far as the tests look.

    Args:
        names: repository and tag.
        config: as a container runtime reads it.
        base: paths of the files of the base.
        ours: path -> content of the files that the Dockerfile adds.
    """

    names: list[str]
    config: dict[str, Any]
    base: set[str]
    ours: dict[str, bytes]


@pytest.fixture(scope="module")
def image() -> Image:
    """Build it, or take what was built of the same sources."""
    with tarfile.open(dockerfile.build()) as archive:
        manifest = json.loads(_member(archive, "manifest.json"))[0]
        config = json.loads(_member(archive, manifest["Config"]))
        *lower, top = manifest["Layers"]
        base = {name for layer in lower for name in _files(_member(archive, layer))}
        return Image(manifest["RepoTags"], config, base, _files(_member(archive, top)))


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def _files(layer: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        regular = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: _content(archive, member) for member in regular}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Read what is ours only: nothing looks into the files of the base."""
    file = archive.extractfile(member) if member.name.startswith(_OURS) else None
    return file.read() if file is not None else b""


def test_a_container_starts_the_detector_as_nobody(image: Image) -> None:
    config = image.config["config"]
    assert f"docker.io/library/chipwarden:{VERSION}" in image.names
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["chipwarden-detector"]
    assert config["Cmd"] == ["run"]
    assert config["StopSignal"] == "SIGTERM"


def test_nothing_of_the_build_is_left(image: Image) -> None:
    assert all(name.startswith(_OURS) for name in image.ours)
    variables = {each.partition("=")[0] for each in image.config["config"]["Env"]}
    assert variables == {"PATH", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX"}
    told = json.dumps(image.config)
    assert not [word for word in ("pip.conf", "ca.pem", "http://", "index") if word in told]
    programs = {name.rpartition("/")[2] for name in {*image.base, *image.ours} if "/bin/" in f"/{name}"}
    assert not programs & {"cc", "gcc", "g++", "ld", "as", "make", "pip", "pip3", "apt", "apt-get", "curl", "wget"}
    packages = {name.split("/site-packages/")[1].split("/")[0] for name in image.ours if "/site-packages/" in name}
    assert {"runtime", "detector", "recovery", "botocore"} <= packages
    assert not packages & {"pip", "setuptools", "tests", "mypy", "pytest", "boto3", "moto", "prometheus_client"}
    services = {name.split("/botocore/data/")[1].split("/")[0] for name in image.ours if "/botocore/data/" in name}
    assert {each for each in services if not each.endswith(".json")} == {"autoscaling", "cloudwatch", "ec2", "sts"}


def test_every_module_is_compiled_and_never_checked_again(image: Image) -> None:
    sources = [name for name in image.ours if name.endswith(".py")]
    assert len(sources) > 500
    for source in sources:
        folder, _, name = source.rpartition("/")
        (compiled,) = (
            image.ours[path]
            for tag in ("311", "312", "313", "314")
            if (path := f"{folder}/__pycache__/{name[:-3]}.cpython-{tag}.pyc") in image.ours
        )
        # Source: PEP 552: bit 0 says that it goes by a hash, bit 1 that the hash is checked (read 2026-11-29).
        assert int.from_bytes(compiled[4:8], "little") == 0b01, source


def test_what_is_added_to_the_base_stays_small(image: Image) -> None:
    assert sum(map(len, image.ours.values())) < 100 << 20


def test_every_locked_package_has_a_wheel_for_the_other_architecture(tmp_path: Path) -> None:
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[os.uname().machine]  # the build has shown it for this one
    with_pip = next(each for each in (sys.executable, "python3") if _runs(each, "-m", "pip", "--version"))
    locked = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", "requirements/run.txt"]
    platforms = [f"--platform=manylinux{version}_{other}" for version in ("2014", "_2_17", "_2_28")]
    python = ["--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=abi3", "--abi=none"]
    command = [with_pip, "-m", "pip", "download", "--quiet", *locked, *platforms, *python, f"--dest={tmp_path}"]
    done = subprocess.run(command, cwd=dockerfile.REPOSITORY, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _runs(*command: str) -> bool:
    return not subprocess.run(command, check=False, capture_output=True).returncode


@pytest.mark.parametrize(
    "command",
    [
        ["chipwarden-detector", "rules", "check", "neuron", "nvidia", "amd", "gaudi", "efa"],
        ["chipwarden-recovery", "run", "--help"],
        ["chipwarden-recovery", "run", "--print-settings"],
    ],
    ids=lambda command: "-".join(command[:3]),
)
def test_it_runs_without_root_rights_and_a_writable_disk(cluster: Cluster, command: list[str]) -> None:
    dockerfile.import_into(cluster)
    container = {
        "name": "check",
        "image": dockerfile.NAME,
        "imagePullPolicy": "Never",
        "command": command,
        "securityContext": {
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec = {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "check"}, "spec": spec})
    try:
        cluster.kubectl("wait", "pod/check", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=50s")
    except KubectlError as error:
        raise AssertionError(f"{error}\n{cluster.kubectl('logs', 'check')}") from error
    finally:
        cluster.kubectl("delete", "pod", "check", "--grace-period=1")


@pytest.fixture(scope="module")
def recovering(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Deploy by `kubectl apply -k`; no node has an accelerator, so that recovery alone runs."""
    dockerfile.import_into(cluster)
    cluster.kubectl("label", "node", NAME, "topology.kubernetes.io/region=us-west-2")  # as a cloud controller does
    cluster.kubectl("apply", "-k", str(overlay.write(tmp_path_factory.mktemp("overlay"))))
    try:
        rollout = ("rollout", "status", f"deploy/{RECOVERY}", "-n", NAMESPACE, "--timeout=110s")
        cluster.kubectl(*rollout, timeout_seconds=120)
        yield cluster
    finally:
        cluster.kubectl("delete", "deployment", RECOVERY, "-n", NAMESPACE, "--cascade=foreground")
        cluster.kubectl("delete", "daemonset", overlay.DAEMON_SET, "-n", NAMESPACE, "--cascade=foreground")
        cluster.kubectl("delete", "configmap,lease", "--all", "-n", NAMESPACE)
        cluster.kubectl("label", "node", NAME, "topology.kubernetes.io/region-")


def _pages(cluster: Cluster) -> list[str]:
    """Read the metrics of recovery's pods, through the API server."""
    pods = cluster.get("pods", "-n", NAMESPACE, "-l", f"app={RECOVERY}")["items"]
    names = [each["metadata"]["name"] for each in pods]
    base = f"/api/v1/namespaces/{NAMESPACE}/pods"
    return [cluster.kubectl("get", "--raw", f"{base}/{name}:20258/proxy/metrics") for name in names]


def test_recovery_is_ready_twice_and_one_leads(recovering: Cluster) -> None:
    status = recovering.get("deployment", RECOVERY, "-n", NAMESPACE)["status"]
    assert (status["readyReplicas"], status.get("unavailableReplicas", 0)) == (2, 0)

    def leaders() -> list[bool]:
        return sorted(f"{RECOVERY_METRICS}leader 1" in page.splitlines() for page in _pages(recovering))

    wait_until(lambda: leaders() == [False, True], seconds=40, what="one of two leads")
    restarts = [
        container["restartCount"]
        for pod in recovering.get("pods", "-n", NAMESPACE, "-l", f"app={RECOVERY}")["items"]
        for container in pod["status"]["containerStatuses"]
    ]
    assert restarts == [0, 0]


def test_an_operator_runs_its_commands_in_its_pod(recovering: Cluster) -> None:
    def run(*arguments: str) -> str:
        return recovering.kubectl("exec", "-n", NAMESPACE, f"deploy/{RECOVERY}", "--", RECOVERY, *arguments)

    assert json.loads(run("ledger", "--output", "json"))
    assert "paused" in run("pause", "a test")
    assert "a test" in run("resume")
