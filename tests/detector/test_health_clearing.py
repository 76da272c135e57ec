"""What an operator's word ends, and what it does not."""

from __future__ import annotations

from detector.model import ClearRequest
from runtime.vocabulary import FaultClass, Reason, Status
from tests.detector.builders import OURS, THEIRS, Node, at, catalog, rule

BROKEN = rule(r"broken(?: on (?P<device>\w+))?", fault_class=FaultClass.DEAD)
WORSE = rule(r"worse(?: on (?P<device>\w+))?", reason="ChipWorse", fault_class=FaultClass.POISONED)
LINKS = rule("link down", reason="LinkDown", condition="LinkHasError")
NEURON = rule("NEURON_HW_ERR=DMA_ERROR", reason="NeuronDma")
RULES = catalog(BROKEN, WORSE, LINKS, NEURON)


def node() -> Node:
    return Node(RULES)


def test_what_is_remembered_of_a_fault_goes_with_it() -> None:
    sick = Node(RULES, instance=None)
    sick.say(f"NEURON_HW_ERR=DMA_ERROR instance-id={THEIRS}")
    sick.clear("all", seconds=5)
    sick.say("NEURON_HW_ERR=DMA_ERROR instance-id=" + OURS, seconds=6)
    assert [len(names) for names in sick.health._whose._named.values()] == [1]
    sick.clear("all", seconds=7)
    assert sick.health._whose._named == {}


def test_an_operator_clears_one_reason_or_all() -> None:
    sick = node()
    sick.say("broken on a", "broken on b", "worse on c", "link down", seconds=5)
    sick.told()
    assert sick.clear("ChipBroken", seconds=60)
    assert (sick.condition().reason, sick.condition().last_transition_at) == ("ChipWorse", at(5))
    assert [told.message for told in sick.told()] == [
        "ChipBroken device=a ended after 1 line: an operator cleared it",
        "ChipBroken device=b ended after 1 line: an operator cleared it",
    ]
    assert sick.clear("all", seconds=61)
    assert (sick.status(), sick.status("LinkHasError")) == (Status.FALSE, Status.FALSE)
    assert sick.condition().last_transition_at == at(61)
    assert {(told.reason, told.warning) for told in sick.told()} == {(Reason.FAULT_CLEARED, False)}


def test_there_may_be_nothing_to_clear() -> None:
    well = node()
    before = well.health.view()
    assert not well.clear("all", seconds=9)
    assert not well.clear("ChipBroken", seconds=9)
    assert (well.health.view(), well.told()) == (before, [])


def test_a_fault_that_was_cleared_and_comes_again_counts_anew() -> None:
    sick = node()
    sick.say("broken on a", "broken on a", seconds=5)
    sick.clear("all", seconds=60)
    sick.say("broken on a", seconds=70)
    assert (sick.condition().status, sick.condition().last_transition_at) == (Status.TRUE, at(70))
    assert (sick.health.faults[0].count, sick.health.faults[0].first_at) == (1, at(70))


def test_a_request_to_clear_does_not_mean_a_fault_that_came_after_it() -> None:
    sick = node()
    sick.say("broken on a", seconds=50)
    request = ClearRequest(reason="all", faults=sick.health.faults)
    sick.say("broken on b", "worse on a", seconds=51)
    assert sick.health.clear(request, at(60))
    assert [(fault.reason, fault.details) for fault in sick.health.faults] == [
        ("ChipBroken", {"device": "b"}),
        ("ChipWorse", {"device": "a"}),
    ]
    assert not sick.health.clear(request, at(61))


def test_a_fault_that_came_again_after_the_request_stays() -> None:
    sick = node()
    sick.say("broken on a", seconds=50)
    request = ClearRequest(reason="ChipBroken", faults=sick.health.faults)
    sick.say("broken on a", seconds=55)
    assert not sick.health.clear(request, at(60))
    assert sick.status() is Status.TRUE


def test_a_request_that_is_met_late_does_not_mean_a_fault_that_was_cleared_and_came_anew() -> None:
    sick = node()
    sick.say("broken on a", seconds=50)
    request = ClearRequest(reason="all", faults=sick.health.faults)
    sick.clear("all", seconds=60)
    sick.say("broken on a", seconds=70)
    assert not sick.health.clear(request, at(80))
    assert sick.status() is Status.TRUE


def test_a_clock_that_was_set_back_does_not_keep_a_fault_from_being_cleared() -> None:
    sick = node()
    sick.say("broken on a", seconds=3600)
    assert sick.clear("all", seconds=600)
    assert sick.status() is Status.FALSE
