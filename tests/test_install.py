"""The installer: it uses a virtualenv that is its own, makes one anew that is not, and leaves another user's alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[1] / "tools" / "install.py"
_NOBODY = 65534


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    """Requirements without a package."""
    path = tmp_path / "nothing.txt"
    path.write_text("# nothing\n")
    return path


@pytest.mark.real
def test_another_users_virtualenv_is_refused_in_one_sentence(tmp_path: Path, nothing: Path) -> None:
    made = tmp_path / ".venv"
    (made / "bin").mkdir(parents=True)
    for path in (made, made / "bin"):
        os.chown(path, _NOBODY, _NOBODY)
    powerless = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--"]  # root's own rights end at others' files
    done = subprocess.run(
        [*powerless, sys.executable, INSTALL, ".venv", nothing],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "install: .venv belongs to another user: remove it (sudo rm -r .venv) or use it with sudo\n",
    )


def test_a_copied_virtualenv_is_made_anew_and_ones_own_is_kept(tmp_path: Path, nothing: Path) -> None:
    own, copied = tmp_path / "own", tmp_path / "copied"
    venv.create(own, with_pip=True, symlinks=True)
    (own / "left").touch()
    shutil.copytree(own, copied, symlinks=True)
    for path in (own, copied):
        subprocess.run([sys.executable, INSTALL, path, nothing], check=True, capture_output=True, timeout=120)
    assert ((own / "left").exists(), (copied / "left").exists()) == (True, False)
    assert str(copied) in (copied / "pyvenv.cfg").read_text()
