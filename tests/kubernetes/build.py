"""Build the Kubernetes programs that the tests start, from the modules pinned in go.mod.

Why here: a test that talks to a stand-in proves nothing about Kubernetes, and a download of finished programs needs a
host that many build machines cannot reach; Go modules with a committed go.sum come from any module proxy or mirror.
It must not need anything but Python's standard library and Go, so that it runs before the virtualenv exists.

Run it as ``python tests/kubernetes/build.py``; it prints the folder of the finished programs.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache" / "kubernetes"

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
    """Return where this checkout's programs belong, whether built yet or not.

    The name is a hash of all that decides what is built, so a changed pin never meets an old program.
    """
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "build.py", "pause/main.go"):
        content = (HERE / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return CACHE / digest.hexdigest()[:16] / "bin"


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


def build(target: Path) -> None:
    """Build all programs and put them at `target` in one step, so that a broken build leaves nothing half done."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("Go is missing: install it from https://go.dev/dl (1.26 or newer) and run `make kubernetes`")
    target.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / "bin"
        built.mkdir()
        command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", linker_flags(), "-o", f"{built}/"]
        subprocess.run([*command, *PACKAGES.values()], cwd=HERE, env=environment, check=True)
        (built / "server").rename(built / "etcd")
        try:
            built.rename(target)
        except OSError:
            # Another build of the same pins finished first: its programs are the same.
            if not is_complete(target):
                raise


def is_complete(programs: Path) -> bool:
    """Tell whether every program is there."""
    return all((programs / name).is_file() for name in PACKAGES)


def main() -> int:
    """Build unless already built, and print the folder."""
    target = folder()
    if not is_complete(target):
        try:
            build(target)
        except subprocess.CalledProcessError as error:
            return int(error.returncode)
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
