"""Injecting faults: realistic lines that arrive, or a sentence that says why not."""

from __future__ import annotations

import os
import re
import socket
import time
from typing import TYPE_CHECKING

import pytest

from detector.inject import InjectError, fields_of_this_machine, line_of
from detector.model import Examples, Rule
from detector.parse import parse
from detector.rulefiles import load_all
from runtime.pages import Page, Server
from tests.detector.kernel import record
from tests.detector.process import CODES, chipwarden, until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.detector.process import Detector

DMA = "NeuronHasError_DMA_ERROR"
# Not those whose line names no instance: every later detector on this machine would take it for its own.
NEURON = [f"NeuronHasError_{code}" for code in (*CODES, "OTHER")]
RULES = {rule.reason: rule for rule in load_all(["neuron", "nvidia", "amd", "gaudi", "efa"]).rules}


def rule(*examples: str) -> Rule:
    return Rule(reason="X", pattern="x", examples=Examples(match=examples))


def inject(detector: Detector, *arguments: str) -> subprocess.CompletedProcess[str]:
    return chipwarden("inject", *arguments, "--detector-url", detector.url)


# On the real kernel log.


@pytest.mark.parametrize("reason", NEURON)
def test_every_neuron_reason_arrives_at_the_running_detector(detector: Detector, reason: str) -> None:
    done = inject(detector, reason)
    assert done.returncode == 0
    assert done.stdout.startswith("1 written to /dev/kmsg and read back: ")
    assert detector.instance in done.stdout
    assert f"{detector.url}/conditions" in done.stdout
    until(lambda: detector.metric("problem_counter", reason) == 1, seconds=1)


def test_device_core_and_serial_are_written_as_asked(detector: Detector) -> None:
    inject(detector, DMA, "--device", "11", "--core", "1", "--serial", "beef")
    until(detector.faults)
    (fault,) = detector.conditions()["faults"]
    assert fault["details"] == {
        "instance-id": detector.instance,
        "hostname": socket.gethostname(),
        "nd-id": "11",
        "nc-id": "1",
        "serial-num": "beef",
        "action": "TERMINATE_INSTANCE",
    }


def test_many_lines_all_arrive_even_beyond_the_size_of_the_ring_buffer(detector: Detector) -> None:
    done = inject(detector, DMA, "--count", "1000")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1000 written to /dev/kmsg")
    until(lambda: detector.faults() == {DMA: 1_000})


def test_lines_come_at_the_rate_asked_for(detector: Detector) -> None:
    began = time.monotonic()
    assert inject(detector, DMA, "--count", "6", "--rate", "10").returncode == 0
    assert time.monotonic() - began > 0.5
    until(lambda: detector.faults() == {DMA: 6})


@pytest.mark.usefixtures("rate_limited")
def test_lines_dropped_by_the_rate_limit_are_noticed_and_the_remedy_is_named(detector: Detector) -> None:
    done = inject(detector, DMA, "--count", "100")
    assert done.returncode == 1
    assert re.search(r"only \d+ of 100 lines arrived: the kernel's rate limit drops the others", done.stderr)
    assert "sysctl kernel.printk_devkmsg=on" in done.stderr


def test_another_instance_is_spoken_about_when_asked_to(detector: Detector) -> None:
    before = detector.metric("foreign_lines_total")
    assert inject(detector, DMA, "--instance-id", "i-0eeeeeeeeeeeeeeee").returncode == 0
    until(lambda: detector.metric("foreign_lines_total") > before)
    assert detector.faults() == {}


@pytest.mark.parametrize("serial", [r"\1", r"\g<0>", "a b", "'quotes\"", "é", "line\nbreak", "%s{}", "x=y,z;"])
def test_odd_serial_numbers_are_written_as_they_are(detector: Detector, serial: str) -> None:
    done = inject(detector, DMA, "--serial", serial)
    assert done.returncode == 0, done.stderr
    assert f"serial-num={serial}" in done.stdout
    until(detector.faults)


def test_a_serial_of_another_encoding_is_written_as_it_is(detector: Detector) -> None:
    assert inject(detector, DMA, "--serial", os.fsdecode(b"\xff\xfe")).returncode == 0
    until(detector.faults)


def test_a_line_too_long_for_the_kernel_is_refused(detector: Detector) -> None:
    done = inject(detector, DMA, "--serial", "x" * 1_000)
    assert done.returncode == 1
    assert re.search(r"the line has \d+ bytes, the kernel takes 976 in one write", done.stderr)


