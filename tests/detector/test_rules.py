"""Rule files: what loads works, and means what is documented."""

from __future__ import annotations

import json
from typing import Any

import pytest

from detector.hostile import milliseconds_per_kb
from detector.model import NpdRuleSet, Threshold
from detector.rules import RulesError, _check_agreement, combine, load
from runtime.durations import Duration
from runtime.vocabulary import Action, ClearsOn, Facility, FaultClass
from tests.detector.builders import rule, rule_file, rule_set, with_rule, written
from tests.detector.npd_files import FILES

NPD = {"plugin": "kmsg", "rules": [{"type": "temporary", "reason": "Odd", "pattern": "odd"}]}


def test_absent_keys_have_the_documented_defaults() -> None:
    loaded = load(written(rule_file(rules=[{"reason": "ChipOdd", "pattern": "odd"}])), "x").rules[0]
    assert (loaded.condition, loaded.fault_class, loaded.action) == (None, FaultClass.SUSPECT, Action.NONE)
    assert (loaded.clears_on, loaded.threshold) == (ClearsOn.OPERATOR, Threshold(count=1, window=Duration(0)))
    assert (loaded.fallback, loaded.facilities) == (False, (Facility.KERN, Facility.USER))
    assert (loaded.source, loaded.examples.match, loaded.examples.no_match) == ("", (), ())


def test_all_keys_are_taken_as_they_stand() -> None:
    keys = {
        "faultClass": "dead",
        "action": "reboot",
        "clearsOn": "reboot",
        "threshold": {"count": 3, "window": "1m30s"},
        "fallback": True,
        "facilities": ["user"],
        "source": "https://example.com (read 2026-11-29)",
        "examples": {"match": ["broken", "11,1,5,-;broken"], "noMatch": ["30,1,5,-;broken", "fine"]},
    }
    loaded = load(written(with_rule(**keys)), "x").rules[0]
    assert (loaded.fault_class, loaded.action, loaded.clears_on) == ("dead", "reboot", "reboot")
    assert loaded.threshold == Threshold(count=3, window=Duration(90))
    assert (loaded.fallback, loaded.facilities) == (True, (Facility.USER,))


def test_examples_are_tried_with_the_whole_file() -> None:
    """A line that the file ignores, or that another rule takes from a fallback, is no example of a match."""
    example = {"examples": {"match": ["audit: broken"]}}
    with pytest.raises(RulesError, match="does not match its example 'audit: broken'"):
        load(written(with_rule(**example) | {"ignore": ["^audit: "]}), "x")
    other = {"reason": "ChipOther", "pattern": "any", "fallback": True, "examples": {"match": ["any broken"]}}
    with pytest.raises(RulesError, match=r"rule 1 \(ChipOther\): does not match its example 'any broken'"):
        load(written(rule_file(rules=[*rule_file()["rules"], other])), "x")


def test_a_file_on_which_the_two_ways_of_matching_differ_would_not_be_loaded() -> None:
    """There is no such file that we know of; loading checks it all the same."""
    _check_agreement([rule()], [rule()], "broken")
    with pytest.raises(RulesError, match="internal: the two ways of matching differ on 'broken'; please report"):
        _check_agreement([rule()], [], "broken")


def test_a_file_of_node_problem_detector_is_known_by_its_plugin() -> None:
    loaded = load(written(NPD), "odd.json")
    assert isinstance(loaded, NpdRuleSet)
    assert loaded.name == "odd"
    with_tabs = json.dumps(NPD, indent="\t").replace("odd", r"o\/dd").encode()
    assert load(with_tabs, "odd.json").rules[0].pattern == r"(?:o/dd) *\z"
    with pytest.raises(RulesError, match="unknown field `plugin`"):
        load(written(rule_file(plugin="kmsg")), "x")


@pytest.mark.parametrize("path", sorted(FILES.glob("*.json")), ids=lambda path: str(path.stem))
def test_the_shipped_files_of_node_problem_detector_load(path: Any) -> None:
    assert load(path.read_bytes(), path.name).rules


def test_rule_sets_together_list_each_condition_and_reason_once() -> None:
    shared = rule("worse", reason="ChipWorse")
    one = rule_set(rule("broken"), rule("broke", facilities=(Facility.KERN,)), shared, name="one")
    two = rule_set(shared, rule("odd", reason="ChipOdd", condition=None), name="two")
    both = combine((one, two))
    assert [each.reason for each in both.rules] == ["ChipBroken", "ChipWorse", "ChipOdd"]
    assert [default.type for default in both.conditions] == ["ChipHasError"]
    assert both.rule_sets == (one, two)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            rule_set(rule(), name="made"),
            "rule set 'made' is loaded twice; give each file a name of its own (metadata.name",
        ),
        (
            rule_set(rule(action=Action.REPLACE), name="two"),
            "rule set 'two': rules with reason 'ChipBroken' disagree (condition, faultClass",
        ),
    ],
)
def test_rule_sets_that_disagree_are_refused(other: Any, sentence: str) -> None:
    with pytest.raises(RulesError) as refused:
        combine((rule_set(rule()), other))
    assert str(refused.value).startswith(sentence)


def test_conditions_with_two_defaults_are_refused() -> None:
    texts = [
        written(rule_file(metadata={"name": name}, conditions=[{"type": "ChipHasError", "reason": f"Fine{name}"}]))
        for name in ("one", "two")
    ]
    one, two = (load(text, "x") for text in texts)
    with pytest.raises(RulesError, match="rule set 'two': condition 'ChipHasError' has other defaults elsewhere"):
        combine((one, two))


def test_hostile_text_is_measured_for_a_pattern_that_is_linear_but_dear() -> None:
    """`rules check` refuses by this figure; that it grows with the pattern is all that can be told without a clock."""
    cheap = load(written(rule_file()), "x")
    dear = load(written(with_rule(pattern="(?:b.*r.*o.*k.*e.*n.{1,300}){2}q")), "x")
    assert 0 < 10 * milliseconds_per_kb(cheap) < milliseconds_per_kb(dear)
