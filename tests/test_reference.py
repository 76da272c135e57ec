"""docs/reference.md says what the code says."""

from __future__ import annotations

from tools.reference import TARGET, reference


def test_the_reference_is_what_the_code_says() -> None:
    assert TARGET.read_text(encoding="utf-8") == reference(), "run `make reference`"
