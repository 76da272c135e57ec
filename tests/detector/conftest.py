"""Detectors of a test's own, and a kernel log that takes floods."""

from __future__ import annotations

import contextlib
import logging
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.detector.kernel import record
from tests.detector.process import Detector, new_instance_id
from tests.detector.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RATE_LIMIT = Path("/proc/sys/kernel/printk_devkmsg")


@contextlib.contextmanager
def kernel_setting(file: Path, value: str) -> Iterator[None]:
    """Set a sysctl for a while; the kernel takes this one only with a newline at its end."""
    before = file.read_text()
    file.write_text(value + "\n")
    try:
        yield
    finally:
        file.write_text(before)


@pytest.fixture(scope="session")
def _floods_allowed() -> Iterator[None]:
    """Lift the rate limit of writes to /dev/kmsg, which drops lines without a word."""
    with kernel_setting(_RATE_LIMIT, "on"):
        yield


@pytest.fixture
def rate_limited(_floods_allowed: None) -> Iterator[None]:
    """Bring the rate limit back for one test."""
    with kernel_setting(_RATE_LIMIT, "ratelimit"):
        yield


@pytest.fixture
def _dmesg_restricted() -> Iterator[None]:
    """Have the kernel ask for CAP_SYSLOG before it shows its log."""
    with kernel_setting(Path("/proc/sys/kernel/dmesg_restrict"), "1"):
        yield


@pytest.fixture
def instance() -> str:
    """Make up an instance id that no line in the kernel log speaks of yet."""
    return new_instance_id()


@pytest.fixture
def new_detector(tmp_path: Path, _floods_allowed: None) -> Iterator[Callable[..., Detector]]:
    """Make detectors that end with the test: `new_detector(instance=...)`, not started yet."""
    made: list[Detector] = []

    def make(**options: str) -> Detector:
        folder = tmp_path / f"detector{len(made)}"
        folder.mkdir()
        made.append(Detector(folder, **options))
        return made[-1]

    yield make
    for detector in made:
        detector.kill()


@pytest.fixture
def detector(new_detector: Callable[..., Detector]) -> Detector:
    """Start a detector on the kernel log, ready when the test begins."""
    return new_detector().start()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def new_rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def make(*answers: bytes | int, **options: object) -> Rig:
        rigs.append(Rig(tmp_path, *answers, **options))  # type: ignore[arg-type]
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.source.close()
        rig.keeper.close()


@pytest.fixture
def rig(new_rig: Callable[..., Rig]) -> Rig:
    """Start a loop that has read one benign line."""
    made = new_rig(record(1))
    made.agent.open()
    made.reads()
    return made


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[object]]:
    """List the reasons of all announcements so far."""
    caplog.set_level(logging.INFO, "chipwarden.detector.outlets")
    return lambda: [
        line.__dict__["fields"]["reason"] for line in caplog.records if line.message in ("problem", "notice")
    ]
