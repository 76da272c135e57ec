"""`bundle`: everything a support case needs, in one archive that tells nothing secret."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.detector.builders import rule_file, written
from tests.detector.kernel import record
from tests.detector.opened import INSTANCE, Log, Opened, alone, piped, settings_of
from tests.detector.process import chipwarden, command, environment, neuron_line, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.detector.process import Detector

DMA = "NeuronHasError_DMA_ERROR"
ALL_FILES = {
    "kernel_log.json", "kernel_log.jsonl", "machine.json", "manifest.json", "pages/conditions.json",
    "pages/healthz.txt", "pages/metrics.txt", "pages/readyz.txt", "processes.json", "rules.json", "settings.yaml",
    "state.json", "state_dir.json",
}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> list[str | Path]:
    return alone(tmp_path)


def written_state(detector: Detector) -> str:
    """Read its state file; an empty text if there is none yet."""
    path = detector.state_dir / "state.json"
    return path.read_text() if path.exists() else ""


# Of a detector that runs.


def test_a_running_detector_is_in_it_from_its_settings_to_its_memory(
    new_detector: Callable[..., Detector], log: Log, tmp_path: Path
) -> None:
    detector = new_detector().start("--kmsg", log.path, "--kmsg-follow")
    log.say(neuron_line("DMA_ERROR", detector.instance, device=11))
    log.say("benign", times=50)
    until(detector.faults)
    until(lambda: DMA in written_state(detector))
    done = chipwarden("bundle", *settings_of(detector, "--kmsg", log.path, "--kmsg-follow"), "--output", tmp_path / "x")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = done.stdout.splitlines()
    assert re.fullmatch(rf"{tmp_path}/x: \d+ KiB, {len(ALL_FILES)} files", told[0])
    assert re.match(r"redacted: .*1 ip\b", told[-2])
    assert told[-1].startswith("Look through it before you send it")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600

    opened = Opened((tmp_path / "x").read_bytes())
    assert set(opened.files) == ALL_FILES
    assert opened.missing() == {}
    assert opened.json("state.json")["faults"][0]["reason"] == DMA
    assert opened.json("pages/conditions.json")["faults"][0]["details"]["nd-id"] == "11"
    assert f'problem_gauge{{type="NeuronHasError",reason="{DMA}"}} 1' in opened.files["pages/metrics.txt"]
    assert opened.files["pages/readyz.txt"] == "ok\n"
    assert opened.json("machine.json")["instance"] == detector.instance
    assert opened.json("machine.json")["boot"] == detector.boot_id_file.read_text().strip()
    (process,) = (each for each in opened.json("processes.json") if each["pid"] == detector.process.pid)
    assert int(process["status"]["VmRSS"].split()[0]) > 10_000
    assert "kmsgFollow: true" in opened.files["settings.yaml"]


def test_the_lines_around_a_fault_come_with_numbers_stamps_and_verdicts(log: Log, here: list[str | Path]) -> None:
    log.say(neuron_line("DMA_ERROR", INSTANCE))
    log.say("benign", times=100)
    opened = piped(*here)
    lines = opened.kernel_log()
    assert [line["sequence"] for line in lines] == [*range(80, 121), *range(181, 201)]
    assert [line["stamp_us"] for line in lines[:20]] == list(range(80, 100))
    (hit,) = (line for line in lines if "verdicts" in line)
    assert hit["sequence"] == 100
    (verdict,) = hit["verdicts"]
    assert (verdict["reason"], verdict["action"], verdict["foreign"]) == (DMA, "replace", False)
    summary = opened.json("kernel_log.json")
    assert (summary["records"], summary["lost"], summary["lines_by_reason"]) == (201, 0, {DMA: 1})


def test_the_real_kernel_log_is_read_beside_the_detector_without_disturbing_it(detector: Detector) -> None:
    detector.write("HBM_UNCORRECTABLE_ERROR", device=3)
    until(detector.faults)
    opened = piped(*settings_of(detector))
    hits = [line for line in opened.kernel_log() if detector.instance in line["text"]]
    assert [verdict["reason"] for verdict in hits[-1]["verdicts"]] == ["NeuronHasError_HBM_UNCORRECTABLE_ERROR"]
    assert "hostname=<ip-" in hits[-1]["text"]
    assert opened.json("machine.json")["kernel_log_bytes"] >= 1 << 12
    assert detector.metric("reader_up") == 1
    assert detector.faults() == {"NeuronHasError_HBM_UNCORRECTABLE_ERROR": 1}


def test_a_stopped_detector_is_waited_for_only_a_few_seconds(new_detector: Callable[..., Detector], log: Log) -> None:
    detector = new_detector().start("--kmsg", log.path, "--kmsg-follow")
    detector.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    opened = piped(*settings_of(detector, "--kmsg", log.path, "--kmsg-follow"))
    detector.process.send_signal(signal.SIGCONT)
    assert time.monotonic() - began < 10
    assert "timed out" in opened.missing()["pages"]
    assert detector.process.pid in [each["pid"] for each in opened.json("processes.json")]


def test_a_killed_detector_leaves_enough_to_tell_what_it_knew(new_detector: Callable[..., Detector], log: Log) -> None:
    detector = new_detector().start("--kmsg", log.path, "--kmsg-follow")
    log.say(neuron_line("DMA_ERROR", detector.instance))
    until(lambda: DMA in written_state(detector))
    detector.process.send_signal(signal.SIGKILL)
    detector.process.wait(5)
    opened = piped(*settings_of(detector, "--kmsg", log.path, "--kmsg-follow"))
    assert "no detector answers at 127.0.0.1 port" in opened.missing()["pages"]
    assert opened.json("state.json")["faults"][0]["reason"] == DMA
    assert opened.json("kernel_log.json")["lines_by_reason"] == {DMA: 1}


def test_a_fault_whose_line_is_gone_is_named(new_detector: Callable[..., Detector], log: Log) -> None:
    detector = new_detector().start("--kmsg", log.path, "--kmsg-follow")
    log.say(neuron_line("DMA_ERROR", detector.instance))
    until(lambda: DMA in written_state(detector))
    log.path.write_bytes(record(5_000))
    opened = piped(*settings_of(detector, "--kmsg", log.path, "--kmsg-follow"))
    assert opened.json("kernel_log.json")["active_without_a_line"] == [DMA]


# What it does not tell.


def test_nothing_that_is_secret_gets_into_any_part(
    new_detector: Callable[..., Detector], log: Log, tmp_path: Path
) -> None:
    detector = new_detector().start("--kmsg", log.path, "--kmsg-follow", env={"CHIPWARDEN_CANARY": "canary-1"})
    secrets = ["10.9.8.7", "06:1a:2b:3c:4d:5e", "hunter2", "AKIAIOSFODNN7EXAMPLE", "alice", "db1.corp.internal"]
    log.say(f"train --db-password {secrets[2]} from {secrets[0]} {secrets[1]} {secrets[3]} /home/alice {secrets[5]}")
    log.say(f"{neuron_line('DMA_ERROR', detector.instance)} token=hunter2")
    log.say('audit: type=1309 audit(1.2:3): argc=2 a0="mysql" a1="-phunter2"')
    rules = tmp_path / "mine.yaml"
    rules.write_bytes(written(rule_file(metadata={"name": "mine"})) + b"# ask alice@db1.corp.internal\n")
    until(detector.faults)
    settings = settings_of(detector, "--kmsg", log.path, "--kmsg-follow", "--rules", "neuron", "--rules", rules)
    env = {"CHIPWARDEN_CANARY": "canary-2", "NODE_NAME": "node-of-mine"}
    opened = piped(*settings, env=env)
    everything = "\n".join(f"{name}\n{text}" for name, text in opened.files.items())
    own = [socket.gethostname()] if len(socket.gethostname()) > 3 else []
    for secret in [*secrets, "ip-10-0-0-1", "canary-1", "canary-2", "node-of-mine", *own]:
        assert secret not in everything
    text = next(line["text"] for line in opened.kernel_log() if line["text"].startswith("train"))
    assert text == ("train --db-password <hidden-2> from <ip-2> <mac-1> <hidden-3> /home/<user-1> <host-2>")
    assert opened.manifest["redacted"]["ip"]["values"] == 2  # the address, and the host name made of one


def test_names_stay_when_asked_for(log: Log, here: list[str | Path]) -> None:
    log.say("on db1.corp.internal 10.9.8.7")
    assert piped(*here, "--keep-names").kernel_log()[-1]["text"] == "on db1.corp.internal <ip-1>"


# Where it goes.


def test_without_output_it_makes_a_new_file_where_one_is(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    log.say("benign")
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(command("bundle", *here), cwd=place, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = place.iterdir()
    assert re.fullmatch(r"chipwarden-bundle-\d{8}T\d{6}Z\.tar\.gz", file.name)
    assert done.stdout.decode().startswith(f"{file}: ")


@pytest.mark.real
def test_a_full_disk_is_told_in_one_sentence_and_nothing_is_left(
    log: Log, here: list[str | Path], small_disk: Path
) -> None:
    log.say("benign")
    (small_disk / "ballast").write_bytes(b"x" * (64 << 10))
    done = chipwarden("bundle", *here, "--output", small_disk / "x.tar.gz")
    assert done.returncode == 1
    assert done.stderr == (
        f"chipwarden-detector: {small_disk}/x.tar.gz cannot be written: No space left on device "
        "(--output takes another place, or - for standard output)\n"
    )
    assert [file.name for file in small_disk.iterdir()] == ["ballast"]


@pytest.mark.parametrize("place", ["/dev/null", "/proc/none/x", "/proc/x", "/tmp"])  # noqa: S108 - a folder there is
def test_a_place_that_takes_no_file_is_told_at_once(here: list[str | Path], place: str) -> None:
    done = chipwarden("bundle", *here, "--output", place)
    assert done.returncode == 1
    (told,) = done.stderr.splitlines()
    assert place.rpartition("/")[0] in told
    assert not Path("/dev/null").is_file()


def test_a_full_standard_output_is_told_in_one_sentence(log: Log, here: list[str | Path]) -> None:
    log.say("benign")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("bundle", *here, "--output", "-"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"chipwarden-detector: standard output cannot be written: No space left on device\n"


def test_a_folder_that_nobody_may_look_into_is_told_in_one_sentence(here: list[str | Path], tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    without = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]  # root too
    done = subprocess.run(
        [*without, *command("bundle", *here, "--output", closed / "x")],
        capture_output=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.decode().startswith(
        f"chipwarden-detector: {closed}/x cannot be written: Permission denied (--output"
    )
    assert len(done.stderr.splitlines()) == 1


def on_a_terminal(*arguments: str | Path) -> tuple[int, str]:
    """Run the command with both outputs on a terminal."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        command("bundle", *arguments), stdout=theirs, stderr=theirs, env=environment(), timeout=30, check=False
    )
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    return done.returncode, shown


def test_a_terminal_shows_what_is_being_looked_at(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    log.say("benign")
    code, shown = on_a_terminal(*here, "--output", tmp_path / "x")
    assert code == 0
    assert "looking at: kernel log" in shown
    assert shown.rpartition("\033[K")[2].startswith(str(tmp_path))


def test_a_terminal_gets_no_archive(here: list[str | Path]) -> None:
    code, shown = on_a_terminal(*here, "--output", "-")
    assert code == 1
    assert "name a file with --output" in shown
