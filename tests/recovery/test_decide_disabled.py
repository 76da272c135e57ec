"""What is decided where recovery is not enabled: the same, and only written down."""

from __future__ import annotations

import pytest

from recovery.decision import Why
from recovery.model import State
from recovery.moves import Act
from recovery.policy import Rules
from tests.recovery.cases import (
    context,
    decided,
    facts,
    other,
    seen,
    stepped,
    view,
    waits,
)


def test_where_recovery_is_not_enabled_the_same_is_decided_and_only_written_down() -> None:
    looked = view(facts=facts(), seen=seen(enabled=False))
    first = stepped(decided(None, looked, context()))
    assert (first.entry.would, first.entry.state, first.entry.added, first.act) == (True, State.FENCED, (), Act.NONE)
    second = stepped(decided(None, looked, context(first.entry)))
    assert (second.entry.would, second.entry.state, second.entry.id) == (True, State.ADMITTED, first.entry.id)
    assert waits(decided(None, looked, context(second.entry))) == (Why.NOT_ENABLED, False)
    full = context(first.entry, *(other(number, group=f"h{number}") for number in range(3)))
    assert waits(decided(None, looked, full)) == (Why.MAX_CONCURRENT, True)


@pytest.mark.parametrize("enabled", [True, False])
def test_recoverys_own_setting_overrules_the_detectors(enabled: bool) -> None:
    ctx = context(rules=Rules(enabled=enabled))
    assert stepped(decided(None, view(facts=facts(), seen=seen(enabled=not enabled)), ctx)).entry.would is not enabled
