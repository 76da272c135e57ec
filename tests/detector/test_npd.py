"""node-problem-detector's files load with their meaning, or are refused with the key or rule that is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.matcher import Matcher
from detector.model import ConditionDefault, Rule
from detector.npd import NpdError, load
from detector.patterns import compile_one
from detector.rules import load as load_rules
from runtime.durations import Duration
from runtime.vocabulary import Action, ClearsOn, Facility, FaultClass
from tests.detector.npd_files import made, shipped

pytestmark = pytest.mark.pure


def test_conditions_say_what_the_file_says() -> None:
    assert shipped("neuron").conditions == (
        ConditionDefault(type="NeuronHealth", reason="NeuronHasNoError", message="Neuron has no error"),
    )


def test_what_the_format_does_not_say_gets_our_defaults() -> None:
    rule = shipped("neuron").rules[3]
    assert rule == Rule(
        reason="NeuronHasError_DMA_ERROR", pattern=r"(?:.* NEURON_HW_ERR=DMA_ERROR .*) *\z", condition="NeuronHealth"
    )
    assert (rule.fault_class, rule.action, rule.clears_on) == (FaultClass.SUSPECT, Action.NONE, ClearsOn.OPERATOR)
    assert (rule.facilities, rule.threshold.count) == ((Facility.KERN, Facility.USER), 1)


def test_a_temporary_rule_has_no_condition_even_if_it_names_one() -> None:
    rule = {"type": "temporary", "reason": "A", "pattern": "a", "condition": "Undeclared"}
    assert load(json.dumps({"plugin": "kmsg", "rules": [rule]}), "x").rules[0].condition is None


@pytest.mark.parametrize(
    ("pattern", "narrow"),
    [
        (r"EXT4-fs error .*", True),
        (r"task [\S ]+:\w+ blocked for more than \w+ seconds\.", True),
        (r"(?P<device>\w+)(?:a|b){1,3}?", True),
        (r"(?i)bad(?m:^x$)(?U-i)", True),
        (r"\Qa.b\E\t\d\b\B\A\z\/", True),
        (r"[a-z\d_.\]-]", True),
        (r"[^]\n]", True),
        (r"[^x\s]", True),
        ("[^x\n]", True),
        (r"[^x]", False),
        (r"[^\\n]", False),
        (r"a\nb", False),
        ("a\nb", False),
        ("\\Qa\nb\\E", False),
        (r"a\sb", False),
        (r"a\Db", False),
        (r"a\Wb", False),
        (r"a\x0ab", False),
        (r"a\012b", False),
        (r"a\pZb", False),
        (r"a\Cb", False),
        (r"[\s]", False),
        (r"[\t-\r]", False),
        ("[\t-z]", False),
        (r"[\t-z]", False),
        (r"[\x00-\x7f]", False),
        (r"[\W]", False),
        (r"[[:space:]]", False),
        (r"[[:alpha:]]", False),  # safe, but not worth knowing
        (r"(?s)a.b", False),
        (r"(?is:a.b)", False),
        (r"(?-s)a.b", False),  # the same
    ],
)
def test_only_patterns_that_cannot_match_a_newline_are_searched_record_by_record(*, pattern: str, narrow: bool) -> None:
    assert made("x", pattern).buffer_lines == (1 if narrow else 10)


FRAGMENTS = [
    *("a", ".", " ", "\n", r"\n", r"\s", r"\S", r"\d", r"\D", r"\W", r"\b", "^", "$", "*", "+", "?", "|", r"\\", "-"),
    *("(?s)", "(?i)", "(?:", "(", ")", "[^a]", r"[^\n]", r"[\S ]", "[^", "[", "]", "[a-z]", "[ -~]", "[\t-z]"),
]


@settings(deadline=None, max_examples=500)
@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=6).map("".join), st.text("ab \n\t-", max_size=5))
def test_what_is_searched_record_by_record_matches_no_newline(pattern: str, text: str) -> None:
    try:
        lines = made(pattern).buffer_lines
    except NpdError:
        return
    if lines == 1:
        whole = compile_one(rf"\A(?:{pattern})\z")
        parts = {text[start:end] for start in range(len(text)) for end in range(start + 1, len(text) + 1)}
        assert not [part for part in parts if "\n" in part and whole.search(part.encode())]


def test_all_keys_that_it_knows_are_taken() -> None:
    document = {
        "plugin": "kmsg",
        "pluginConfig": {"revive": "true"},
        "skipList": ["audit"],
        "logPath": "/dev/kmsg",
        "lookback": "5m",
        "delay": "0",
        "bufferSize": 3,
        "source": "mine",
        "metricsReporting": False,
        "conditions": [
            {"type": "A", "reason": "NoA", "message": "m", "status": "False", "transition": "0001-01-01T00:00:00Z"}
        ],
        "rules": [
            {
                "type": "permanent",
                "condition": "A",
                "reason": "B",
                "pattern": r"a\nb",
                "patternGeneratedMessageSuffix": "c",
            }
        ],
    }
    rule_set = load(json.dumps(document).encode(), "x")
    assert (rule_set.name, rule_set.buffer_lines, rule_set.lookback) == ("mine", 3, Duration(300))


def test_absent_keys_have_the_defaults_of_node_problem_detector() -> None:
    rule_set = made(r"a\nb")
    assert (rule_set.buffer_lines, rule_set.lookback, rule_set.conditions) == (10, Duration(0), ())
    assert made(r"a\nb", bufferSize=0).buffer_lines == 10


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("kernel-monitor", "x.json", "kernel-monitor"),
        ("", "/etc/rules/My Rules_v1.2.json", "my-rules-v1.2"),
        ("Neuron Monitor!", "x.json", "neuron-monitor"),
        ("\u00e9", "x.json", "x"),
        ("", "/etc/rules/.json", "npd"),
        ("a" * 62 + "--b", "x", "a" * 62),
    ],
)
def test_a_set_is_named_by_its_source_or_else_its_file(source: str, name: str, expected: str) -> None:
    assert load(json.dumps({"plugin": "kmsg", "source": source, "rules": []}), name).name == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0),
        ("0", 0),
        ("+0", 0),
        ("-0", 0),
        ("5m", 300),
        ("+5m", 300),
        ("1h30m", 5400),
        ("300ms", 0.3),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("2us", 2e-6),
        ("2\u00b5s", 2e-6),
        ("2\u03bcs", 2e-6),
        ("3ns", 3e-9),
        ("2562047h", 2562047 * 3600),
    ],
)
def test_lookback_is_a_duration_as_go_writes_it(text: str, seconds: float) -> None:
    assert made("a", lookback=text).lookback.seconds == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5", "-5m", "5 m", "5d", "m", ".s", "1h-5m", "\u0665m", "9" * 400 + "h", "2562048h"])
def test_a_lookback_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(NpdError, match=r"^lookback '.*' is not a duration \(allowed: "):
        made("a", lookback=text)


def test_a_delay_is_refused_rather_than_forgotten() -> None:
    with pytest.raises(NpdError, match=r"^delay '5m' is not supported"):
        made("a", delay="5m")


@pytest.mark.parametrize("plugin", ["filelog", "journald", "custom", None])
def test_other_plugins_are_refused_whatever_else_is_in_the_file(plugin: str | None) -> None:
    document = {"plugin": plugin, "pluginConfig": {"max_output_length": 80}, "rules": [{"path": "./check.sh"}]}
    with pytest.raises(NpdError, match=rf"^plugin {plugin!r} does not read the kernel log \(allowed: 'kmsg'\)$"):
        load(json.dumps(document), "x")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"bufersize": 10}, "unknown field `bufersize`"),
        ({"bufferSize": "10"}, r"Expected `int`, got `str` - at `\$.bufferSize`"),
        ({"bufferSize": -1}, r"`int` >= 0 - at `\$.bufferSize`"),
        ({"bufferSize": 1001}, r"`int` <= 1000 - at `\$.bufferSize`"),
        ({"conditions": [{"type": "A B", "reason": "C"}]}, r"at `\$.conditions\[0\].type`"),
        ({"conditions": [{"type": "A"}]}, "missing required field `reason`"),
        ({"rules": {}}, r"Expected `array`, got `object` - at `\$.rules`"),
        ({"rules": ["a"]}, r"Expected `object`, got `str` - at `\$.rules"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key(keys: dict[str, object], message: str) -> None:
    with pytest.raises(NpdError, match=message):
        made("a", **keys)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"taintEnabled": True}, r"^rule 1 \(B\): Object contains unknown field `taintEnabled`"),
        ({"type": "fatal"}, r"^rule 1 \(B\): Invalid enum value 'fatal' - at `\$.type`"),
        ({"reason": "no blanks"}, r"^rule 1 \(no blanks\): Expected `str` matching regex"),
        ({"pattern": ""}, r"^rule 1 \(B\): Expected `str` of length >= 1 - at `\$.pattern`"),
        ({"pattern": "a("}, r"^rule 1 \(B\): pattern 'a\(': missing \)"),
        ({"pattern": "a)|(b"}, r"^rule 1 \(B\): pattern 'a\)\|\(b': unexpected \)"),
        ({"pattern": r"\Qa"}, r"^rule 1 \(B\): pattern '.*': missing \)"),
        ({"pattern": "(?=a)"}, r"^rule 1 \(B\): pattern '\(\?=a\)': invalid perl operator"),
        ({"pattern": "\u2192"}, r"^rule 1 \(B\): pattern '.*': a pattern may hold only characters up to U\+00FF"),
        ({"type": "permanent"}, r"^rule 1 \(B\): condition '' is not among the file's conditions \(KernelDeadlock\)$"),
        ({"type": "permanent", "condition": "X"}, r"^rule 1 \(B\): condition 'X' is not among"),
    ],
)
def test_a_wrong_rule_is_refused_by_its_number_and_reason(rule: dict[str, object], message: str) -> None:
    good = {"type": "temporary", "reason": "A", "pattern": "a"}
    conditions = [{"type": "KernelDeadlock", "reason": "KernelHasNoDeadlock"}]
    rules = [good, good | {"reason": "B"} | rule]
    with pytest.raises(NpdError, match=message):
        made(conditions=conditions, rules=rules)


def test_a_rule_without_reason_or_declared_conditions_is_refused_too() -> None:
    with pytest.raises(NpdError, match=r"^rule 0 \(without a reason\): Object missing required field `reason`$"):
        made(rules=[{"type": "temporary", "pattern": "a"}])
    with pytest.raises(NpdError, match=r"\(none is declared\)$"):
        made(rules=[{"type": "permanent", "reason": "A", "pattern": "a", "condition": "B"}])


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff", b'{"plugin": "\xff"}', b"[" * 100_000, "\ud800", b"\xef\xbb\xbf{}"]
)
def test_what_is_not_json_is_refused(text: bytes | str) -> None:
    with pytest.raises(NpdError, match=r"^not JSON: "):
        load(text, "x")


def test_json_that_is_no_object_is_refused() -> None:
    with pytest.raises(NpdError, match="Expected `object`, got `array`"):
        load("[]", "x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("lookback", "delay", "bufferSize", "source", "conditions", "rules", "pluginConfig", "skipList", "bad")
RULE_KEYS = ("type", "reason", "pattern", "condition", "bad")


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.dictionaries(st.sampled_from(RULE_KEYS), JSON), st.text())
def test_loading_raises_nothing_but_its_own_error(keys: dict[str, object], rule: dict[str, object], name: str) -> None:
    good = {"type": "temporary", "reason": "A", "pattern": "a"}
    try:
        rule_set = load(json.dumps({"plugin": "kmsg", "rules": [good | rule]} | keys), name)
    except NpdError:
        return
    Matcher([rule_set])


def test_a_file_may_escape_characters_as_json_does() -> None:
    text = (
        '{"plugin": "kmsg", "source": "s", "conditions": [{"type": "C", "reason": "R", "message": "\\ud83d\\ude80"}],'
        ' "rules": [{"type": "permanent", "condition": "C", "reason": "Bad", "pattern": "bad"}]}'
    )
    assert load_rules(text.encode(), "x.json").conditions[0].message == "\U0001f680"
