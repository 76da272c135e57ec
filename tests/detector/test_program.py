"""The whole program on the real kernel log: what each line makes of the pages, and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.detector.process import chipwarden, neuron_line, until, write_kernel_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.detector.process import Detector

CODES = (
    "SRAM_UNCORRECTABLE_ERROR",
    "NC_UNCORRECTABLE_ERROR",
    "HBM_UNCORRECTABLE_ERROR",
    "DMA_ERROR",
    "HANG_ON_COLLECTIVES",
)
DMA = "NeuronHasError_DMA_ERROR"


def benign(detector: Detector) -> None:
    """Write a line that means nothing, and wait until the detector has read it and all before it."""
    before = detector.metric("records_total")
    write_kernel_log("nothing to see here")
    until(lambda: detector.metric("records_total") > before, what="the line is read")


@pytest.mark.parametrize("code", CODES)
def test_each_neuron_code_shows_at_once_with_device_core_and_serial(detector: Detector, code: str) -> None:
    reason = f"NeuronHasError_{code}"
    assert detector.metric("problem_gauge", "NeuronHasError", reason) == 0
    written = time.monotonic()
    detector.write(code, device=11, core=1, serial="5e5e")
    until(lambda: detector.metric("problem_gauge", "NeuronHasError", reason) == 1, seconds=0.9)
    assert time.monotonic() - written < 0.9
    (fault,) = detector.conditions()["faults"]
    assert fault["reason"] == reason
    assert fault["count"] == 1
    assert fault["details"] == {
        "instance-id": detector.instance,
        "hostname": "ip-10-0-0-1",
        "nd-id": "11",
        "nc-id": "1",
        "serial-num": "5e5e",
        "action": "TERMINATE_INSTANCE",
    }
    condition = detector.condition()
    assert (condition["status"], condition["reason"]) == ("True", reason)
    assert "nd-id=11 nc-id=1 serial-num=5e5e" in condition["message"]
    assert detector.metric("problem_counter", reason) == 1
    assert until(detector.told) == [reason]


def test_without_a_fault_everything_is_false_and_zero(detector: Detector) -> None:
    condition = detector.condition()
    assert (condition["status"], condition["reason"]) == ("False", "NeuronHasNoError")
    assert set(detector.metrics().values()) >= {0.0}
    assert [detector.metric("problem_gauge", "NeuronHasError", f"NeuronHasError_{code}") for code in CODES] == [0] * 5
    assert detector.conditions()["faults"] == []


def test_ten_thousand_benign_lines_do_not_make_the_log_grow(detector: Detector) -> None:
    before = detector.log()
    for _ in range(20):
        write_kernel_log(*["<15>usb 1-1: nothing wrong with NEURON, none at all"] * 500)
        benign(detector)
    assert detector.log() == before


def test_a_second_device_adds_to_the_message_and_keeps_the_transition_time(detector: Detector) -> None:
    detector.write("DMA_ERROR", device=1)
    first = until(lambda: detector.faults() and detector.condition())
    detector.write("DMA_ERROR", device=2)
    until(lambda: detector.faults() == {DMA: 2})
    second = detector.condition()
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert "nd-id=1 " in second["message"]
    assert "nd-id=2 " in second["message"]


def test_a_graver_fault_takes_the_reason_over(detector: Detector) -> None:
    detector.write("HANG_ON_COLLECTIVES")
    until(detector.faults)
    detector.write("SRAM_UNCORRECTABLE_ERROR")
    until(lambda: detector.condition()["reason"] == "NeuronHasError_SRAM_UNCORRECTABLE_ERROR")
    assert len(detector.faults()) == 2


def test_a_line_about_another_instance_is_counted_as_foreign_and_nothing_else(detector: Detector) -> None:
    before = detector.metric("foreign_lines_total")
    write_kernel_log(neuron_line("DMA_ERROR", "i-0fffffffffffffff0"))
    until(lambda: detector.metric("foreign_lines_total") > before)
    assert detector.faults() == {}
    assert detector.condition()["status"] == "False"
    assert detector.told() == []


def test_a_line_of_a_person_matches(detector: Detector) -> None:
    write_kernel_log(f"<3>{neuron_line('DMA_ERROR', detector.instance)}")
    until(lambda: detector.faults() == {DMA: 1})


def test_a_line_of_a_person_is_refused_with_kernel_only(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector().start("--kernel-only")
    detector.write("DMA_ERROR")
    benign(detector)
    assert detector.faults() == {}


@pytest.mark.parametrize("prefix", ["<27>", "<30>", "<83>"])
def test_a_line_of_a_log_daemon_never_matches(detector: Detector, prefix: str) -> None:
    write_kernel_log(prefix + neuron_line("DMA_ERROR", detector.instance))
    benign(detector)
    assert detector.faults() == {}
    assert detector.metric("problem_counter", DMA) == 0


def test_a_fault_written_right_after_the_start_is_reported_once(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector().start(ready=False)
    detector.write("DMA_ERROR")
    until(lambda: detector.faults() == {DMA: 1}, seconds=2)
    until(lambda: detector.told() == [DMA])


def test_a_fault_from_before_the_start_is_found_with_its_own_time(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector()
    detector.write("DMA_ERROR")
    written = time.time()
    detector.start()
    assert detector.faults() == {DMA: 1}
    since = detector.metric("fault_since_timestamp_seconds", "NeuronHasError", DMA)
    assert abs(since - written) < 0.2


def test_an_unknown_code_is_counted_and_condemns_nobody(detector: Detector) -> None:
    detector.write("SOMETHING_NEW")
    until(lambda: detector.metric("problem_counter", "NeuronHasError_OTHER") == 1)
    assert detector.condition()["status"] == "False"
    assert until(detector.told) == ["NeuronHasError_OTHER"]


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
    until(lambda: detector.faults() == {DMA: 1})
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
    detector: Detector, new_detector: Callable[..., Detector]
) -> None:
    detector.write("DMA_ERROR")
    state = until(lambda: detector.faults() and (detector.state_dir / "state.json").read_text())
    done = chipwarden(
        *("run", "--listen", detector.url.removeprefix("http://"), "--state-dir", detector.state_dir),
        *("--instance-id", new_detector().instance, "--kubernetes", "off"),
    )
    assert done.returncode == 2
    assert "Address already in use" in done.stderr
    assert (detector.state_dir / "state.json").read_text() == state
    assert detector.faults() == {DMA: 1}


def test_two_detectors_on_one_log_both_see_everything(new_detector: Callable[..., Detector]) -> None:
    first = new_detector().start()
    second = new_detector(instance=first.instance).start()
    first.write("DMA_ERROR")
    until(lambda: first.faults() == second.faults() == {DMA: 1})


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
    until(lambda: detector.faults() == {DMA: 1})
    assert detector.condition()["lastTransitionTime"].endswith("Z")
    assert detector.stop() == 0
