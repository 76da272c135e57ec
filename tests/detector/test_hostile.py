"""How long hostile text keeps patterns busy: the measure itself."""

from __future__ import annotations

import re

import pytest

from detector.hostile import SLOWEST_MS_PER_KB, milliseconds_per_kb, sample
from detector.rulefiles import load_all
from runtime.vocabulary import SHIPPED_RULE_SETS
from tests.detector.builders import rule, rule_set


@pytest.mark.parametrize("name", SHIPPED_RULE_SETS)
def test_every_shipped_set_stays_quick(name: str) -> None:
    (loaded,) = load_all([name]).rule_sets
    assert milliseconds_per_kb(loaded) < SLOWEST_MS_PER_KB


def test_a_plain_pattern_is_far_from_the_limit() -> None:
    assert milliseconds_per_kb(rule_set(rule("broken"))) < 0.2


def test_a_pattern_that_keeps_many_beginnings_alive_is_beyond_the_limit() -> None:
    assert milliseconds_per_kb(rule_set(rule(".{1,1000}q"))) > SLOWEST_MS_PER_KB


def test_text_to_ignore_is_measured_too() -> None:
    assert milliseconds_per_kb(rule_set(rule("broken"), ignore=(".{1,1000}q",))) > SLOWEST_MS_PER_KB


@pytest.mark.parametrize(
    "pattern",
    [
        "broken",
        r"NVRM: Xid \(PCI:[0-9a-f:.]+\): \d+,",
        r"a\.b\\c",
        r"(?:^|[\s:])x(?:$|,)",
        "[^a]y",
        r"\w+\s\S\D\W",
        "a{2,3}",
    ],
)
def test_a_sample_looks_like_what_the_pattern_looks_for(pattern: str) -> None:
    text = sample(pattern)
    assert text.isascii()
    literal = re.match(r"\w*", pattern)
    assert literal
    assert text.startswith(literal[0][:1])


def test_a_pattern_without_any_text_in_it_can_be_measured() -> None:
    assert sample("^$|()") == ""
    assert milliseconds_per_kb(rule_set(rule(r"^\b$|x?"))) < SLOWEST_MS_PER_KB
