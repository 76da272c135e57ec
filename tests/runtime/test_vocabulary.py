"""The names that users see; a change here is a change of the contract."""

from __future__ import annotations

import re

from runtime import vocabulary
from runtime.vocabulary import Action, ClearsOn, Facility, FaultClass, Reason, Status


def test_the_classes_are_listed_gravest_first() -> None:
    assert list(FaultClass) == ["poisoned", "dead", "degraded", "suspect"]
    assert [fault_class.gravity for fault_class in FaultClass] == [0, 1, 2, 3]


def test_the_words_of_rule_files_are_those_of_the_contract() -> None:
    assert list(Action) == ["none", "reboot", "replace"]
    assert list(ClearsOn) == ["reboot", "replacement", "operator"]
    assert list(Facility) == ["kern", "user"]
    assert list(Status) == ["True", "False", "Unknown"]


def test_reasons_of_our_own_are_fit_for_kubernetes() -> None:
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", reason) for reason in Reason)


def test_the_metrics_of_node_problem_detector_keep_their_names() -> None:
    assert (vocabulary.PROBLEM_GAUGE, vocabulary.PROBLEM_COUNTER) == ("problem_gauge", "problem_counter")
    assert (vocabulary.DETECTOR_METRICS, vocabulary.BUILD_INFO) == ("chipwarden_detector_", "chipwarden_build_info")
    assert vocabulary.SHIPPED_RULE_SETS == ("neuron", "nvidia", "amd", "gaudi", "efa")