@pytest.mark.parametrize("path", ["folder", "missing", "pipe"])
def test_what_cannot_be_written_to_is_told_in_one_sentence(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    nowhere = ("--instance-id", "i-00000000", "--detector-url", "http://127.0.0.1:1")
    done = chipwarden("inject", DMA, "--kmsg", tmp_path / path, *nowhere)
    assert done.returncode == 1
    nobody, told = done.stderr.splitlines()
    assert nobody == "no detector answers at http://127.0.0.1:1: nobody may see this line"
    assert told.startswith(f"chipwarden-detector: {tmp_path / path}: ")


# Into a file that a detector follows.


def test_a_followed_file_gets_whole_numbered_records(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_bytes(record(41) + b"dmesg text without a header\n" * 600 + record(57))
    done = chipwarden("inject", DMA, "--kmsg", log, "--count", "3", "--instance-id", "i-00000000")
    assert done.returncode == 0, done.stderr
    written = [parse(line) for line in log.read_bytes().splitlines()[-3:]]
    assert [message.sequence for message in written] == [58, 59, 60]
    assert {message.facility for message in written} == {1}
    assert b"NEURON_HW_ERR=DMA_ERROR" in written[0].text


def test_the_first_record_of_an_empty_file_has_number_0(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.touch()
    assert chipwarden("inject", DMA, "--kmsg", log, "--instance-id", "i-00000000").returncode == 0
    assert parse(log.read_bytes()).sequence == 0


def test_half_a_line_at_the_end_of_the_file_does_not_swallow_the_fault(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_bytes(record(1) + b"3,2,5,-;half a li")
    assert chipwarden("inject", DMA, "--kmsg", log, "--instance-id", "i-00000000").returncode == 0
    assert b"NEURON_HW_ERR=DMA_ERROR" in parse(log.read_bytes().splitlines()[-1]).text


def test_a_detector_that_follows_a_file_sees_what_is_injected_into_it(
    new_detector: Callable[..., Detector], tmp_path: Path
) -> None:
    log = tmp_path / "kmsg"
    log.write_bytes(record(1))
    detector = new_detector().start("--kmsg", log, "--kmsg-follow")
    assert detector.conditions()["source"] == "file"
    assert inject(detector, DMA, "--kmsg", str(log), "--count", "5").returncode == 0
    until(lambda: detector.faults() == {DMA: 5})
    assert (detector.metric("records_total"), detector.metric("lost_records_total")) == (6, 0)


# The line.


@pytest.mark.parametrize("reason", RULES)
def test_every_shipped_rule_has_a_line_to_inject(reason: str) -> None:
    text = line_of(RULES[reason], {"instance-id": "i-0a1b2c3d4e5f60718", "nd-id": "3"})
    assert b"\n" not in text
    assert len(text) < 900


def test_fields_replace_those_of_the_example_and_missing_ones_are_added() -> None:
    line = line_of(rule("NEURON_HW_ERR=X nd-id=1 nd-id=2 xnd-id=3 nc-id=4"), {"nd-id": "7", "serial-num": "s"})
    assert line == b"NEURON_HW_ERR=X nd-id=7 nd-id=2 xnd-id=3 nc-id=4 serial-num=s"


def test_a_line_of_another_vendor_is_the_example_itself() -> None:
    assert line_of(rule("amdgpu: GPU reset"), {"nd-id": "7"}) == b"amdgpu: GPU reset"


def test_the_prefix_of_a_recorded_example_is_left_out() -> None:
    assert line_of(rule("[   12.345678] NVRM: Xid"), {}) == b"NVRM: Xid"


@pytest.mark.parametrize("flag", ["--device", "--core"])
def test_a_device_below_0_is_refused_and_nothing_is_written(tmp_path: Path, flag: str) -> None:
    log = tmp_path / "kmsg"
    log.touch()
    done = chipwarden("inject", "NeuronHasError_DMA_ERROR", flag, "-5", env={"CHIPWARDEN_KMSG": str(log)})
    assert (done.returncode, log.read_bytes()) == (2, b"")
    assert "-5 is no device or core (allowed: 0 and more)" in done.stderr


def test_a_rule_without_an_example_cannot_be_injected() -> None:
    with pytest.raises(InjectError, match="rule X has no example"):
        line_of(rule(), {})


# Whose line it is.


@pytest.mark.parametrize("url", ["http://[::1", "nonsense", "", "http://127.0.0.1:1", "http://x:y", "//", "\udcff"])
def test_a_detector_that_cannot_be_asked_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert fields_of_this_machine(url, "")["hostname"] == socket.gethostname()


def test_the_setting_counts_more_than_the_running_detector() -> None:
    assert fields_of_this_machine("http://127.0.0.1:1", "i-00000000")["instance-id"] == "i-00000000"


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], str]]:
    """Serve a page of these bytes on /conditions: `answering(page)` gives the URL."""
    servers: list[Server] = []

    def serve(body: bytes) -> str:
        servers.append(Server("127.0.0.1:0", {"/conditions": lambda: Page(200, "application/json", body)}))
        servers[-1].start()
        return f"http://127.0.0.1:{servers[-1].port}"

    yield serve
    for server in servers:
        server.close()


def test_the_running_detector_tells_whose_line_it_is(
    answering: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = answering(b'{"instance": "i-0a1b2c3d4e5f60718"}')
    assert fields_of_this_machine(url, "")["instance-id"] == "i-0a1b2c3d4e5f60718"
    assert capsys.readouterr().err == ""  # only a detector that does not answer is worth a word


@pytest.mark.parametrize("answer", [b"[]", b"{", b'{"instance": 7}', b'{"instance": null}', b"\xff", b""])
def test_what_is_no_detector_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, answering: Callable[[bytes], str], answer: bytes
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    fields = fields_of_this_machine(answering(answer), "")
    assert fields == fields_of_this_machine("http://127.0.0.1:1", "")
