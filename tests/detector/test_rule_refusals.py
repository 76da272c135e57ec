"""Rule files that are refused: in one sentence with file, rule and reason, whatever is in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.rules import RulesError, combine, load
from tests.detector.builders import rule_file, with_rule, written

CLASSES = "poisoned, dead, degraded, suspect"
DURATIONS = "allowed: a number and ms, s, m, h or d, such as 10s, 5m, 24h"
DISAGREE = (
    "rules with reason 'ChipBroken' disagree (condition, faultClass, action, clearsOn and threshold must be the same)"
)
NAME = r"^[A-Za-z]([A-Za-z0-9_,:.-]*[A-Za-z0-9_])?\\Z"  # as msgspec quotes it
# What stands in the file, and the whole sentence that refuses it.
REFUSED_TEXTS = (
    (b"", "it is empty (wanted: a RuleSet, or a file of node-problem-detector)"),
    (b"# nothing but a comment\n", "it is empty (wanted: a RuleSet, or a file of node-problem-detector)"),
    (b"- a\n- b\n", "Expected `object`, got `array`"),
    (b"neuron", "Expected `object`, got `str`"),
    (b"kind: RuleSet\nkind: RuleSet\n", "line 2, column 1: key 'kind' stands twice"),
    (b"rules:\n- reason: a\n  reason: b\n", "line 3, column 3: key 'reason' stands twice"),
    (b"a: 1\n---\nb: 2\n", "line 2, column 1: but found another document"),
    (b"a:\n\t- b\n", "line 2, column 1: found character that cannot start any token"),
    (b"kind: 'Rule", "line 1, column 12: found unexpected end of stream"),
    (b"rules: *x", "line 1, column 8: found undefined alias"),
    (b"rules: &a\n- *a\n", "rule 0 (without a reason): Expected `object`, got `array` - at `$.rules[0]`"),
    (b"kind: !!binary aGVsbG8=\n", "Expected `str`, got `bytes` - at `$.kind`"),
    (b"1: 2\n", "Expected `str` - at `key` in `$`"),
    (b"[" * 5000, "line 1, column 1001: exceeded maximum nesting depth"),
    (b"plugin: kmsg\nrules: []\n", "not JSON: JSON is malformed: invalid character (byte 0)"),
    (b'{"plugin": "journald", "rules": []}', "plugin 'journald' does not read the kernel log (allowed: 'kmsg')"),
    (b'{"plugin": "kmsg", "rules": []}', "no rules"),
)
REFUSED = (
    (rule_file(kind="Pod"), "Invalid enum value 'Pod' - at `$.kind` (allowed: RuleSet)"),
    (rule_file(apiVersion="v2"), "Invalid enum value 'v2' - at `$.apiVersion` (allowed: chipwarden.io/v1)"),
    (rule_file(kind=None), "Object missing required field `kind`"),
    (
        rule_file(rule=[]),
        "Object contains unknown field `rule` (allowed: apiVersion, kind, metadata, conditions, ignore, rules)",
    ),
    (
        rule_file(metadata={"name": "x", "note": ""}),
        "Object contains unknown field `note` - at `$.metadata` (allowed: name)",
    ),
    (rule_file(rules=[]), "no rules"),
    (rule_file(rules=[None]), "rule 0 (without a reason): Expected `object`, got `null` - at `$.rules[0]`"),
    (rule_file(rules={"a": 1}), "Expected `array`, got `object` - at `$.rules`"),
    (rule_file(conditions=[{"type": ["a"], "reason": "b"}]), "Expected `str`, got `array` - at `$.conditions[0].type`"),
    (
        rule_file(conditions=[{"type": "ChipHasError", "reason": "Fine"}] * 2),
        "condition 'ChipHasError' stands twice",
    ),
    (
        rule_file(conditions=[{"type": "ChipHasError", "reason": "Fine", "message": "m" * 1025}]),
        "condition 'ChipHasError': its message is longer than 1024 characters",
    ),
    (rule_file(ignore=["("]), "ignore 0: pattern '(': missing ): ("),
    (rule_file(ignore=["x*"]), "ignore 0: pattern 'x*' matches an empty text, so it would match every record"),
    (with_rule(pattern="("), "rule 0 (ChipBroken): pattern '(': missing ): ("),
    (with_rule(pattern=5), "rule 0 (ChipBroken): Expected `str`, got `int` - at `$.rules[0].pattern`"),
    (with_rule(pattern=""), "rule 0 (ChipBroken): Expected `str` of length >= 1 - at `$.rules[0].pattern`"),
    (
        with_rule(pattern=".*"),
        "rule 0 (ChipBroken): pattern '.*' matches an empty text, so it would match every record",
    ),
    (
        with_rule(pattern="Ger\u00e4t"),
        r"rule 0 (ChipBroken): pattern 'Gerät': 'ä' takes several bytes in the kernel log; write \xc3\xa4 for it",
    ),
    (
        with_rule(condition="Other"),
        "rule 0 (ChipBroken): condition 'Other' is not among the file's conditions (ChipHasError)",
    ),
    (
        rule_file(conditions=[]),
        "rule 0 (ChipBroken): condition 'ChipHasError' is not among the file's conditions (none is declared)",
    ),
    (
        with_rule(faultClass="ded"),
        f"rule 0 (ChipBroken): Invalid enum value 'ded' - at `$.rules[0].faultClass` (allowed: {CLASSES})",
    ),
    (
        with_rule(facilities=["daemon"]),
        "rule 0 (ChipBroken): Invalid enum value 'daemon' - at `$.rules[0].facilities[0]` (allowed: kern, user)",
    ),
    (
        with_rule(facilities=[]),
        "rule 0 (ChipBroken): Expected `array` of length >= 1 - at `$.rules[0].facilities`",
    ),
    (
        with_rule(threshold={"count": 3}),
        "rule 0 (ChipBroken): a threshold count of 3 needs a window, such as 10m",
    ),
    (
        with_rule(threshold={"count": 3, "window": 60}),
        f"rule 0 (ChipBroken): 60 is not a duration ({DURATIONS}) - at `$.rules[0].threshold.window`",
    ),
    (
        with_rule(threshold={"count": 3, "per": "1m"}),
        "rule 0 (ChipBroken): Object contains unknown field `per` - at `$.rules[0].threshold` (allowed: count, window)",
    ),
    (
        with_rule(examples={"match": ["fine"]}),
        "rule 0 (ChipBroken): does not match its example 'fine'",
    ),
    (
        with_rule(examples={"noMatch": ["is broken"]}),
        "rule 0 (ChipBroken): matches 'is broken', which it must not",
    ),
    (
        with_rule(examples={"match": ["30,1,5,-;broken"]}),
        "rule 0 (ChipBroken): does not match its example '30,1,5,-;broken'",
    ),
    (
        rule_file(rules=[*rule_file()["rules"], {"reason": "ChipBroken", "pattern": "y"}]),
        f"rule 1 (ChipBroken): {DISAGREE}",
    ),
    (
        with_rule(reason="Chip broken\n"),
        f"rule 0 (Chip broken\\n): Expected `str` matching regex '{NAME}' - at `$.rules[0].reason`",
    ),
)


@pytest.mark.parametrize(
    ("text", "sentence"), [*REFUSED_TEXTS, *((written(document), sentence) for document, sentence in REFUSED)]
)
def test_a_bad_file_is_refused_in_one_sentence(text: bytes, sentence: str) -> None:
    with pytest.raises(RulesError) as refused:
        load(text, "strange.yaml")
    assert str(refused.value) == f"strange.yaml: {sentence}"


@pytest.mark.parametrize(
    "text",
    [
        b"? [a, b]\n: 1\n",
        b"{[a]: 1}",
        b"kind: 2026-13-49\n",
        b"kind: \xff\xfe\n",
        b"kind: \x00\n",
        b"!!python/name:os.system x",
    ],
)
def test_text_that_is_no_plain_yaml_is_refused_without_a_traceback(text: bytes) -> None:
    with pytest.raises(RulesError, match=r"^strange.yaml: \S[^\n]+$"):
        load(text, "strange.yaml")


def test_a_pattern_of_a_megabyte_is_refused_with_a_short_sentence() -> None:
    for long in ("x" * 900_000, "(" * 90_000):
        with pytest.raises(RulesError) as refused:
            load(written(with_rule(pattern=long)), "long.yaml")
        assert len(str(refused.value)) < 700
        assert "long.yaml: rule 0 (ChipBroken): pattern " in str(refused.value)


def test_patterns_that_need_too_much_memory_are_refused_alone_and_together() -> None:
    greedy = [{"reason": f"R{n}", "pattern": f"(?:a{n}.{{200}}){{3}}"} for n in range(48)]
    with pytest.raises(RulesError, match=r"all\.yaml: the patterns together need more than 2 MiB of automaton"):
        load(written(rule_file(rules=greedy)), "all.yaml")
    halves = tuple(
        load(written(rule_file(metadata={"name": name}, rules=greedy[start : start + 24])), name)
        for name, start in (("one", 0), ("two", 24))
    )
    with pytest.raises(RulesError, match=r"rule sets one, two: the patterns .* need more .*; load fewer"):
        combine(halves)


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
_VALUES = st.recursive(
    _SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3)
)
_PLACES = ["apiVersion", "kind", "metadata", "conditions", "ignore", "rules"]
_RULE_KEYS = ["reason", "pattern", "condition", "faultClass", "action", "clearsOn", "threshold", "fallback"]
_MORE_RULE_KEYS = ["facilities", "source", "examples"]


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(_PLACES), st.sampled_from([*_RULE_KEYS, *_MORE_RULE_KEYS]), _VALUES, st.booleans())
def test_any_value_at_any_place_is_taken_or_refused_in_one_line(place: str, key: str, value: Any, deep: bool) -> None:
    document = with_rule(**{key: value}) if deep else rule_file() | {place: value}
    try:
        load(json.dumps(document, default=str).encode(), "random.yaml")
    except RulesError as error:
        assert str(error).startswith("random.yaml: ")  # noqa: PT017 - whatever else is raised fails the test
        assert "\n" not in str(error)  # noqa: PT017 - the same


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=60) | st.text("ab:{}[]-&*!?'\"#|> \n\t,", max_size=40).map(str.encode))
def test_any_bytes_are_refused_in_one_line(text: bytes) -> None:
    with pytest.raises(RulesError, match=r"\Arandom.yaml: [^\n]+\Z"):
        load(text, "random.yaml")
