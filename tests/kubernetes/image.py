"""Build the small images that tests need, from nothing but static programs.

It must not pull: a test machine may reach no registry.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_ACCEPT_ANYTHING = {"default": [{"type": "insecureAcceptAnything"}]}


def build(archive: Path, reference: str, files: Mapping[str, str], entrypoint: Sequence[str]) -> Path:
    """Build an image with buildah and write it as a docker archive.

    Args:
        archive: Written; must not exist.
        reference: Name and tag, such as ``localhost/pause:test``.
        files: Path in the image -> file of this machine; the programs must be static.
        entrypoint: Command of a container.

    Returns:
        `archive`.
    """
    with tempfile.TemporaryDirectory(prefix="chipwarden-buildah-") as scratch:
        policy = Path(scratch, "policy.json")
        policy.write_text(json.dumps(_ACCEPT_ANYTHING))
        storage = ["--storage-driver=vfs", f"--root={scratch}/root", f"--runroot={scratch}/run"]

        def buildah(*arguments: str) -> str:
            command = ["buildah", *storage, *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip()

        container = buildah("from", f"--signature-policy={policy}", "scratch")
        for inside, outside in files.items():
            buildah("copy", "--quiet", container, outside, inside)
        buildah("config", f"--entrypoint={json.dumps(list(entrypoint))}", container)
        target = f"docker-archive:{archive}:{reference}"
        buildah("commit", "--quiet", f"--signature-policy={policy}", container, target)
    return archive
