"""Find the programs that a test cluster consists of, or say which one is missing and how to get it.

It must not build or install anything, and must not let a test be skipped.
"""

import os
import shutil
from pathlib import Path

from tests.kubernetes import build

# Debian package of each tool that does not come from tests/kubernetes/go.mod (Debian 12, read 2026-11-29).
_PACKAGES = {
    "buildah": "buildah",
    "busybox": "busybox-static",
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "ctr": "containerd",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
# Where Debian's containernetworking-plugins puts them.
CNI_FOLDER = Path("/usr/lib/cni")
_CNI_PLUGINS = ("host-local", "loopback", "portmap", "ptp")


class MissingError(Exception):
    """Something that the tests need is not on this machine; the message is one sentence with the command to get it."""


def program(name: str) -> str:
    """Return the path of one of Kubernetes' programs.

    Raises:
        MissingError: KUBEBUILDER_ASSETS is set and does not hold it, or it was never built.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        path = Path(assets).resolve() / name
        if not path.is_file():
            raise MissingError(
                f"KUBEBUILDER_ASSETS={assets} has no {name}: run `unset KUBEBUILDER_ASSETS` and `make kubernetes`"
            )
        return str(path)
    path = build.folder() / name
    if not path.is_file():
        raise MissingError(f"{name} is not built: run `make kubernetes`")
    return str(path)


def require_tools(*names: str) -> None:
    """Check that these tools are on PATH.

    Raises:
        MissingError: At least one is not; the command in the message installs all that are missing.
    """
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        packages = " ".join(sorted({_PACKAGES[name] for name in missing}))
        raise MissingError(f"{', '.join(missing)} not found: run `apt-get install {packages}`")


def require_node() -> None:
    """Check all that a real node needs of this machine.

    Raises:
        MissingError: Not root, or a tool, network plugin or /dev/kmsg is not there.
    """
    if os.geteuid() != 0:
        raise MissingError("A real node needs root: run the tests as root or with `sudo -E`")
    require_tools(*_PACKAGES)
    if not all((CNI_FOLDER / plugin).is_file() for plugin in _CNI_PLUGINS):
        raise MissingError(f"CNI plugins not found in {CNI_FOLDER}: run `apt-get install containernetworking-plugins`")
    if not Path("/dev/kmsg").exists():
        raise MissingError("/dev/kmsg is not there: run `mknod /dev/kmsg c 1 11`")
