"""What the node says about itself: when conditions change, and what people are told."""

from __future__ import annotations

import pytest

from detector.book import MOST_DEVICES, MOST_ENTRIES
from runtime.vocabulary import Action, ClearsOn, FaultClass, Reason, Status
from tests.detector.builders import DAEMON, OURS, THEIRS, USER, Node, at, catalog, record, rule, threshold

BROKEN = rule(r"broken(?: on (?P<device>\w+))?", fault_class=FaultClass.DEAD, action=Action.REPLACE)
WORSE = rule(r"worse(?: on (?P<device>\w+))?", reason="ChipWorse", fault_class=FaultClass.POISONED)
HANGS = rule("hangs", reason="ChipHangs", clears_on=ClearsOn.REBOOT)
ODD = rule(r"odd(?: on (?P<device>\w+))?", reason="ChipOdd", condition=None)
THRICE = rule(r"flaps(?: on (?P<device>\w+))?", reason="ChipFlaps", threshold=threshold(3, 10))
LINKS = rule("link down", reason="LinkDown", condition="LinkHasError")
NEURON = rule("NEURON_HW_ERR=DMA_ERROR", reason="NeuronDma")
RULES = catalog(BROKEN, WORSE, HANGS, ODD, THRICE, LINKS, NEURON)


def node(**keys: object) -> Node:
    return Node(RULES, **keys)  # type: ignore[arg-type]


def test_all_is_well_from_the_first_second() -> None:
    healthy = node()
    view = healthy.health.view()
    assert [(c.type, c.status, c.reason, c.message) for c in view.conditions] == [
        ("ChipHasError", Status.FALSE, "ChipHasErrorNot", "all is well"),
        ("LinkHasError", Status.FALSE, "LinkHasErrorNot", "all is well"),
    ]
    assert {c.last_transition_at for c in view.conditions} == {at(0)}
    assert view.problems == {each.reason: 0 for each in RULES.rules}
    assert (view.faults, view.foreign, healthy.told()) == ((), 0, [])


def test_a_fault_makes_its_condition_true_at_once() -> None:
    sick = node()
    before = sick.health.revision
    sick.say("chip broken on nd3", seconds=5.7)
    condition = sick.condition()
    assert (condition.status, condition.reason) == (Status.TRUE, "ChipBroken")
    assert condition.message == "ChipBroken device=nd3 (1 line)"
    assert condition.last_transition_at == condition.last_heartbeat_at == at(5), "in whole seconds"
    assert sick.status("LinkHasError") is Status.FALSE
    assert sick.health.revision > before
    assert sick.health.view().problems["ChipBroken"] == 1


def test_benign_lines_change_nothing() -> None:
    healthy = node()
    before = healthy.health.view()
    healthy.say("usb 1-1: new device", "unbreakable", seconds=5)
    healthy.say("broken", seconds=5, facility=DAEMON)
    assert healthy.health.view() == before
    assert healthy.told() == []


def test_a_person_can_inject_a_fault() -> None:
    sick = node()
    sick.say("broken", facility=USER)
    assert sick.status() is Status.TRUE


def test_the_gravest_fault_and_then_the_oldest_gives_the_reason() -> None:
    sick = node()
    seen = []
    for seconds, text in enumerate(["hangs", "broken on a", "worse on b", "worse on c", "broken on d"]):
        sick.say(text, seconds=seconds)
        seen.append(sick.condition().reason)
    assert seen == ["ChipHangs", "ChipBroken", "ChipWorse", "ChipWorse", "ChipWorse"]
    assert sick.condition().message == (
        "ChipWorse device=b (1 line); ChipWorse device=c (1 line); ChipBroken device=a (1 line); "
        "ChipBroken device=d (1 line); ChipHangs (1 line)"
    )


def test_reason_change_keeps_the_transition_time() -> None:
    sick = node()
    sick.say("hangs", seconds=5)
    sick.say("worse on b", seconds=9)
    assert (sick.condition().reason, sick.condition().last_transition_at) == ("ChipWorse", at(5))
    assert sick.condition().last_heartbeat_at == at(9)


def test_a_higher_count_alone_changes_no_condition_until_the_next_change() -> None:
    sick = node()
    sick.say("broken on a", seconds=5)
    before, revision = sick.condition(), sick.health.revision
    sick.say("broken on a", "broken on a", seconds=6)
    assert (sick.condition(), sick.health.revision) == (before, revision)
    assert sick.health.view().faults[0].count == 3
    sick.say("broken on b", seconds=7)
    assert sick.condition().message == "ChipBroken device=a (3 lines); ChipBroken device=b (1 line)"


