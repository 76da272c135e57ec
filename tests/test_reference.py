"""The documentation says what the code says."""

from __future__ import annotations

import pytest

from recovery.decision import Kind, Why
from recovery.model import Outcome
from tools.reference import TARGET, reference

# A pass took a step and looks again in the next: nobody sees that but in a plan.
_UNTOLD = {Why.STEP_TAKEN}


def test_the_reference_is_what_the_code_says() -> None:
    assert TARGET.read_text(encoding="utf-8") == reference(), "run `make reference`"


@pytest.mark.parametrize("words", [Why, Kind, Outcome])
def test_every_word_of_recovery_is_explained(words: type[Why | Kind | Outcome]) -> None:
    told = (TARGET.parent / "recovery.md").read_text(encoding="utf-8")
    assert [word for word in words if f"`{word}`" not in told and word not in _UNTOLD] == []
