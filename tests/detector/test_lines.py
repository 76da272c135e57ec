"""A line of a kernel log in the shapes that people keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.lines import read_line
from detector.parse import parse, to_record
from tests.detector.builders import DAEMON, KERN, USER
from tests.detector.strategies import any_bytes, messages

FAULT = b"NEURON_HW_ERR=DMA_ERROR nd-id=0"
# Ways to write the same line of the kernel: dmesg's options, journalctl -k, syslog, and none.
PREFIXES = (
    b"",
    b"[   12.345678] ",
    b"[1718549.701234] ",
    b"[   12.345678][ T4242] ",
    b"[   12.345678][    C3] ",
    b"[   12.345678] [   C3] ",
    b"[ T4242] ",
    b"[Sun Nov 29 10:15:30 2026] ",
    b"[Nov29 10:15] ",
    b"[  +0.000012] ",
    b"[ +12.000012] ",
    b"[<    0.000012>] ",
    b"[Sun Nov 29 10:15:30 2026 <    0.000012>] ",
    b"[   12.345678] [Sun Nov 29 10:15:30 2026] ",
    b"[ 1234.567890] ip-10-0-12-34 kernel: ",
    b"[   12.345678 <    0.000012>] ",
    b"[   12.345678,    0.000012] ",
    b"2026-11-29T10:15:30,123456+00:00 ",
    b"2026-11-29T10:15:30.123456Z ",
    b"Nov 29 10:15:30 ip-10-0-12-34 kernel: ",
    b"Nov  9 10:15:30 host kernel: [   12.345678] ",
    b"2026-11-29T10:15:30+00:00 host.example kernel: ",
)
# Prefixes that tell who wrote the line, and the facility and level that they tell.
TELLING_PREFIXES = (
    (b"<3>", KERN, 3),
    (b"<3>[   12.345678] ", KERN, 3),
    (b"<11>[   12.345678] ", USER, 3),
    (b"<30>[   12.345678][    T1] ", DAEMON, 6),
    (b"<30>", DAEMON, 6),
    (b"kern  :err   : [   12.345678] ", KERN, 3),
    (b"kern  :err   : [Sun Nov 29 10:15:30 2026] ", KERN, 3),
    (b"user  :warn  : [   12.345678] ", USER, 4),
    (b"daemon:info  : [   12.345678] ", DAEMON, 6),
    (b"kern  :err   : ", KERN, 3),
    (b"daemon:info  : [    T1] ", DAEMON, 6),
    (b"local3:notice: [   12.345678] ", 19, 5),
    (b"authpriv:notice: [   12.345678] ", 10, 5),
    (b"<3>[   12.345678] [   C3] ", KERN, 3),
    (b"Nov 29 10:15:30 host kernel: <3>[   12.345678] ", KERN, 3),
)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_whatever_stands_before_a_line_of_the_kernel_is_no_text(prefix: bytes) -> None:
    line = read_line(prefix + FAULT)
    assert (line.facility, line.text) == (KERN, FAULT)


@pytest.mark.parametrize(("prefix", "facility", "level"), TELLING_PREFIXES)
def test_a_prefix_that_tells_the_writer_is_believed(prefix: bytes, facility: int, level: int) -> None:
    line = read_line(prefix + FAULT)
    assert (line.facility, line.level, line.text) == (facility, level, FAULT)


def test_a_raw_record_is_read_as_the_device_writes_it() -> None:
    raw = b"11,901,55000000,-,caller=T1;NEURON_HW_ERR=DMA_ERROR\\x0a\n DEVICE=+pci:0\n"
    assert read_line(raw) == parse(raw)


@pytest.mark.parametrize(
    "line",
    [
        b"[drm:amdgpu_job_timedout] *ERROR* ring gfx timeout",
        b"[ND 0][NC 0] Uncorrectable memory error is detected",
        b"[Hardware Error]: event severity: fatal",
        b"<31337 is no priority>",
        b"<3 is no priority",
        b"kern:err: not as dmesg writes it",
        b"syslog:what  : [   12.345678] no level",
        b"host kernel: no stamp",
        b"3,1,notime,-;x",
        b"[12] not seconds",
        b"[   12.345678]without a blank",
        b"Nov 29 10:15:30 host systemd[1]: Started x",
    ],
)
def test_what_only_looks_like_a_prefix_is_text(line: bytes) -> None:
    assert read_line(line).text == line


def test_a_priority_may_stand_before_brackets() -> None:
    line = read_line(b"<3>[Hardware Error]: event severity: fatal")
    assert (line.level, line.text) == (3, b"[Hardware Error]: event severity: fatal")


def test_an_empty_line_behind_a_stamp_is_empty() -> None:
    assert read_line(b"[   12.345678]").text == b""


def test_escapes_in_dmesg_text_come_back() -> None:
    assert read_line(rb"[   12.345678] a\x0a\x09b").text == b"a\n\tb"


@given(any_bytes | st.sampled_from(PREFIXES).flatmap(lambda prefix: st.binary(max_size=30).map(prefix.__add__)))
def test_any_line_can_be_read(line: bytes) -> None:
    assert read_line(line).facility >= 0


@given(messages)
def test_any_record_is_read_as_the_parser_reads_it(message: object) -> None:
    raw = to_record(message)  # type: ignore[arg-type]
    assert read_line(raw) == parse(raw)
