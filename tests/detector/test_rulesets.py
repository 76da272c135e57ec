"""The shipped rule sets: what they say about each fault, and where they have it from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from detector.lines import read_line
from detector.matcher import Matcher
from detector.parse import to_record
from detector.rulefiles import load_all
from runtime.vocabulary import SHIPPED_RULE_SETS, Action, ClearsOn, Facility, FaultClass
from tests.detector.builders import message

if TYPE_CHECKING:
    from detector.model import Rule, RuleSet

SETS: dict[str, RuleSet] = {each.name: each for each in load_all(SHIPPED_RULE_SETS).rule_sets}
RULES: list[tuple[str, Rule]] = [(name, rule) for name, rules in SETS.items() for rule in rules.rules]
IDS = [f"{rule.reason}-{number}" for number, (_, rule) in enumerate(RULES)]
CONDITIONS = {"neuron": "NeuronHasError", "nvidia": "NvidiaHasError", "amd": "AmdGpuHasError", "gaudi": "GaudiHasError"}

# The contract's table: class, vendor's advice, and what ends the fault.
NEURON = {
    "NeuronHasError_SRAM_UNCORRECTABLE_ERROR": (FaultClass.POISONED, Action.REPLACE, ClearsOn.REPLACEMENT),
    "NeuronHasError_NC_UNCORRECTABLE_ERROR": (FaultClass.POISONED, Action.REPLACE, ClearsOn.REPLACEMENT),
    "NeuronHasError_HBM_UNCORRECTABLE_ERROR": (FaultClass.POISONED, Action.REPLACE, ClearsOn.REPLACEMENT),
    "NeuronHasError_DMA_ERROR": (FaultClass.DEAD, Action.REPLACE, ClearsOn.REPLACEMENT),
    "NeuronHasError_HANG_ON_COLLECTIVES": (FaultClass.SUSPECT, Action.NONE, ClearsOn.REBOOT),
}


def test_all_sets_load_under_their_own_names() -> None:
    assert tuple(SETS) == SHIPPED_RULE_SETS


def test_each_accelerator_has_one_condition_and_the_network_card_has_none() -> None:
    for name, rules in SETS.items():
        declared = [default.type for default in rules.conditions if name != "efa"]
        assert declared == ([CONDITIONS[name]] if name in CONDITIONS else [])
    assert not any(rule.condition for rule in SETS["efa"].rules), "no fatal line of it is documented"


def test_the_neuron_condition_says_that_all_is_well_in_the_words_of_node_problem_detector() -> None:
    (default,) = SETS["neuron"].conditions
    assert (default.type, default.reason, default.message) == (
        "NeuronHasError",
        "NeuronHasNoError",
        "Neuron has no error",
    )


def test_the_neuron_faults_are_those_of_the_contract() -> None:
    faults = {
        rule.reason: (rule.fault_class, rule.action, rule.clears_on) for rule in SETS["neuron"].rules if rule.condition
    }
    assert faults == NEURON
    assert all(rule.threshold.count == 1 for rule in SETS["neuron"].rules)


def test_any_other_neuron_code_is_an_event_and_no_condition() -> None:
    other = next(rule for rule in SETS["neuron"].rules if rule.reason == "NeuronHasError_OTHER")
    assert (other.condition, other.fallback, other.action) == (None, True, Action.NONE)


@pytest.mark.parametrize("reason", sorted(NEURON))
def test_each_neuron_code_is_found_by_itself_and_behind_a_time(reason: str) -> None:
    code = reason.removeprefix("NeuronHasError_")
    fields = "instance-id=i-0a1b2c3d4e5f60718 hostname=h nd-id=3 nc-id=1 serial-num=1a2b action=TERMINATE_INSTANCE"
    matcher = Matcher([SETS["neuron"]])
    for text in (
        f"NEURON_HW_ERR={code}",
        f"2026-11-29T10:15:30Z NEURON_HW_ERR={code} {fields}",
        f"NEURON_HW_ERR={code}.",
    ):
        assert [found.rule.reason for found in matcher.judge(message(text))] == [reason]
    (found,) = matcher.judge(message(f"NEURON_HW_ERR={code} {fields}"))
    assert found.device == (("nc-id", "1"), ("nd-id", "3"), ("serial-num", "1a2b"))


@pytest.mark.parametrize(("name", "rule"), RULES, ids=IDS)
def test_each_rule_names_its_source_and_when_it_was_read(name: str, rule: Rule) -> None:
    assert re.search(r"\(read \d{4}-\d\d-\d\d\)", rule.source), name


@pytest.mark.parametrize(("name", "rule"), RULES, ids=IDS)
def test_each_rule_fires_on_its_examples_and_on_no_counterexample(name: str, rule: Rule) -> None:
    matcher = Matcher([SETS[name]])
    assert rule.examples.match
    assert rule.examples.no_match
    for examples, fires in ((rule.examples.match, True), (rule.examples.no_match, False)):
        for example in examples:
            line = read_line(example.encode())
            assert (rule in [found.rule for found in matcher.judge(line)]) is fires, example
            hits = matcher.batch([to_record(line)])
            assert (rule in [found.rule for hit in hits for found in hit.findings]) is fires, example


@pytest.mark.parametrize(("name", "rule"), RULES, ids=IDS)
def test_each_rule_is_named_after_its_condition_and_clears_by_what_its_action_does(name: str, rule: Rule) -> None:
    assert rule.facilities == (Facility.KERN, Facility.USER)
    prefix = CONDITIONS.get(name, "EfaHasError")
    assert rule.reason.startswith(f"{prefix}_")
    assert rule.condition in (None, prefix)
    if rule.condition is None:
        assert rule.action is Action.NONE, "a line that sets no condition advises nothing"
    if rule.action is Action.REPLACE:
        assert rule.clears_on is ClearsOn.REPLACEMENT
    if rule.action is Action.REBOOT:
        assert rule.clears_on is ClearsOn.REBOOT


@pytest.mark.parametrize("name", SHIPPED_RULE_SETS)
def test_the_loosened_patterns_dismiss_what_has_nothing_to_do_with_accelerators(name: str) -> None:
    """Else the batch would dismiss nothing, which costs the reader its speed."""
    matcher = Matcher([SETS[name]])
    for text in ("usb 1-1: new high-speed USB device number 2", "EXT4-fs (nvme0n1p1): mounted filesystem", ""):
        assert matcher._loose.match(to_record(message(text))) == []
