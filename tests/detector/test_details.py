"""What a line says about the device, and whether it speaks about this machine at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.details import is_foreign, named_groups, neuron_fields, printable, said_about
from tests.detector.builders import OURS, THEIRS

LINE = (
    b"2026-11-29T10:15:30Z NEURON_HW_ERR=DMA_ERROR instance-id=i-0a1b2c3d4e5f60718 hostname=ip-10-0-12-34 nd-id=11 "
    b"nc-id=1 serial-num=1a2b3c4d5e6f7a8b action=TERMINATE_INSTANCE"
)
FIRST, SECOND = b"NEURON_HW_ERR=DMA_ERROR nd-id=1 nc-id=2", b"NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR nd-id=5"


def test_all_fields_of_a_neuron_line_are_read() -> None:
    assert neuron_fields(LINE) == {
        "instance-id": "i-0a1b2c3d4e5f60718",
        "hostname": "ip-10-0-12-34",
        "nd-id": "11",
        "nc-id": "1",
        "serial-num": "1a2b3c4d5e6f7a8b",
        "action": "TERMINATE_INSTANCE",
    }


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"NEURON_HW_ERR=DMA_ERROR", {}),
        (b"nd-id=3 NEURON_HW_ERR=DMA_ERROR", {}),
        (b"nd-id=3 of another line", {}),
        (b"NEURON_HW_ERR=DMA_ERROR nd-id= nc-id=2", {"nc-id": "2"}),
        (b"NEURON_HW_ERR=DMA_ERROR,nd-id=1;nc-id=2\tserial-num=3", {"nd-id": "1", "nc-id": "2", "serial-num": "3"}),
        (b"NEURON_HW_ERR=DMA_ERROR nd-id=1 nd-id=2", {"nd-id": "1"}),
        (b"NEURON_HW_ERR=DMA_ERROR xnd-id=1 other=nd-id=2", {}),
        (b"NEURON_HW_ERR=DMA_ERROR nd-id=\"1\" nc-id='2'", {}),
        (b"NEURON_HW_ERR=DMA_ERROR nd-id=1\xff\x1b[31m", {"nd-id": "1\ufffd?[31m"}),
    ],
)
def test_fields_that_lack_or_are_odd_are_taken_as_far_as_they_go(line: bytes, fields: dict[str, str]) -> None:
    assert neuron_fields(line) == fields


@pytest.mark.parametrize(
    ("text", "match", "device"),
    [
        (FIRST + b"\n" + SECOND, FIRST, {"nd-id": "1", "nc-id": "2"}),
        (FIRST + b"\n" + SECOND, b"\n" + SECOND[:30], {"nd-id": "5"}),
        (FIRST + b" " + SECOND, FIRST + b" " + SECOND[:30], {"nd-id": "5"}),
        (b"NEURON_HW_ERR=DMA_ERROR\n\tnd-id=1", b"NEURON_HW_ERR", {"nd-id": "1"}),
        (b"ring broke\n" + FIRST, b"ring broke", {"nd-id": "1", "nc-id": "2"}),
        (FIRST + b"\nring broke", b"ring broke", {"nd-id": "1", "nc-id": "2"}),
    ],
)
def test_of_two_codes_in_a_text_the_matched_one_counts(text: bytes, match: bytes, device: dict[str, str]) -> None:
    assert neuron_fields(said_about(text, 0, text.index(match) + len(match))) == device


def test_a_code_before_the_place_where_it_may_stand_is_passed_over() -> None:
    assert said_about(FIRST + b"\n" + SECOND, len(FIRST) + 1, len(FIRST) + 9) == SECOND
    assert said_about(FIRST + b"\nring broke", len(FIRST) + 1, len(FIRST) + 9) == b"ring broke"


def test_a_group_that_took_no_part_is_no_detail() -> None:
    groups = {b"device": b"0000:05:00", "link": b"3", "unit": None, "empty": b""}
    assert named_groups(groups) == {"device": "0000:05:00", "link": "3"}


@pytest.mark.parametrize(
    ("named", "own", "foreign"),
    [
        (THEIRS, OURS, True),
        (OURS, OURS, False),
        ("i-0abcdef1", OURS, True),
        (None, OURS, False),
        (THEIRS, None, False),
        ("i-0abc", OURS, False),
        ("i-0ABCDEF1", OURS, False),
        (THEIRS + "0", OURS, False),
        ("x" + THEIRS, OURS, False),
        (THEIRS + "\n", OURS, False),
        (OURS, OURS.upper(), False),
        (THEIRS, OURS.upper(), True),
    ],
)
def test_only_a_well_formed_id_of_another_instance_is_foreign(
    named: str | None, own: str | None, foreign: bool
) -> None:
    assert is_foreign({"instance-id": named} if named else {}, own) is foreign


def test_text_of_a_line_is_made_short_and_printable() -> None:
    assert printable(b"plain text") == "plain text"
    assert printable("Gr\u00fc\u00dfe".encode()) == "Gr\u00fc\u00dfe"
    assert printable(b"\x1b[31m\n\xff\xe2\x80\xae", 9) == "?[31m?\ufffd?"
    assert printable(b"x" * 99) == "x" * 64
    assert printable("\U0001f600".encode() * 99, 5) == "\U0001f600" * 5


@given(st.binary(max_size=600), st.integers(1, 100))
def test_any_bytes_become_one_short_printable_line(value: bytes, most: int) -> None:
    text = printable(value, most)
    assert len(text) <= most
    assert text.isprintable()


@given(st.binary(max_size=80))
def test_any_text_has_fields_or_none(text: bytes) -> None:
    fields = neuron_fields(b"NEURON_HW_ERR= nd-id=" + text)
    assert all(value and value.isprintable() for value in fields.values())
