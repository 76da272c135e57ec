"""The systemd units: systemd takes them, and what they leave to a program is enough for it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from detector.settings import LAYERS as DETECTOR
from recovery.settings import LAYERS as RECOVERY
from tests.detector.process import Detector, until
from tests.docs.pages import REPOSITORY, read

if TYPE_CHECKING:
    from pathlib import Path

UNITS = sorted((REPOSITORY / "manifests" / "systemd").glob("*.service"))
# What MemoryDenyWriteExecute does, by prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN), which an exec keeps.
# Source: torvalds/linux include/uapi/linux/prctl.h (read 2026-11-30).
_DENY_EXEC_GAIN = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


def _options(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.fixture
def installed(tmp_path: Path) -> list[Path]:
    """The units, with a Python that is really there."""
    assert shutil.which("systemd-analyze"), "systemd-analyze not found: run `apt-get install systemd`"
    units = []
    for unit in UNITS:
        text = unit.read_text().replace("/opt/chipwarden/.venv/bin/python", sys.executable)
        path = tmp_path / unit.name
        path.write_text(text.replace("=/opt/chipwarden", f"={REPOSITORY}"))
        units.append(path)
    return units


@pytest.mark.real
def test_systemd_takes_them(installed: list[Path]) -> None:
    command = ["systemd-analyze", "verify", "--man=no", *map(str, installed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    ours = [line for line in done.stderr.splitlines() if "chipwarden" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.real
def test_a_misspelt_option_would_be_noticed(installed: list[Path]) -> None:
    installed[0].write_text(installed[0].read_text().replace("ProtectHome=", "ProtectHomes="))
    command = ["systemd-analyze", "verify", "--man=no", str(installed[0])]
    assert "ProtectHomes" in subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr


@pytest.mark.real
@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_they_are_as_tight_as_systemd_knows_to_say(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    level = re.search(rf"Overall exposure level for {unit.name}: ([\d.]+)", done.stdout)
    assert level, done.stdout + done.stderr
    assert float(level[1]) < 3


def test_the_detector_keeps_its_kernel_log_and_boot_id() -> None:
    (unit,) = (unit for unit in UNITS if "detector" in unit.name)
    options = _options(unit)
    assert options["DeviceAllow"] == ["/dev/kmsg r"]
    assert not {"ProtectKernelLogs", "PrivateDevices", "ProcSubset"} & options.keys()
    assert options["CapabilityBoundingSet"] == ["CAP_SYSLOG"]


def test_their_variables_are_settings() -> None:
    known = {name for layers in (DETECTOR, RECOVERY) for field in layers.fields for name in field.env}
    named = {name for unit in UNITS for name in re.findall(r"CHIPWARDEN_\w+", unit.read_text())}
    assert named <= known
    assert all("MALLOC_ARENA_MAX=1" in " ".join(_options(unit)["Environment"]) for unit in UNITS)


@pytest.mark.parametrize(("program", "file"), [("detector", "environment"), ("recovery", "recovery-environment")])
def test_the_command_that_the_page_installs_runs_with_the_settings_of_the_service(
    tmp_path: Path, program: str, file: str
) -> None:
    (tmp_path / file).write_text('# ours\nCHIPWARDEN_INSTANCE_ID="i-0123456789abcdef0"\nAWS_REGION=us-east-2\n')
    page = read(REPOSITORY / "docs" / "install-standalone.md")
    commands = [command.text for block in page.blocks for command in block.commands]
    (makes,) = (text for text in commands if text.endswith(f"/usr/local/bin/chipwarden-{program}") and "printf" in text)
    for there, here in (
        ("sudo ", ""),
        ("/usr/local/bin", str(tmp_path)),
        ("/etc/chipwarden", str(tmp_path)),
        ("/opt/chipwarden/.venv/bin/python", sys.executable),
        ("/opt/chipwarden", str(REPOSITORY)),
    ):
        makes = makes.replace(there, here)
    subprocess.run(["/bin/sh", "-c", makes], check=True, capture_output=True, timeout=60)
    run = ["/bin/sh", str(tmp_path / f"chipwarden-{program}"), "run", "--print-settings"]
    done = subprocess.run(
        run, capture_output=True, text=True, check=False, timeout=60, cwd="/", env={"PATH": "/usr/bin:/bin"}
    )
    expected = 'instanceId: "i-0123456789abcdef0"' if program == "detector" else 'region: "us-east-2"'
    assert expected in done.stdout.splitlines(), done.stderr


@pytest.mark.real
def test_what_the_unit_leaves_is_enough_to_read_the_kernel_log(tmp_path: Path) -> None:
    """No new privileges, one capability, no memory that is first written and then run."""
    detector = Detector(tmp_path)
    bare = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all,+syslog", "--"]
    try:
        detector.start(through=[sys.executable, "-c", _DENY_EXEC_GAIN, *bare])
        detector.write("DMA_ERROR")
        until(detector.faults, what="it sees the fault")
        assert detector.stop() == 0
    finally:
        detector.kill()
