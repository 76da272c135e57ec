"""Build Karpenter and kwok, from the modules pinned in go.mod, and take the CRDs and stages that they ship.

Why here: how a NodeClaim ends is only known from Karpenter itself. `karpenter` is its whole controller with simulated
instances (its own `kwok` command), `kwok` plays the kubelets. It must not need anything but Python's standard library
and Go; tests/kubernetes/build.py does the same for Kubernetes.

Run it as ``python tests/karpenter/build.py``; it prints the folder of what was built.
"""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests import pins  # noqa: E402 - a script, which first finds the project

PROGRAMS = {"karpenter": "sigs.k8s.io/karpenter/kwok", "kwok": "sigs.k8s.io/kwok/cmd/kwok"}
# Name here -> module and its folder.
FOLDERS = {
    "crds": ("sigs.k8s.io/karpenter", "pkg/apis/crds"),
    "kwok-crds": ("sigs.k8s.io/karpenter", "kwok/apis/crds"),
    "stage": ("sigs.k8s.io/kwok", "kustomize/stage"),
}


def folder() -> Path:
    """Return where this checkout's programs belong, whether built yet or not."""
    return pins.place(HERE, ("go.mod", "go.sum", "build.py"))


def is_complete(target: Path) -> bool:
    """Tell whether everything is there."""
    return all((target / name).exists() for name in (*PROGRAMS, *FOLDERS))


def build(built: Path) -> None:
    """Build everything into a folder."""
    go = pins.go()
    for name, package in PROGRAMS.items():
        command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(built / name), package]
        subprocess.run(command, cwd=HERE, env=pins.ENVIRONMENT, check=True)
    for name, (module, inside) in FOLDERS.items():
        command = [go, "list", "-m", "-f", "{{.Dir}}", module]
        root = subprocess.run(command, cwd=HERE, env=pins.ENVIRONMENT, check=True, capture_output=True, text=True)
        shutil.copytree(Path(root.stdout.strip()) / inside, built / name, copy_function=shutil.copyfile)
    for path in (built, *built.rglob("*")):  # the module cache is read-only, and so are folders copied from it
        path.chmod(0o755 if path.is_dir() or path.name in PROGRAMS else 0o644)


if __name__ == "__main__":
    sys.exit(pins.provide(folder(), build, is_complete))
