"""Programs built once for each state of their pins, and found again: what the build scripts of the tests share.

It must not need anything but Python's standard library and Go, for the scripts run before there is a virtualenv.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def place(source: Path, names: Sequence[str]) -> Path:
    """Return where what is built belongs, whether built yet or not.

    The name is a hash of all that decides what is built, so a changed pin never meets an old program.

    Args:
        source: the folder with the pins; what is built is named after it.
        names: files in it.
    """
    digest = hashlib.sha256()
    for name in names:
        content = (source / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return REPOSITORY / ".cache" / source.name / digest.hexdigest()[:16]


def go() -> str:
    """Find Go, or end with what to do."""
    found = shutil.which("go")
    if found is None:
        raise SystemExit("Go is missing: install it from https://go.dev/dl (1.26 or newer) and run `make kubernetes`")
    return found


def provide(target: Path, build: Callable[[Path], None], is_complete: Callable[[Path], bool]) -> int:
    """Build unless already built, print the folder, and return the exit code.

    It appears in one step, so that a broken build leaves nothing half done.

    Args:
        target: where it belongs.
        build: puts everything into an empty folder.
        is_complete: tells whether everything is there.
    """
    if not is_complete(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / "built"
            built.mkdir()
            try:
                build(built)
                built.rename(target)
            except subprocess.CalledProcessError as error:
                return int(error.returncode)
            except OSError:
                # Another build of the same pins finished first: its programs are the same.
                if not is_complete(target):
                    raise
    sys.stdout.write(f"{target}\n")
    return 0
