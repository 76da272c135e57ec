"""However a test run ends, it leaves no process, no mount and no cgroup on the machine."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import binaries
from tests.kubernetes.cgroup import remove_stale
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.process import ProcessError, wait_until

_REPOSITORY = Path(__file__).resolve().parent.parent.parent

_CONTROL_PLANE = """
import sys, time
from pathlib import Path
from tests.kubernetes.controlplane import ControlPlane
plane = ControlPlane(Path(sys.argv[1]))
plane.start()
print("started", flush=True)
time.sleep(600)
"""
_CLUSTER = """
import sys, time
from pathlib import Path
from tests.kubernetes.cgroup import remove_stale
from tests.kubernetes.cluster import Cluster
cluster = Cluster(Path(sys.argv[1]))
cluster.start()
container = {"name": "pause", "image": "localhost/pause:test", "imagePullPolicy": "Never"}
spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pause"}, "spec": spec})
cluster.kubectl("wait", "pod/pause", "--for=condition=Ready", "--timeout=50s")
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    shutil.rmtree(tmp_path / "run")


def _left_of(folder: Path) -> list[str]:
    """Return what still runs, or is mounted, with this folder in its command line, outside or inside a sandbox."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        if int(process.name) != os.getpid() and (str(folder).encode() in command or f"{folder}/" in mounts):
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.mark.parametrize("script", [_CONTROL_PLANE, _CLUSTER], ids=["apiserver", "cluster"])
def test_a_killed_run_leaves_no_process_and_no_mount(folder: Path, script: str) -> None:
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_REPOSITORY) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"started\n"
        assert _left_of(folder)
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not _left_of(folder), seconds=20, what="rid of all processes")

    def are_cgroups_gone() -> bool:
        remove_stale()
        return not list(Path("/sys/fs/cgroup").glob(f"**/chipwarden-{run.pid}-*"))

    wait_until(are_cgroups_gone, seconds=20, what="rid of its cgroups")


def test_a_failed_start_leaves_no_process_no_mount_and_no_cgroup(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "pause"):
        (assets / name).symlink_to(binaries.program(name))
    (assets / "kubelet").write_text("#!/bin/sh\necho no kubelet today\nexit 1\n")
    (assets / "kubelet").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    broken = Cluster(folder)
    with pytest.raises(ProcessError, match="no kubelet today"):
        broken.start()
    wait_until(lambda: not _left_of(folder), seconds=20, what="rid of all processes")
    assert not [group for top in broken.sandbox.cgroup.hierarchies for group in top.glob(broken.sandbox.cgroup.name)]