def test_a_heartbeat_brings_counts_up_to_date_and_nothing_else() -> None:
    sick = node()
    sick.say("broken", seconds=5)
    sick.say("broken", seconds=6)
    revision = sick.health.revision
    assert sick.health.heartbeat(at(300))
    condition = sick.condition()
    assert (condition.message, condition.last_heartbeat_at) == ("ChipBroken (2 lines)", at(300))
    assert (condition.last_transition_at, sick.health.revision) == (at(5), revision)
    assert sick.condition("LinkHasError").last_heartbeat_at == at(300)


def test_a_temporary_problem_is_an_event_and_no_condition() -> None:
    well = node()
    before = well.health.view().conditions
    well.say("odd on a", "odd on a", "odd on b")
    assert well.health.view().conditions == before
    assert well.health.view().problems["ChipOdd"] == 3
    assert [(told.reason, told.count, told.warning) for told in well.told()] == [
        ("ChipOdd", 2, True),
        ("ChipOdd", 1, True),
    ]


def test_fifty_thousand_equal_lines_are_one_fault_and_one_announcement() -> None:
    sick = node()
    for start in range(0, 50_000, 250):
        sick.read([record("broken", sequence=n) for n in range(start, start + 250)])
    assert [fault.count for fault in sick.health.faults] == [50_000]
    assert sick.health.view().problems["ChipBroken"] == 50_000
    assert [(told.key, told.count) for told in sick.told()] == [("('ChipBroken', ())", 50_000)]


def test_fifty_thousand_devices_are_bounded_and_counted() -> None:
    sick = node()
    for start in range(0, 50_000, 250):
        sick.say(
            *(f"broken on d{n}" for n in range(start, start + 250)), *(f"odd on d{n}" for n in range(start, start + 9))
        )
    assert len(sick.health.faults) == MOST_DEVICES + 1 <= MOST_ENTRIES
    assert sick.health.faults[-1].count == 50_000 - MOST_DEVICES
    assert len(sick.condition().message) <= 1024
    assert len(sick.told()) == 2 * (MOST_DEVICES + 1)


def test_each_device_is_announced_with_its_line() -> None:
    sick = node()
    sick.say("chip broken on a")
    (told,) = sick.told()
    assert (told.reason, told.warning, told.count) == ("ChipBroken", True, 1)
    assert told.message == "ChipBroken device=a (dead, vendor's advice: replace): chip broken on a"
    assert sick.told() == []
    sick.say("chip broken on a", "chip broken on b")
    assert [(again.key, again.count) for again in sick.told()] == [
        ("('ChipBroken', (('device', 'a'),))", 2),
        ("('ChipBroken', (('device', 'b'),))", 1),
    ]


def test_enough_lines_within_a_window_of_kernel_time_are_a_fault() -> None:
    sick = node()
    for seconds in (1, 2, 20, 21):
        sick.say("flaps on a", seconds=seconds)
        sick.say("flaps on b", seconds=seconds)
    assert (sick.status(), sick.health.view().problems["ChipFlaps"]) == (Status.FALSE, 0)
    assert sick.told() == []
    sick.say("flaps on a", seconds=22)
    assert sick.condition().message == "ChipFlaps device=a (3 lines)"
    sick.say("flaps on a", seconds=900)
    assert sick.health.faults[0].count == 4, "once it is a fault each line counts"


def test_foreign_lines_are_counted_and_ignored() -> None:
    well = node()
    well.say(f"NEURON_HW_ERR=DMA_ERROR instance-id={THEIRS} nd-id=1", f"NEURON_HW_ERR=DMA_ERROR instance-id={THEIRS}")
    assert (well.status(), well.health.view().foreign, well.told()) == (Status.FALSE, 2, [])
    assert well.health.view().problems["NeuronDma"] == 0


@pytest.mark.parametrize("line", [f"instance-id={OURS}", "instance-id=i-0abc", "instance-id=unknown", ""])
def test_lines_that_may_be_ours_count(line: str) -> None:
    sick = node()
    sick.say(f"NEURON_HW_ERR=DMA_ERROR {line}")
    assert (sick.status(), sick.health.view().foreign) == (Status.TRUE, 0)


