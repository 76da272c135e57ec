"""Build Karpenter and kwok, from the modules pinned in go.mod, and take the CRDs and stages that they ship.

Why here: how a NodeClaim ends is only known from Karpenter itself. `karpenter` is its whole controller with simulated
instances (its own `kwok` command), `kwok` plays the kubelets. It must not need anything but Python's standard library
and Go; tests/kubernetes/build.py does the same for Kubernetes.

Run it as ``python tests/karpenter/build.py``; it prints the folder of what was built.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache" / "karpenter"

PROGRAMS = {"karpenter": "sigs.k8s.io/karpenter/kwok", "kwok": "sigs.k8s.io/kwok/cmd/kwok"}
# Name here -> module and its folder.
FOLDERS = {
    "crds": ("sigs.k8s.io/karpenter", "pkg/apis/crds"),
    "kwok-crds": ("sigs.k8s.io/karpenter", "kwok/apis/crds"),
    "stage": ("sigs.k8s.io/kwok", "kustomize/stage"),
}


def folder() -> Path:
    """Return where this checkout's programs belong, whether built yet or not; see tests/kubernetes/build.py."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "build.py"):
        content = (HERE / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return CACHE / digest.hexdigest()[:16]


def is_complete(target: Path) -> bool:
    """Tell whether everything is there."""
    return all((target / name).exists() for name in (*PROGRAMS, *FOLDERS))


def build(target: Path) -> None:
    """Build everything and put it at `target` in one step, so that a broken build leaves nothing half done."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("Go is missing: install it from https://go.dev/dl (1.26 or newer), then run this again")
    target.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / "built"
        built.mkdir()
        for name, package in PROGRAMS.items():
            command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(built / name), package]
            subprocess.run(command, cwd=HERE, env=environment, check=True)
        for name, (module, inside) in FOLDERS.items():
            command = [go, "list", "-m", "-f", "{{.Dir}}", module]
            root = subprocess.run(command, cwd=HERE, env=environment, check=True, capture_output=True, text=True)
            shutil.copytree(Path(root.stdout.strip()) / inside, built / name, copy_function=shutil.copyfile)
        for path in (built, *built.rglob("*")):  # the module cache is read-only, and so are folders copied from it
            path.chmod(0o755 if path.is_dir() or path.name in PROGRAMS else 0o644)
        try:
            built.rename(target)
        except OSError:
            # Another build of the same pins finished first: its programs are the same.
            if not is_complete(target):
                raise


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
