"""One machine of the tour: a detector of its own, and recovery beside it, as they run on ECS or under systemd."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from demo.parts import Part

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from demo.kernellog import KernelLog
    from demo.stage import Stage

KIND: Final = "NeuronHasError"
_ANY_PORT: Final = "127.0.0.1:0"
_STARTS_SECONDS: Final = 30.0
_SHOWS_SECONDS: Final = 10.0


class Machine:
    """A machine, as its own programs see it.

    Args:
        stage: where it is waited for.
        log: its kernel log.
        folder: for its files; made.
        instance: its id.
        name: of its detector, for messages.
    """

    def __init__(self, stage: Stage, log: KernelLog, folder: Path, instance: str, name: str = "detector") -> None:
        folder.mkdir()
        self.instance = instance
        self._stage = stage
        self._folder = folder
        log.prepare(folder / "state", instance)
        own = ["--kubernetes", "off", "--listen", _ANY_PORT, "--instance-id", instance, "--log-format", "json"]
        own += ["--state-dir", str(folder / "state"), "--enable-recovery", "true"]
        self.detector = Part(name, [sys.executable, "-m", "detector", "run", *own, *log.arguments()], folder)

    def wait_ready(self) -> None:
        """Wait until its detector can be relied on."""
        self._stage.until(self.detector.port, seconds=_STARTS_SECONDS, what=f"the {self.detector.name} starts")
        ready = self._ready
        self._stage.until(ready, seconds=_STARTS_SECONDS, what=f"the {self.detector.name} reads the kernel log")

    def _ready(self) -> bool:
        return bool(self.detector.page("/readyz"))

    def recovery(self, command: str, env: Mapping[str, str], *more: str) -> Part:
        """Make recovery, or one of its commands, beside the detector."""
        own = ["--kubernetes", "off", "--instance-id", self.instance, "--node-name", "trn1-node", "--poll", "1s"]
        own += ["--detector-url", f"{self.detector.url}/metrics", "--state-dir", str(self._folder / "ledger")]
        own += ["--config", str(self._config()), "--listen", _ANY_PORT, "--log-format", "json"]
        name = "recovery" if command == "run" else f"recovery {command}"
        arguments = [sys.executable, "-m", "recovery", command, *own, *more]
        return Part(name, arguments, self._folder, dict(env) | {"CHIPWARDEN_STANDALONE_WAIT": "0s"})

    def _config(self) -> Path:
        path = self._folder / "recovery.yaml"
        path.write_text(json.dumps({"policies": {"default": {"confirmFor": "2s"}}}))
        return path

    def condition(self) -> dict[str, str]:
        """Tell its condition, when its detector answers.

        Raises:
            StoppedError, DemoError: as `Stage.until`; a detector that has just died is named.
        """
        return self._stage.until(self._condition, seconds=_SHOWS_SECONDS, what="the condition of the node")

    def _condition(self) -> dict[str, str]:
        found: list[dict[str, str]] = self.detector.conditions().get("conditions", [])
        return next((each for each in found if each["type"] == KIND), {})

    def faults(self) -> dict[str, dict[str, Any]]:
        """Tell its faults, by reason."""
        return {fault["reason"]: fault for fault in self.detector.conditions().get("faults", ())}

    def count(self, name: str, *labels: str) -> int:
        """Tell a number on its detector's page; 0 = it is not there."""
        return int(self.detector.metrics().get((name, labels), 0))

    def records(self) -> int:
        """Tell how many records its detector has read."""
        return self.count("chipwarden_detector_records_total")

    def lost(self) -> int:
        """Tell how many records its detector could not read."""
        return self.count("chipwarden_detector_lost_records_total")

    def wait_for_gauge(self, reason: str) -> float:
        """Wait until the metric of a reason is 1; tell when, in monotonic seconds."""
        key = ("problem_gauge", (KIND, reason))
        seen = self._stage.until
        seen(lambda: self.detector.metrics().get(key), seconds=_SHOWS_SECONDS, what=f"the metric of {reason}")
        return time.monotonic()
