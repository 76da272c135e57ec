"""Build the Dockerfile as CI has to: with buildah, on a base made from Debian's packages, without a container registry.

It must not leave anything of this machine in an image: package index and authority are passed as secrets of the build.
Base and image are kept in .cache/image, by all that they are made of.
"""

from __future__ import annotations

import configparser
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.vocabulary import VERSION
from tests.kubernetes.binaries import MissingError

if TYPE_CHECKING:
    from tests.kubernetes.cluster import Cluster

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = f"chipwarden:{VERSION}"
_CACHE = REPOSITORY / ".cache" / "image"
_SOURCES = ("Dockerfile", ".dockerignore", "requirements/run.txt", "runtime", "detector", "recovery")
# What the Dockerfile relies on and python:3.11-slim-bookworm has too, and as little else as can be.
_SUITE = "bookworm"
_PACKAGES = "coreutils,dash,findutils,libstdc++6,python3-venv,util-linux"
_LEFT_OUT = ("doc", "locale", "man")  # of /usr/share
# Source: https://pip.pypa.io/en/stable/topics/configuration/ (read 2026-11-29), the later the stronger.
_PIP_CONFIGURATION = (Path("/etc/pip.conf"), Path("~/.pip/pip.conf"), Path("~/.config/pip/pip.conf"))
_BUILD_SECONDS = 600
_YOUNG_SECONDS = 3600


class BuildError(Exception):
    """The image or its base cannot be built; the message is the end of what the tool said."""


@functools.cache
def build() -> Path:
    """Build the image, once in a run, unless these very sources were built before.

    Returns:
        A docker archive with the image `NAME`.

    Raises:
        MissingError: A tool is not on this machine.
        BuildError: It cannot be built.
    """
    _require("buildah", "mmdebstrap")
    base = _base()
    archive = _CACHE / f"chipwarden-{_digest(base)}.tar"
    if not archive.exists():
        _sweep()
        with tempfile.TemporaryDirectory(prefix="chipwarden-buildah-", dir=_CACHE) as scratch:
            _Buildah(Path(scratch)).build(base, archive)
    return archive


def import_into(cluster: Cluster) -> None:
    """Give the image to the node of a cluster, unless it has it."""
    listed = cluster.sandbox.run("ctr", "--namespace=k8s.io", "images", "list", "--quiet")
    if f"docker.io/library/{NAME}" not in listed.split():
        cluster.node.import_image(build())


class _Buildah:
    """buildah with a storage of its own, gone afterwards."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._storage = ["--storage-driver=vfs", f"--root={scratch}/root", f"--runroot={scratch}/run"]
        policy = scratch / "policy.json"
        policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
        self._policy = f"--signature-policy={policy}"

    def build(self, base: Path, archive: Path) -> None:
        context = self._scratch / "base"
        context.mkdir()
        (context / "base.tar").hardlink_to(base)
        (context / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        self._run("bud", "--quiet", self._policy, "--tag=localhost/base:test", str(context))
        secrets = [f"--secret=id={name},src={path}" for name, path in _secrets(self._scratch).items()]
        arguments = [self._policy, "--isolation=chroot", "--build-arg=BASE=localhost/base:test", *secrets]
        self._run("bud", "--quiet", *arguments, f"--tag=localhost/{NAME}", str(REPOSITORY))
        finished = self._scratch / "finished.tar"
        self._run("push", "--quiet", self._policy, f"localhost/{NAME}", f"docker-archive:{finished}:{NAME}")
        finished.rename(archive)

    def _run(self, *arguments: str) -> None:
        _run("buildah", *self._storage, *arguments)


def _base() -> Path:
    """Make a file system with Python from the packages that this machine's apt gets, unless it is there already."""
    options = [
        "--quiet",
        "--mode=root",
        "--variant=extract",  # unpacks packages and runs none of their scripts
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        f"--include={_PACKAGES}",
        *[f'--extract-hook=rm -r "$1"/usr/share/{name}' for name in _LEFT_OUT],
        _SUITE,
    ]
    made_of = json.dumps([*options, os.uname().machine])
    path = _CACHE / f"base-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.tar"
    if not path.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.tar")
        _run("mmdebstrap", *options, str(unfinished))
        unfinished.rename(path)
    return path


def _sweep() -> None:
    """Remove images of other sources, and what killed builds left; another run may still use what is younger."""
    for old in _CACHE.glob("chipwarden-*"):
        if time.time() - old.stat().st_mtime < _YOUNG_SECONDS:
            continue
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()


def _digest(base: Path) -> str:
    digest = hashlib.sha256(base.name.encode())
    for name in _SOURCES:
        path = REPOSITORY / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                content = file.read_bytes()
                digest.update(f"{file.relative_to(REPOSITORY)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _secrets(folder: Path) -> dict[str, Path]:
    """Pass on how this machine's pip finds its index and whom it trusts."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read([path.expanduser() for path in _PIP_CONFIGURATION])
    found = dict(parser["global"]) if parser.has_section("global") else {}
    found |= {name[4:].lower().replace("_", "-"): text for name, text in os.environ.items() if name.startswith("PIP_")}
    wanted = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout")
    lines = [f"{name.removeprefix('default-')} = {found[name]}" for name in wanted if name in found]
    secrets = {}
    if "cert" in found:
        lines.append("cert = /run/secrets/ca.pem")
        secrets["ca.pem"] = Path(found["cert"])
    secrets["pip.conf"] = folder / "pip.conf"
    secrets["pip.conf"].write_text("\n".join(["[global]", *lines, ""]))
    return secrets


def _require(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise MissingError(f"{', '.join(missing)} not found: run `apt-get install {' '.join(missing)}`")


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_BUILD_SECONDS)
    if done.returncode != 0:
        raise BuildError(f"{command[0]}: {done.stderr[-2000:]}")
