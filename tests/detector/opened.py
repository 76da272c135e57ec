"""A support archive as whoever gets it sees it, and the command that writes it, started as a user starts it."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

from tests.detector.kernel import record
from tests.detector.process import command, environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.detector.process import Detector

INSTANCE = "i-0a1b2c3d4e5f60718"


class Opened:
    """An archive, as whoever gets it sees it."""

    def __init__(self, content: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            folders = {entry.name.partition("/")[0] for entry in archive}
            files = {entry.name.partition("/")[2]: archive.extractfile(entry) for entry in archive}
            self.files = {name: file.read().decode("utf-8", "replace") for name, file in files.items() if file}
        assert len(folders) == 1
        self.manifest: dict[str, Any] = json.loads(self.files["manifest.json"])
        assert [entry["name"] for entry in self.manifest["files"]] == sorted(set(self.files) - {"manifest.json"})

    def json(self, name: str) -> Any:
        return json.loads(self.files[name])

    def kernel_log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files["kernel_log.jsonl"].splitlines()]

    def missing(self) -> dict[str, str]:
        return {entry["what"]: entry["why"] for entry in self.manifest["missing"]}


class Log:
    """A recorded kernel log with a fault between many other lines."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kmsg"
        self.path.write_bytes(b"".join(record(number, "benign", stamp_us=number) for number in range(100)))
        self.next = 100

    def say(self, text: str, times: int = 1) -> None:
        with self.path.open("ab") as file:
            file.writelines(record(self.next + number, text, priority=3) for number in range(times))
        self.next += times


def alone(folder: Path) -> list[str | Path]:
    """Settings with which the command sees only what is in a test's own folder."""
    own: list[str | Path] = ["--kubernetes", "off", "--listen", "127.0.0.1:1", "--instance-id", INSTANCE]
    return [*own, "--state-dir", folder / "state", "--kmsg", folder / "kmsg", "--kmsg-follow"]


def settings_of(detector: Detector, *more: str | Path) -> list[str | Path]:
    """Settings of a running detector."""
    own: list[str | Path] = ["--kubernetes", "off", "--listen", detector.url.partition("//")[2]]
    own += ["--instance-id", detector.instance, "--state-dir", detector.state_dir]
    return [*own, "--boot-id-file", detector.boot_id_file, *more]


def piped(*arguments: str | Path, **how: Any) -> Opened:
    """Run the command with the archive on its standard output."""
    done = subprocess.run(
        [*how.get("through", ()), *command("bundle", *arguments, "--output", "-")],
        capture_output=True,
        env=environment(**how.get("env", {})),
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Opened(done.stdout)
