"""Durations at their limits."""

from __future__ import annotations

import pytest

from runtime.durations import Duration


@pytest.mark.parametrize("text", ["1000.001s", "999.5ms", "1000d", "0.5s", "0s", "86399s"])
def test_what_is_written_reads_the_same_again(text: str) -> None:
    assert Duration.parse(str(Duration.parse(text))) == Duration.parse(text)


@pytest.mark.parametrize("text", ["1001d", "9" * 400 + "s", "99999999999999999999h"])
def test_a_duration_without_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        Duration.parse(text)
