"""Make a virtualenv with the locked dependencies; needs nothing but Python's standard library.

`python3 tools/install.py VENV REQUIREMENTS`: on Debian with root it installs python3-venv if that is missing; whatever
else lacks is said in one sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)


def main() -> int:
    """Install, and return the exit code."""
    if len(sys.argv) != 3:  # noqa: PLR2004 - two arguments and the program
        return _say("usage: python3 tools/install.py VENV REQUIREMENTS")
    if sys.version_info < OLDEST:
        return _say(f"needs Python {'.'.join(map(str, OLDEST))} or newer, this is {sys.version.split()[0]}")
    venv, requirements = Path(sys.argv[1]), Path(sys.argv[2])
    python = venv / "bin" / "python"
    if venv.exists() and not all(os.access(each, os.W_OK) for each in (venv, python.parent) if each.exists()):
        return _say(f"{venv} belongs to another user: remove it (sudo rm -r {venv}) or use it with sudo")
    if _is_copied(venv) or not _has_pip(python):
        why_not = _create(venv)
        if why_not:
            return _say(why_not)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    if subprocess.run([*pip, "--require-hashes", "-r", str(requirements)], check=False).returncode:  # noqa: S603 - fixed
        return _say(f"the packages of {requirements} could not be installed (is a package index reachable?)")
    if "hatchling" in requirements.read_text():
        subprocess.run([*pip, "--no-build-isolation", "--editable", "."], check=True)  # noqa: S603 - fixed arguments
        (venv / ".installed").touch()
    return 0


def _has_pip(python: Path) -> bool:
    run = [str(python), "-m", "pip", "--version"]
    return python.exists() and not subprocess.run(run, check=False, capture_output=True).returncode  # noqa: S603 - fixed


def _is_copied(venv: Path) -> bool:
    """Tell whether it was made elsewhere: its programs would go on using what is there.

    Source: CPython Lib/venv/__init__.py, create_configuration: pyvenv.cfg's `command` ends with the path (since 3.11;
    read 2026-11-30). A file without it says nothing.
    """
    try:
        lines = (venv / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return False
    command = next((line for line in lines if line.startswith("command = ")), "")
    return bool(command) and not command.endswith((f" {venv.absolute()}", f" {venv.resolve()}"))


def _create(venv: Path) -> str | None:
    """Create the virtualenv; say why not."""
    create = [sys.executable, "-m", "venv", "--clear", str(venv)]
    if not subprocess.run(create, check=False, capture_output=True).returncode:  # noqa: S603 - fixed arguments
        return None
    apt = shutil.which("apt-get")
    if not apt or os.geteuid() != 0:
        return "Python's venv module is incomplete: install it (on Debian: apt-get install python3-venv)"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "python3-venv"]):
        subprocess.run([apt, *step], check=False, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 - fixed
    if subprocess.run(create, check=False, capture_output=True).returncode:  # noqa: S603 - fixed arguments
        return "no virtualenv can be made even with python3-venv installed (try: python3 -m venv .venv)"
    return None


def _say(sentence: str) -> int:
    print(f"install: {sentence}", file=sys.stderr)  # noqa: T201 - a command
    return 1


if __name__ == "__main__":
    sys.exit(main())
