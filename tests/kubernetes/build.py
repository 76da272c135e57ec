"""Build the Kubernetes programs that the tests start, from the modules pinned in go.mod.

Why here: a test that talks to a stand-in proves nothing about Kubernetes, and a download of finished programs needs a
host that many build machines cannot reach; Go modules with a committed go.sum come from any module proxy or mirror.
It must not need anything but Python's standard library and Go, so that it runs before the virtualenv exists.

Run it as ``python tests/kubernetes/build.py``; it prints the folder of the finished programs.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests import pins  # noqa: E402 - a script, which first finds the project

# Program name -> Go package. etcd's package would be built as "server".
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "pause": "./pause",
}


def folder() -> Path:
    """Return where this checkout's programs belong, whether built yet or not."""
    return pins.place(HERE, ("go.mod", "go.sum", "build.py", "pause/main.go")) / "bin"


def linker_flags() -> str:
    """Return the flags that make the programs report the pinned version instead of v0.0.0-master.

    Source: hack/lib/version.sh of Kubernetes v1.36.3 (read 2026-11-29).
    """
    match = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)\b", (HERE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit("tests/kubernetes/go.mod does not require a release of k8s.io/kubernetes")
    version, major, minor = match.groups()
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [f"-X {package}.{key}={value}" for package in packages for key, value in values.items()]
    return " ".join(["-s", "-w", *settings])


def build(programs: Path) -> None:
    """Build all programs into a folder."""
    command = [pins.go(), "build", "-trimpath", "-buildvcs=false", "-ldflags", linker_flags(), "-o", f"{programs}/"]
    subprocess.run([*command, *PACKAGES.values()], cwd=HERE, env=pins.ENVIRONMENT, check=True)
    (programs / "server").rename(programs / "etcd")


def is_complete(programs: Path) -> bool:
    """Tell whether every program is there."""
    return all((programs / name).is_file() for name in PACKAGES)


if __name__ == "__main__":
    sys.exit(pins.provide(folder(), build, is_complete))
