"""Durations as people write them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.durations import Duration, decode_hook, encode_hook


class Wait(msgspec.Struct):
    seconds: Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("500ms", 0.5),
        ("1m30s", 90),
        ("24h", 86400),
        ("1d", 86400),
        ("1.5h", 5400),
        ("0s", 0),
        ("0.5ms", 5e-4),
    ],
)
def test_a_number_with_a_unit_is_a_duration(text: str, seconds: float) -> None:
    assert Duration.parse(text).seconds == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "s", "-1s", "10 s", "1h 30m", "10S", "1w", "1e3s", "1.s", ".5s", "10s\n", "+1s"]
)
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration \(allowed: a number and ms, s, m, h or d, such as 10s"):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.25, "250ms"), (1, "1s"), (90, "90s"), (300, "5m"), (7200, "2h"), (86400, "1d")]
)
def test_a_duration_is_written_with_its_largest_whole_unit(seconds: float, text: str) -> None:
    assert str(Duration(seconds)) == text
    assert repr(Duration(seconds)) == f"Duration({seconds:g})"


@given(st.integers(0, 999_999) | st.integers(1000, 10**6).map(lambda seconds: seconds * 1000))
def test_a_duration_written_and_read_again_is_the_same(milliseconds: int) -> None:
    duration = Duration(milliseconds / 1000)
    assert Duration.parse(str(duration)).seconds == pytest.approx(duration.seconds, abs=1e-6)


@given(st.integers(0, 9999), st.integers(0, 9999))
def test_durations_have_an_order(one: int, other: int) -> None:
    assert (Duration(one) < Duration(other)) is (one < other)
    assert (Duration(one) == Duration(other)) is (one == other)
    assert Duration(one) >= Duration(one)
    assert hash(Duration(one)) == hash(Duration(float(one)))
    assert Duration(one) != one


def test_settings_read_and_write_durations() -> None:
    read = msgspec.convert({"seconds": "1m30s"}, Wait, dec_hook=decode_hook)
    assert read.seconds == Duration(90)
    assert msgspec.to_builtins(read, enc_hook=encode_hook) == {"seconds": "90s"}


@pytest.mark.parametrize("value", [10, 1.5, None, [], True])
def test_a_number_without_a_unit_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"is not a duration .* - at `\$\.seconds`"):
        msgspec.convert({"seconds": value}, Wait, dec_hook=decode_hook)


def test_other_types_are_not_ours_to_read_or_write() -> None:
    with pytest.raises(NotImplementedError, match="no decoding is known for <class 'complex'>"):
        decode_hook(complex, "1")
    with pytest.raises(NotImplementedError, match="no encoding is known for <class 'complex'>"):
        encode_hook(1j)
