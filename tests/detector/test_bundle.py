"""`bundle`: everything a support case needs in one archive, from a detector that works, hangs, is broken or is dead."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runtime.pages import Page, Server
from tests.detector.builders import rule_file, written
from tests.detector.kernel import record
from tests.detector.process import chipwarden, command, environment, neuron_line, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.detector.process import Detector

DMA = "NeuronHasError_DMA_ERROR"
INSTANCE = "i-0a1b2c3d4e5f60718"
ALL_FILES = {
    "kernel_log.json", "kernel_log.jsonl", "machine.json", "manifest.json", "pages/conditions.json",
    "pages/healthz.txt", "pages/metrics.txt", "pages/readyz.txt", "processes.json", "rules.json", "settings.yaml",
    "state.json", "state_dir.json",
}  # fmt: skip


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


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> list[str | Path]:
    """Settings with which the command sees only what belongs to the test."""
    own: list[str | Path] = ["--kubernetes", "off", "--listen", "127.0.0.1:1", "--instance-id", INSTANCE]
    return [*own, "--state-dir", tmp_path / "state", "--kmsg", tmp_path / "kmsg", "--kmsg-follow"]


def settings_of(detector: Detector, *more: str | Path) -> list[str | Path]:
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


# Of a detector that runs.


def test_a_running_detector_is_in_it_from_its_settings_to_its_memory(
    new_detector: Callable[..., Detector], log: Log, tmp_path: Path
) -> None:
    detector = new_detector().start("--kmsg", log.path, "--kmsg-follow")
    log.say(neuron_line("DMA_ERROR", detector.instance, device=11))
    log.say("benign", times=50)
    until(detector.faults)
    until(lambda: DMA in (detector.state_dir / "state.json").read_text())
    done = chipwarden("bundle", *settings_of(detector, "--kmsg", log.path, "--kmsg-follow"), "--output", tmp_path / "x")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = done.stdout.splitlines()
    assert re.fullmatch(rf"{tmp_path}/x: \d+ KiB, {len(ALL_FILES)} files", told[0])
    assert told[-2].startswith("redacted: 1 host")
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
    assert "hostname=<host-" in hits[-1]["text"]
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
    until(lambda: detector.state_dir.exists() and DMA in (detector.state_dir / "state.json").read_text())
    detector.process.send_signal(signal.SIGKILL)
    detector.process.wait(5)
    opened = piped(*settings_of(detector, "--kmsg", log.path, "--kmsg-follow"))
    assert "no detector answers at 127.0.0.1 port" in opened.missing()["pages"]
    assert opened.json("state.json")["faults"][0]["reason"] == DMA
    assert opened.json("kernel_log.json")["lines_by_reason"] == {DMA: 1}


def test_a_fault_whose_line_is_gone_is_named(new_detector: Callable[..., Detector], log: Log) -> None:
    detector = new_detector().start("--kmsg", log.path, "--kmsg-follow")
    log.say(neuron_line("DMA_ERROR", detector.instance))
    until(lambda: detector.state_dir.exists() and DMA in (detector.state_dir / "state.json").read_text())
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
    assert text == ("train --db-password <hidden-2> from <ip-1> <mac-1> <hidden-3> /home/<user-1> <host-3>")
    assert opened.manifest["redacted"]["ip"] == {"values": 1, "places": 1}


def test_names_stay_when_asked_for(log: Log, here: list[str | Path]) -> None:
    log.say("on db1.corp.internal 10.9.8.7")
    assert piped(*here, "--keep-names").kernel_log()[-1]["text"] == "on db1.corp.internal <ip-1>"


# When things are broken.


@pytest.mark.real
@pytest.mark.usefixtures("_dmesg_restricted")
def test_without_powers_it_tells_what_it_could_not_read_and_has_the_rest(tmp_path: Path) -> None:
    without = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    opened = piped("--kubernetes", "off", "--listen", "127.0.0.1:1", "--state-dir", tmp_path, through=without)
    assert "permission denied (needs root with capability CAP_SYSLOG" in opened.missing()["kernel log"]
    assert "kernel_log.jsonl" not in opened.files
    assert opened.json("machine.json")["kernel_log_bytes"] is None
    assert {"settings.yaml", "rules.json", "state_dir.json"} <= set(opened.files)


@pytest.mark.parametrize("garbage", ["text", "binary", "pipe", "folder", "none"])
def test_garbage_in_the_state_directory_is_shown_or_named(
    log: Log, here: list[str | Path], tmp_path: Path, garbage: str
) -> None:
    state = tmp_path / "state" / "state.json"
    state.parent.mkdir()
    make = {"pipe": os.mkfifo, "folder": os.mkdir, "none": lambda _: None}
    if garbage in make:
        make[garbage](state)
    else:
        state.write_bytes({"text": b'{"v": 1, "from": "10.9.8.7"', "binary": b"\xff\x00\x01"}[garbage])
    (state.parent / "state.json.rejected-20261130T010203").write_text("x")
    (state.parent / os.fsdecode(b"odd\n\xff")).touch()
    log.say("benign")
    opened = piped(*here)
    told = " ".join(why for what, why in opened.missing().items() if what.startswith("state"))
    assert "state.json" in told
    names = [entry["name"] for entry in opened.json("state_dir.json")]
    assert "state.json.rejected-20261130T010203" in names
    assert (garbage in ("text", "binary")) == ("state.json" in opened.files)
    if garbage == "text":
        assert opened.files["state.json"] == '{"v": 1, "from": "<ip-1>"'


def test_without_a_state_directory_or_a_log_there_are_still_the_settings(here: list[str | Path]) -> None:
    opened = piped(*here)
    assert {"state", "kernel log", "pages"} <= set(opened.missing())
    assert {"settings.yaml", "machine.json", "rules.json"} <= set(opened.files)


def test_a_rule_file_that_does_not_load_is_in_it_with_the_reason(
    log: Log, here: list[str | Path], tmp_path: Path
) -> None:
    rules = tmp_path / "mine.yaml"
    rules.write_text("rules: [}")
    log.say(neuron_line("DMA_ERROR", INSTANCE))
    opened = piped(*here, "--rules", rules, "--rules", "neuron", "--rules", "nosuch")
    assert opened.files["rules/1-mine.yaml"] == "rules: [}"
    assert [entry["loads"] for entry in opened.json("rules.json")] == [False, True, False]
    assert opened.json("kernel_log.json")["lines_by_reason"] == {DMA: 1}
    assert len([entry for entry in opened.manifest["missing"] if entry["what"] == "rules"]) == 2


def test_a_flood_is_read_through_and_stays_small(log: Log, here: list[str | Path]) -> None:
    log.say(neuron_line("DMA_ERROR", INSTANCE), times=50_000)
    opened = piped(*here)
    assert opened.json("kernel_log.json")["lines_by_reason"] == {DMA: 50_000}
    assert len(opened.kernel_log()) < 150


def test_settings_that_are_refused_end_it_with_2() -> None:
    done = chipwarden("bundle", "--heartbeat", "soon", "--output", "-")
    assert done.returncode == 2
    assert "heartbeat" in done.stderr
    assert done.stdout == ""


# The API server.


def kubeconfig(folder: Path, port: int) -> dict[str, str]:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "canary-of-a-token"}}],
            }
        )
    )
    return {"KUBECONFIG": str(path)}


def test_the_own_node_is_in_it(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    node = {
        "metadata": {"name": "node-of-mine", "annotations": {"chipwarden.io/clear": "all", "a": "hunter2"}},
        "status": {"conditions": [{"type": "NeuronHasError", "status": "True", "message": "on node-of-mine"}]},
    }
    log.say("benign")
    server = Server("127.0.0.1:0", {"/api/v1/nodes/node-of-mine": lambda: Page(200, "x", json.dumps(node).encode())})
    server.start()
    asked = [*here, "--kubernetes", "auto", "--node-name", "node-of-mine"]
    opened = piped(*asked, env=kubeconfig(tmp_path, server.port))
    server.close()
    found = opened.json("node.json")
    assert found["name"] == "<host-1>"
    assert found["annotations"] == {"chipwarden.io/clear": "all"}
    assert found["conditions"][0]["message"] == "on <host-1>"
    assert "canary-of-a-token" not in str(opened.files)


def test_an_api_server_that_hangs_costs_only_the_node(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    log.say("benign")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        opened = piped(*here, "--kubernetes", "on", env=kubeconfig(tmp_path, silent.getsockname()[1]))
    assert time.monotonic() - began < 15
    assert "timed out" in opened.missing()["node"]
    assert "kernel_log.jsonl" in opened.files


def test_credentials_that_hang_cost_only_the_node(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    log.say("benign")
    env = kubeconfig(tmp_path, 1)
    config = json.loads(Path(env["KUBECONFIG"]).read_text())
    config["users"][0]["user"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["15"]}
    }
    Path(env["KUBECONFIG"]).write_text(json.dumps(config))
    began = time.monotonic()
    opened = piped(*here, "--kubernetes", "on", env=env)
    assert time.monotonic() - began < 20
    assert opened.missing()["node"] == "the API server gave no answer within 6 s"


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
