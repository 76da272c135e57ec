"""What is dropped from a ledger that has become large, and what never is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery import ledger_text
from recovery.model import Entry, LedgerBody, Outcome
from tests.kubernetes.recovering import NOW, entry, ledger

_PADDING = tuple(f"i-{number:017x}" for number in range(300))  # 6 kB


def _ended(hours: float, **changes: Any) -> Entry:
    ended_at = NOW - timedelta(hours=hours)
    return entry(**{"outcome": Outcome.CLEARED, "ended_at": ended_at, "members": _PADDING, **changes})


def _kept(*entries: Entry) -> list[str]:
    written = ledger_text.read(ledger_text.write(ledger(*entries), NOW))
    return [each.id for each in written.entries]


def test_a_small_ledger_keeps_its_history() -> None:
    old = [_ended(1000) for _ in range(10)]
    assert _kept(*old) == [each.id for each in old]


def test_of_a_large_ledger_the_oldest_go_until_it_is_half_as_large_as_may_be() -> None:
    old = [_ended(25 + number) for number in range(100)]
    kept = _kept(*old)
    assert kept == [each.id for each in old[: len(kept)]]
    assert 40 <= len(kept) < 60
    assert ledger_text.size(ledger(*old[: len(kept)])) <= ledger_text.FULL_BYTES // 2


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": None, "ended_at": None},
        {"outcome": None},
        {"ended_at": None},
        {"ended_at": NOW - timedelta(hours=23, minutes=59)},
        {"added": ("taint",)},
        {"added": ("cordon",), "outcome": Outcome.STALLED},
        {"added": ("cordon",), "outcome": Outcome.FAILED},
        {"added": ("cordon",), "outcome": Outcome.REFUSED},
        {"added": ("cordon",), "outcome": Outcome.RETAINED},
        {"added": ("cordon",), "outcome": Outcome.SUPERSEDED},
    ],
)
def test_what_is_open_young_or_still_fenced_is_kept(changes: dict[str, Any]) -> None:
    needed = [_ended(1000, **changes) for _ in range(100)]
    assert _kept(*needed) == [each.id for each in needed]


def test_a_fence_that_went_with_its_machine_is_no_reason_to_keep() -> None:
    assert len(_kept(*(_ended(1000, added=("taint",), outcome=Outcome.REPLACED) for _ in range(100)))) < 60


def test_what_does_not_fit_is_not_written() -> None:
    with pytest.raises(ledger_text.LedgerTextError, match="1000000 fit"):
        ledger_text.write(ledger(*(_ended(1) for _ in range(200))), NOW)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100), st.booleans()), max_size=30), st.integers(0, 20_000))
def test_trimming_drops_only_what_it_may_and_twice_is_once(each: list[tuple[bool, float, bool]], at_most: int) -> None:
    body = ledger(
        *(
            _ended(hours, outcome=Outcome.CLEARED if over else None, added=("taint",) if fenced else (), members=())
            for over, hours, fenced in each
        )
    )
    trimmed = ledger_text.trimmed(body, NOW, at_most)
    gone = [entry for entry in body.entries if entry not in trimmed.entries]
    assert all(entry.outcome is not None and not entry.added for entry in gone)
    assert all(entry.ended_at is not None and NOW - entry.ended_at >= timedelta(hours=24) for entry in gone)
    assert list(trimmed.entries) == [entry for entry in body.entries if entry in trimmed.entries]
    assert ledger_text.trimmed(trimmed, NOW, at_most) == trimmed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"v": 2}', "version 2, where 1 is known"),
        ('{"v": 1, "reset": {"r": "2026-11-29T10:00:00"}}', "no zone"),
        ('{"v": 1', "truncated"),
        ('{"x": ' + "[" * 5000, "."),
    ],
)
def test_a_refusal_says_why(text: str, says: str) -> None:
    with pytest.raises(ledger_text.LedgerTextError, match=says):
        ledger_text.read(text)


def test_a_time_without_zone_or_an_id_twice_is_refused() -> None:
    for wrong in (ledger(entry(fenced_at=NOW.replace(tzinfo=None))), ledger(entry(id="a"), entry(id="a"))):
        with pytest.raises(ledger_text.LedgerTextError, match=r"zone|same id"):
            ledger_text.read(ledger_text.write(wrong, NOW))


@given(st.binary(max_size=200))
def test_reading_raises_nothing_else(text: bytes) -> None:
    try:
        assert isinstance(ledger_text.read(text), LedgerBody)
    except ledger_text.LedgerTextError:
        return
