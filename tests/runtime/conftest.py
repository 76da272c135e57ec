from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Give back the handlers and levels that a test's `logs.setup` changed."""
    loggers = [logging.getLogger(), logging.getLogger("chipwarden")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)


class LogLines(logging.Handler):
    """Keeps the events that reach the root logger, with their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def events(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    def fields(self, event: str) -> list[dict[str, object]]:
        return [record.__dict__["fields"] for record in self.records if record.getMessage() == event]


@pytest.fixture
def log_lines() -> LogLines:
    """Collect what the code under test logs, from level debug up."""
    lines = LogLines()
    logging.getLogger().addHandler(lines)
    logging.getLogger("chipwarden").setLevel(logging.DEBUG)
    return lines


@pytest.fixture(scope="session")
def imds_simulator() -> Path:
    """Build AWS's simulator of the metadata service, once for each set of versions that imds/go.mod asks for."""
    module = Path(__file__).parent / "imds"
    versions = hashlib.sha256(b"".join((module / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()[:16]
    folder = Path(__file__).parents[2] / ".cache" / "imds" / versions
    program = folder / "ec2-metadata-mock"
    if not program.exists():
        package = "github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock"
        building = folder.with_name(f"{versions}.{os.getpid()}")
        command = ["go", "build", "-trimpath", "-tags", "aemmlinux", "-o", f"{building}/", package]
        subprocess.run(command, cwd=module, check=True, timeout=600)
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)  # at once, so that a build that was interrupted is never taken for a whole one
    return program
