"""How the program ends: on a signal from any state, and with which exit code and sentence when it refuses."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import chipwarden, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.detector.process import Detector

# How it ends. Each must be over within the five seconds that `stop` allows.


def test_a_signal_ends_it_while_it_waits(detector: Detector) -> None:
    assert detector.stop() == 0
    assert [line["event"] for line in detector.log()] == ["detector started", "detector stopped"]


def test_control_c_ends_it_as_cleanly(detector: Detector) -> None:
    detector.process.send_signal(signal.SIGINT)
    assert detector.process.wait(5) == 0


FLOOD = """
import os
device = os.open("/dev/kmsg", os.O_WRONLY)
while True:
    os.write(device, b"<15>flood of lines that mean nothing at all to anybody who reads them\\n")
"""


@contextlib.contextmanager
def flood() -> Iterator[None]:
    """Have another process write to the kernel log as fast as it can."""
    command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-c", FLOOD]
    with subprocess.Popen(command) as writer:
        try:
            yield
        finally:
            writer.kill()


def test_a_signal_ends_it_in_a_flood(detector: Detector) -> None:
    with flood():
        until(lambda: detector.metric("overruns_total") + detector.metric("records_total") > 50_000)
        assert detector.stop() == 0


def test_a_signal_ends_it_while_it_cannot_read(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector().start("--kmsg", "/dev/null", ready=False)
    until(lambda: detector.metric("reader_up") == 0)
    assert detector.page("/readyz")[0] == 503
    assert detector.stop() == 0


def test_a_signal_ends_it_while_the_disk_hangs(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector()
    detector.state_dir.mkdir()
    os.mkfifo(detector.state_dir / ".state.json.new")  # opening it for writing waits for a reader for ever
    detector.start()
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {"NeuronHasError_DMA_ERROR": 1})
    assert detector.stop() == 0


def test_a_signal_ends_it_while_it_starts(new_detector: Callable[..., Detector]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        detector = new_detector()
        detector.launch(
            *("run", "--kubernetes", "off", "--listen", "127.0.0.1:0", "--state-dir", detector.state_dir),
            env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint, "AWS_EC2_METADATA_DISABLED": "false"},
        )
        with silent.accept()[0]:  # it asks for its instance id now, and gets no answer
            assert detector.stop() == 0


# What it refuses, and with which exit code.


def test_a_port_in_use_is_refused_and_leaves_the_other_detector_alone(
    detector: Detector, new_detector: Callable[..., Detector], tmp_path: Path
) -> None:
    detector.write("DMA_ERROR")
    file = detector.state_dir / "state.json"
    state = until(lambda: file.exists() and "DMA_ERROR" in file.read_text() and file.read_text())
    done = chipwarden(
        *("run", "--listen", detector.url.removeprefix("http://"), "--state-dir", tmp_path / "other"),
        *("--instance-id", new_detector().instance, "--kubernetes", "off"),
    )
    assert done.returncode == 2
    assert "Address already in use" in done.stderr
    assert file.read_text() == state
    assert detector.faults() == {"NeuronHasError_DMA_ERROR": 1}


def test_two_detectors_on_one_log_both_see_everything(new_detector: Callable[..., Detector]) -> None:
    first = new_detector().start()
    second = new_detector(instance=first.instance).start()
    first.write("DMA_ERROR")
    until(lambda: first.faults() == second.faults() == {"NeuronHasError_DMA_ERROR": 1})


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("regular", "is not a device (a recorded log is followed with --kmsg-follow)"),
        ("folder", "is not a device"),
        ("pipe", "is not a device"),
        ("missing", "there is no such file (in a container, mount the host's /dev/kmsg)"),
        ("regular/below", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_what_is_no_kernel_log_is_refused_in_one_sentence(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "regular").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    done = chipwarden("run", "--kmsg", tmp_path / path, "--listen", "127.0.0.1:0", "--state-dir", tmp_path / "state")
    assert done.returncode == 3
    told = done.stderr.splitlines()[-1]
    assert told.startswith(f"chipwarden-detector: {tmp_path / path} ")
    assert says in told


@pytest.mark.parametrize("path", ["folder", "pipe", "missing", "/dev/kmsg"])
def test_what_cannot_be_followed_is_refused_in_one_sentence(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    more = ("--listen", "127.0.0.1:0", "--state-dir", tmp_path)
    done = chipwarden("run", "--kmsg-follow", "--kmsg", tmp_path / path, *more)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith(f"chipwarden-detector: {tmp_path / path} ")


@pytest.mark.real
@pytest.mark.usefixtures("_dmesg_restricted")
def test_without_the_capability_it_names_the_capability(tmp_path: Path) -> None:
    without = ["setpriv", "--bounding-set", "-syslog", "--inh-caps", "-syslog"]
    done = chipwarden("run", "--listen", "127.0.0.1:0", "--state-dir", tmp_path, through=without)
    assert done.returncode == 3
    assert "/dev/kmsg cannot be opened: permission denied" in done.stderr
    assert "CAP_SYSLOG" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("fly",), "invalid choice: 'fly'"),
        (("run", "--rules", "nonsense"), "nonsense: no such rule set (allowed: neuron, nvidia, amd, gaudi, efa"),
        (("run", "--rules", "/nowhere.yaml"), "/nowhere.yaml: cannot be read: No such file or directory"),
        (("run", "--listen", "nonsense"), "cannot listen on 'nonsense'"),
        (("run", "--listen", "127.0.0.1:99999"), "this is no address"),
        (("run", "--listen", "203.0.113.7:1"), "cannot listen on '203.0.113.7:1'"),
        (("run", "--heartbeat", "soon"), "'soon' is not a duration"),
        (("run", "--heartbeat", "0s"), "heartbeat: 0s is too short or too long (allowed: 1s to 1d)"),
        (("run", "--heartbeat", "25h"), "heartbeat: 25h is too short or too long (allowed: 1s to 1d)"),
        (("run", "--state-dir", ""), "flag --state-dir: expected `str` of length >= 1, got ''"),
        (("run", "--rules", "neuron", "--rules", "neuron"), "rule set 'neuron' is loaded twice"),
        (("run", "--log-level", "loud"), "(allowed: debug, info, warning, error)"),
        (("run", "--boot-id-file", "/nowhere"), "cannot read the boot id from /nowhere"),
        (("inject",), "the following arguments are required: reason"),
        (("inject", "X", "--count", "0"), "'0' is not a whole number from 1 on"),
        (("inject", "X", "--count", "²"), "is not a whole number from 1 on"),
        (("inject", "NoSuchReason"), "NoSuchReason: no rule has this reason (allowed: "),
        (("rules", "check"), "the following arguments are required: FILE"),
        (("replay", "/nowhere"), "/nowhere: cannot be read: No such file or directory"),
    ],
)
def test_bad_arguments_are_refused_with_code_2_and_what_is_allowed(arguments: tuple[str, ...], says: str) -> None:
    done = chipwarden(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_second_detector_on_the_same_state_directory_is_refused_until_the_first_has_ended(
    detector: Detector, new_detector: Callable[..., Detector]
) -> None:
    detector.write("DMA_ERROR")
    until(lambda: (file := detector.state_dir / "state.json").exists() and "DMA_ERROR" in file.read_text())
    done = chipwarden("run", "--listen", "127.0.0.1:0", "--kubernetes", "off", "--state-dir", detector.state_dir)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"chipwarden-detector: stateDir: {detector.state_dir} is in use by another detector "
        "(allowed: a directory of this detector's own)"
    )
    assert "DMA_ERROR" in (detector.state_dir / "state.json").read_text()
    detector.kill()
    second = new_detector(instance=detector.instance)
    second.state_dir = detector.state_dir
    assert second.start().faults() == {"NeuronHasError_DMA_ERROR": 1}


@pytest.mark.parametrize(
    "arguments",
    [(), ("run",), ("rules",), ("rules", "check"), ("inject",), ("replay",), ("clear",)],
)
def test_every_command_has_help(arguments: tuple[str, ...]) -> None:
    done = chipwarden(*arguments, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: chipwarden-detector")


def test_it_tells_its_version() -> None:
    assert chipwarden("--version").stdout == "chipwarden-detector 0.1.0\n"


def test_an_odd_environment_does_no_harm(new_detector: Callable[..., Detector]) -> None:
    odd = {"LANG": "tr_TR.ISO-8859-9", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONWARNINGS": "error", "TERM": ""}
    odd |= {"TZ": "Asia/Tokyo", "HOME": "/nowhere", "TMPDIR": "/nowhere", "HTTP_PROXY": "http://203.0.113.7:1"}
    detector = new_detector().start(env=odd, through=["env", "--chdir", "/", "--ignore-signal=HUP"])
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {"NeuronHasError_DMA_ERROR": 1})
    assert detector.condition()["lastTransitionTime"].endswith("Z")
    assert detector.stop() == 0
