"""Recovery stand-alone, as a program: beside a real detector, with AWS played."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.aws.surroundings import Aws
from tests.detector.kernel import record
from tests.detector.process import Detector, neuron_line, until
from tests.recovery.program import Recovery, recovery
from tests.recovery.servers import Server, hangs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DMA = "NeuronHasError_DMA_ERROR"
MARK = "autoscaling:SetInstanceHealth"


class Machine:
    """One machine of a group of four, with a detector that follows a file.

    Args:
        folder: for all its files.
        aws: where its group is.
        enabled: its detector's ENABLE_RECOVERY.
    """

    def __init__(self, folder: Path, aws: Aws, *, enabled: bool = True) -> None:
        self.aws = aws
        self.folder = folder
        self.group = aws.player.make_group(4, launch_seconds=0.3, terminate_seconds=0.3)
        self.instance = aws.player.instances(self.group)[1]
        self.kmsg = folder / "kmsg"
        self.kmsg.touch()
        self.config = folder / "recovery.yaml"
        self.config.write_text(json.dumps({"policies": {DMA: {"confirmFor": "1s"}}}))
        self.detector = Detector(folder, instance=self.instance)
        self.detector.start("--kmsg", self.kmsg, "--kmsg-follow", "--enable-recovery", str(enabled).lower())
        self.recovery = Recovery(folder, *self.arguments(), env=self.env())

    def arguments(self) -> list[str]:
        own = ["--kubernetes", "off", "--instance-id", self.instance, "--node-name", "me", "--poll", "1s"]
        own += ["--detector-url", f"{self.detector.url}/metrics", "--state-dir", str(self.folder / "ledger")]
        return [*own, "--config", str(self.config)]

    def env(self) -> dict[str, str]:
        return self.aws.env() | {"CHIPWARDEN_STANDALONE_WAIT": "1s"}

    def write(self, code: str) -> None:
        with self.kmsg.open("ab") as file:
            file.write(record(1, neuron_line(code, self.instance)))

    def end(self) -> None:
        self.recovery.kill()
        self.detector.kill()


@pytest.fixture
def aws() -> Iterator[Aws]:
    with Aws() as played:
        yield played


@pytest.fixture
def machine(tmp_path: Path, aws: Aws) -> Iterator[Machine]:
    made = Machine(tmp_path, aws)
    yield made
    made.end()


def test_a_machine_alone_gives_itself_away_once_and_no_other(machine: Machine) -> None:
    machine.recovery.start()
    until(lambda: machine.recovery.page("/readyz")[0] == 200)
    assert machine.aws.proxy.actions() <= {"cloudwatch:PutMetricData"}
    machine.write("DMA_ERROR")
    until(lambda: machine.aws.proxy.of(MARK), seconds=20, what="marked Unhealthy")
    until(lambda: machine.instance not in machine.aws.player.instances(machine.group), seconds=10)
    until(lambda: len(machine.aws.player.instances(machine.group)) == 4, seconds=10, what="replaced")
    (call,) = machine.aws.proxy.of(MARK)
    assert call.parameters["InstanceId"] == machine.instance
    assert (call.parameters["HealthStatus"], call.parameters["ShouldRespectGracePeriod"]) == ("Unhealthy", "false")
    names = [
        datum["MetricName"]
        for sent in machine.aws.proxy.of("cloudwatch:PutMetricData")
        for datum in sent.parameters["MetricData"]
        if datum["Values"] == [1.0]
    ]
    assert DMA in names
    assert machine.recovery.resident_bytes() < 80 << 20
    assert machine.recovery.stop() == 0


def test_a_detector_that_does_not_enable_recovery_is_obeyed(tmp_path: Path, aws: Aws) -> None:
    machine = Machine(tmp_path, aws, enabled=False)
    try:
        machine.recovery.start()
        machine.write("DMA_ERROR")
        ledger = until(
            lambda: [entry for entry in _ledger(machine) if entry["state"] == "admitted"], seconds=20, what="admitted"
        )
        assert [(entry["would"], entry["instance"], entry["outcome"]) for entry in ledger] == [
            (True, machine.instance, None)
        ]
        time.sleep(2)  # two more polls, in which nothing may happen
        assert machine.aws.proxy.of(MARK) == []
        assert machine.recovery.metric("paused") == 0
    finally:
        machine.end()


def _ledger(machine: Machine) -> list[dict[str, object]]:
    shown = recovery("ledger", "--output", "json", *machine.arguments(), env=machine.env())
    assert shown.returncode == 0, shown.stderr
    ledger = json.loads(shown.stdout)["ledger"]
    return list(ledger["entries"]) if ledger else []


def test_a_plan_shows_what_would_be_done_and_touches_nothing(machine: Machine) -> None:
    quiet = recovery("plan", *machine.arguments(), env=machine.env())
    assert (quiet.returncode, "no node has a fault" in quiet.stdout) == (0, True), quiet
    machine.write("DMA_ERROR")
    plan = until(lambda: _planned(machine), what="past confirmFor")
    (node,) = plan["nodes"]
    assert (node["node"], node["reason"], node["group"]) == ("me", DMA, machine.group)
    assert (node["action"], node["faultClass"], node["would"]) == ("replace", "dead", False)
    assert plan["budgetRemainingInAll"] == 3
    text = recovery("plan", *machine.arguments(), env=machine.env())
    assert DMA in text.stdout
    assert "Describe" in " ".join(machine.aws.proxy.actions())
    assert machine.aws.proxy.of(MARK) == []
    assert not (machine.folder / "ledger").exists()


def _planned(machine: Machine) -> dict[str, Any] | None:
    """Ask for a plan; None = nothing is to be done yet."""
    done = recovery("plan", "--output", "json", *machine.arguments(), env=machine.env())
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan if [node for node in plan["nodes"] if node["decision"] in ("fenced", "admitted")] else None


def test_a_plan_about_a_detector_that_is_not_there_is_blind_not_healthy(machine: Machine) -> None:
    machine.detector.stop()
    done = recovery("plan", "--output", "json", *machine.arguments(), env=machine.env())
    assert json.loads(done.stdout)["observations"]["blind"] == 1
    assert json.loads(done.stdout)["observations"]["healthy"] == 0
    assert list(json.loads(done.stdout)["blind"]) == ["me"]
    assert done.returncode == 1


def test_a_pause_holds_and_its_end_lets_go(machine: Machine) -> None:
    paused = recovery("pause", "maintenance until Friday", *machine.arguments())
    assert paused.returncode == 0
    machine.recovery.start()
    machine.write("DMA_ERROR")
    until(lambda: machine.recovery.metric("blocked_total", "Paused") == 1, seconds=15, what="blocked")
    assert machine.recovery.metric("paused") == 1
    assert machine.aws.proxy.of(MARK) == []
    done = recovery("resume", *machine.arguments())
    assert (done.returncode, "maintenance until Friday" in done.stdout) == (0, True)
    until(lambda: machine.aws.proxy.of(MARK), seconds=20, what="marked Unhealthy")


def test_it_ends_in_time_whatever_hangs(machine: Machine) -> None:
    machine.detector.kill()
    with Server(hangs(seconds=20)) as server:
        arguments = [*machine.arguments(), "--detector-url", f"http://127.0.0.1:{server.port}/metrics"]
        hanging = Recovery(machine.folder, *arguments, env=machine.env()).start()
        until(lambda: server.requests, seconds=10)
        began = time.monotonic()
        assert hanging.stop() == 0
        assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--listen", "nowhere"], "cannot listen on 'nowhere'"),
        (["run", "--poll", "0s"], "poll: 0s is too short"),
        (["plan", "--prometheus-url", "x"], "prometheusUrl"),
        (["run", "--config", "/nonexistent.yaml"], "/nonexistent.yaml: cannot be read"),
        (["run", "--kubernetes", "off", "--listen", "127.0.0.1:0"], "region: unknown; AWS_REGION is not set"),
    ],
)
def test_bad_settings_are_exit_code_2_and_one_sentence(arguments: list[str], words: str) -> None:
    done = recovery(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("chipwarden-recovery: ")]) == 1
