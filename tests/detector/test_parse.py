"""One record of /dev/kmsg, and everything that only looks like one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.parse import ParseError, escape, parse, sequence_of, to_record, unescape
from tests.detector.strategies import LONGEST_RECORD_BYTES, any_bytes, messages, records

if TYPE_CHECKING:
    from detector.model import KernelMessage

MALFORMED = (
    b"no semicolon at all\n",
    b";x\n",
    b"a,b,c;x\n",
    b"3,1;x\n",
    b"",
    b"3,1,-5,-;x\n",
    b"3,1, 5,-;x\n",
    b"-3,1,5,-;x\n",
    b"3,18446744073709551616,5,-;x\n",
    b"3,1,184467440737095516150,-;x\n",
    b"\xb3,1,5,-;x\n",
    b"3,,5,-;x\n",
    b"3\n1,5,-;x",
)


def test_a_record_tells_facility_level_number_and_time() -> None:
    parsed = parse(b"3,48213,1718549701,-;NEURON_HW_ERR=DMA_ERROR nd-id=0 action=TERMINATE_INSTANCE\n")
    assert (parsed.facility, parsed.level, parsed.sequence, parsed.timestamp_us) == (0, 3, 48213, 1718549701)
    assert (parsed.flags, parsed.dictionary) == ("-", {})
    assert parsed.text == b"NEURON_HW_ERR=DMA_ERROR nd-id=0 action=TERMINATE_INSTANCE"


@pytest.mark.parametrize(
    ("priority", "facility", "level"),
    [(6, 0, 6), (11, 1, 3), (12, 1, 4), (14, 1, 6), (30, 3, 6), (4294967295, 536870911, 7)],
)
def test_the_priority_tells_who_wrote_the_line(priority: int, facility: int, level: int) -> None:
    parsed = parse(b"%d,1,0,-;x\n" % priority)
    assert (parsed.facility, parsed.level) == (facility, level)


def test_further_header_fields_are_ignored() -> None:
    assert parse(b"3,48214,1718549702,-,caller=T4242;NEURON_HW_ERR=DMA_ERROR nd-id=0\n").text.endswith(b"nd-id=0")
    parsed = parse(b"3,48215,1718549703,-,caller=C3,future=1;x;NEURON_HW_ERR=DMA_ERROR ;y\n")
    assert (parsed.text, parsed.flags) == (b"x;NEURON_HW_ERR=DMA_ERROR ;y", "-")


def test_a_fragment_is_known_by_its_flag() -> None:
    parsed = parse(b"3,48217,1718549705,c;NEURON_HW_ERR=HBM_UNCORR")
    assert (parsed.flags, parsed.text) == ("c", b"NEURON_HW_ERR=HBM_UNCORR")


def test_a_kernel_that_writes_no_flags_is_understood() -> None:
    assert parse(b"3,1,5;x\n").flags == "-"


def test_dictionary_lines_are_not_text() -> None:
    parsed = parse(
        b"3,48219,1718549707,-;neuron 0000:a0:1e.0: No usable DMA configuration.\n"
        b" SUBSYSTEM=pci\n DEVICE=+pci:0000:a0:1e.0\n"
    )
    assert parsed.text == b"neuron 0000:a0:1e.0: No usable DMA configuration."
    assert parsed.dictionary == {"SUBSYSTEM": "pci", "DEVICE": "+pci:0000:a0:1e.0"}


def test_lines_that_are_no_dictionary_are_passed_over() -> None:
    assert parse(b"3,1,5,-;x\nNO_BLANK=1\n no equals sign\n A=\\x09=b\n").dictionary == {"A": "\t=b"}


def test_leading_blanks_belong_to_the_text() -> None:
    assert parse(b"6,48220,1718549708,-;  NEURON_HW_ERR=DMA_ERROR indented\n").text.startswith(b"  NEURON")


def test_escaped_bytes_come_back() -> None:
    assert (
        parse(rb"3,48221,1,-;a\x0a\x09NEURON_HW_ERR=DMA_ERROR nd-id=0").text == b"a\n\tNEURON_HW_ERR=DMA_ERROR nd-id=0"
    )
    assert parse(rb"3,48222,1,-;path C:\x5cNEURON_HW_ERR=DMA_ERROR ").text == rb"path C:\NEURON_HW_ERR=DMA_ERROR "
    assert parse(rb"3,48223,1,-;NEURON_HW_ERR=DMA\x5fERROR nd-id=0").text == b"NEURON_HW_ERR=DMA_ERROR nd-id=0"
    assert parse(rb"3,1,1,-;\x5cx41").text == rb"\x41"


def test_a_record_cut_in_the_middle_of_an_escape_is_kept() -> None:
    cut = b"3,1,1718549703,-;" + rb"\xff" * 506 + rb"\xf" + b"\n"
    padded = cut.replace(b";", b";" + b"." * (LONGEST_RECORD_BYTES - len(cut)))
    assert len(padded) == LONGEST_RECORD_BYTES
    assert parse(padded).text.endswith(b"\xff" + rb"\xf")


@pytest.mark.parametrize("broken", [rb"\x", rb"\xf", rb"\xFF", rb"\xg0", b"\\", rb"\n"])
def test_what_the_kernel_would_not_write_is_no_escape(broken: bytes) -> None:
    assert unescape(b"a" + broken + b" b") == b"a" + broken + b" b"


def test_numbers_have_64_bits() -> None:
    assert parse(b"3,18446744073709551615,18446744073709551615,-;x\n").sequence == 2**64 - 1
    assert sequence_of(b"3,18446744073709551615,1,-;x\n") == 2**64 - 1


@pytest.mark.parametrize("record", MALFORMED)
def test_a_malformed_record_is_refused(record: bytes) -> None:
    with pytest.raises(ParseError, match=r"no header|is no 64-bit number"):
        parse(record)


@pytest.mark.parametrize("record", [b"", b"x", b"3,5", b"3,x,5,-;t\n", b"3,18446744073709551616,1,-;t\n"])
def test_a_record_without_a_number_is_refused(record: bytes) -> None:
    with pytest.raises(ParseError):
        sequence_of(record)


@given(any_bytes)
def test_random_bytes_raise_nothing_but_a_parse_error(noise: bytes) -> None:
    for read in (parse, sequence_of):
        try:
            read(noise)
        except ParseError as error:
            assert str(error)  # noqa: PT017 - whatever else is raised fails the test


@given(messages)
def test_a_message_written_and_read_again_is_the_same(message: KernelMessage) -> None:
    assert parse(to_record(message)) == message


@given(records)
def test_a_record_read_and_written_again_says_the_same(raw: bytes) -> None:
    try:
        parsed = parse(raw)
    except ParseError:
        return
    assert parse(to_record(parsed)) == parsed


@given(st.binary())
def test_an_escaped_text_is_printable_and_comes_back(text: bytes) -> None:
    assert all(0x20 <= byte < 0x7F for byte in escape(text))
    assert unescape(escape(text)) == text