def test_a_foreign_code_does_not_hide_our_own_in_the_same_record() -> None:
    sick = Node(catalog(NEURON, rule("NEURON_HW_ERR=SRAM", reason="NeuronSram")))
    sick.say(f"NEURON_HW_ERR=DMA_ERROR instance-id={THEIRS}\nNEURON_HW_ERR=SRAM instance-id={OURS}")
    assert [fault.reason for fault in sick.health.faults] == ["NeuronSram"]
    assert sick.health.view().foreign == 1


def test_any_number_of_instances_may_be_named_while_our_own_is_unknown() -> None:
    sick = Node(RULES, instance=None)
    for number in range(5000):
        sick.say(f"NEURON_HW_ERR=DMA_ERROR nd-id=1 instance-id=i-{number:017x}")
    assert max(map(len, sick.health._whose._named.values())) < 16
    sick.health.learn_instance("i-00000000000000fff", at(60))
    assert sick.status() is Status.TRUE, "one of them was ours"


def test_a_fault_of_a_threshold_began_with_the_first_line_that_counts() -> None:
    sick = node()
    for seconds in (1, 20, 21, 22.5):
        sick.say("flaps on a", seconds=seconds)
    (fault,) = sick.health.faults
    assert (fault.first_at, fault.last_at) == (at(20), at(22.5))
    assert sick.condition().last_transition_at == at(22)


def test_news_are_told_apart_from_counts_that_only_grew() -> None:
    """The loop looks at news at once and at grown counts once a second."""
    sick = node()
    assert (sick.health.has_news, sick.health.has_grown) == (False, False)
    sick.say("broken on a")
    assert (sick.health.has_news, sick.health.has_grown) == (True, True)
    sick.told()
    assert (sick.health.has_news, sick.health.has_grown) == (False, False)
    sick.say("broken on a")
    assert (sick.health.has_news, sick.health.has_grown) == (False, True)
    sick.clear("all", seconds=9)
    assert sick.health.has_news
    assert sick.health.kinds == ["ChipHasError", "LinkHasError"]


def test_people_are_told_in_the_order_of_what_happened() -> None:
    sick = node()
    sick.say("broken on a", seconds=5)
    sick.clear("all", seconds=6)
    assert [told.reason for told in sick.told()] == ["ChipBroken", Reason.FAULT_CLEARED]
    sick.say("broken on a", seconds=7)
    sick.clear("all", seconds=8)
    sick.say("broken on a", seconds=9)
    assert [told.reason for told in sick.told()] == [Reason.FAULT_CLEARED, "ChipBroken"]


def test_without_sight_no_condition_is_false_and_none_is_confirmed() -> None:
    sick = node()
    sick.say("broken", seconds=5)
    sick.told()
    sick.health.set_blind("permission denied", at(40))
    link = sick.condition("LinkHasError")
    assert (link.status, link.reason) == (Status.UNKNOWN, Reason.DETECTOR_BLIND)
    assert link.message == "the kernel log cannot be read: permission denied"
    assert (link.last_transition_at, sick.status()) == (at(40), Status.TRUE)
    assert not sick.health.heartbeat(at(300))
    assert sick.condition("LinkHasError") == link
    sick.health.set_blind("still", at(50))
    assert sick.condition("LinkHasError") == link
    assert [told.reason for told in sick.told()] == [Reason.DETECTOR_BLIND]


def test_sight_comes_back() -> None:
    sick = node()
    sick.health.set_blind("end of file", at(40))
    sick.say("broken", seconds=50)
    sick.health.set_seeing(at(60))
    assert (sick.status(), sick.condition().last_transition_at) == (Status.TRUE, at(50))
    link = sick.condition("LinkHasError")
    assert (link.status, link.last_transition_at) == (Status.FALSE, at(60))
    assert sick.health.heartbeat(at(300))
    assert [told.reason for told in sick.told()] == [Reason.DETECTOR_BLIND, "ChipBroken", Reason.DETECTOR_SEES_AGAIN]


def test_seeing_while_nothing_was_blind_says_nothing() -> None:
    well = node()
    before = well.health.view()
    well.health.set_seeing(at(9))
    assert (well.health.view(), well.told()) == (before, [])


def test_a_fault_cleared_without_sight_leaves_it_unknown() -> None:
    sick = node()
    sick.say("broken")
    sick.health.set_blind("end of file", at(40))
    sick.clear("all", seconds=50)
    assert sick.status() is Status.UNKNOWN
