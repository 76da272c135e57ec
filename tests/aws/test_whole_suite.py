"""Runs last, after all other tests: what recovery has asked of AWS in the whole suite is what its policies allow."""

from __future__ import annotations

from tests.aws.permissions import NARROW, OF_STS, actions
from tests.aws.proxy import ASKED

POLICIES = ("policy.json", "reboot.json", "force-terminate.json")


def test_what_the_whole_suite_has_called_is_exactly_what_the_policies_allow() -> None:
    called = {action for asked in ASKED for action in asked.actions - (NARROW if asked.is_narrow else set())}

    assert called - OF_STS == actions(*POLICIES)
    assert called >= OF_STS


def test_narrow_mode_has_made_its_own_calls_and_no_other_test_has() -> None:
    narrow = {action for asked in ASKED if asked.is_narrow for action in asked.actions}

    assert narrow >= NARROW
    assert not any(asked.actions & NARROW for asked in ASKED if not asked.is_narrow)
