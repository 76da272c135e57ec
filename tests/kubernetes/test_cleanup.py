"""However a test run ends, it leaves no process, no mount and no cgroup on the machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes import binaries
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.process import ProcessError, wait_until

_REPOSITORY = Path(__file__).resolve().parent.parent.parent

_RUN = """
import sys, time
from pathlib import Path
from tests.kubernetes.{module} import {kind}
plane = {kind}(Path(sys.argv[1]))
plane.start()
print("started", flush=True)
time.sleep(600)
"""


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


@pytest.mark.parametrize(("module", "kind"), [("controlplane", "ControlPlane"), ("cluster", "Cluster")])
def test_a_killed_run_leaves_no_process_and_no_mount(tmp_path: Path, module: str, kind: str) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", _RUN.format(module=module, kind=kind), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_REPOSITORY) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"started\n"
        assert _left_of(folder)
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not _left_of(folder), seconds=20, what="rid of all processes")


def test_a_failed_start_leaves_no_process_no_mount_and_no_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "pause"):
        (assets / name).symlink_to(binaries.program(name))
    (assets / "kubelet").write_text("#!/bin/sh\necho no kubelet today\nexit 1\n")
    (assets / "kubelet").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    broken = Cluster(tmp_path / "failed")
    with pytest.raises(ProcessError, match="no kubelet today"):
        broken.start()
    wait_until(lambda: not _left_of(tmp_path / "failed"), seconds=20, what="rid of all processes")
    assert not [group for top in broken.sandbox.cgroup.hierarchies for group in top.glob(broken.sandbox.cgroup.name)]
