"""What a node still knows after its program was started again, on this machine or another."""

from __future__ import annotations

import msgspec
import pytest

from detector.model import Condition, State
from runtime.vocabulary import ClearsOn, FaultClass, Reason, Status
from tests.detector.builders import OURS, THEIRS, Node, at, catalog, rule, threshold

BROKEN = rule(r"broken(?: on (?P<device>\w+))?", clears_on=ClearsOn.REPLACEMENT, fault_class=FaultClass.DEAD)
HANGS = rule("hangs", reason="ChipHangs", clears_on=ClearsOn.REBOOT)
ODD = rule("odd", reason="ChipOdd", condition=None)
THRICE = rule(r"flaps(?: on (?P<device>\w+))?", reason="ChipFlaps", threshold=threshold(3, 10))
LINKS = rule("link down", reason="LinkDown", condition="LinkHasError")
RULES = catalog(BROKEN, HANGS, ODD, THRICE, LINKS)


def sick(*, instance: str | None = OURS) -> Node:
    """Make a node with three faults, all told."""
    node = Node(RULES, instance=instance)
    node.say("broken on a", "broken on a", "hangs", seconds=5)
    node.say("broken on b", seconds=6)
    node.told()
    return node


def test_a_restart_changes_nothing_and_announces_nothing() -> None:
    before = sick()
    after = before.restarted(seconds=100)
    assert after.health.view().conditions == before.health.view().conditions
    assert after.health.faults == before.health.faults
    assert (after.told(), after.condition().last_transition_at) == ([], at(5))
    assert after.health.view().problems["ChipBroken"] == 0, "a counter starts at zero, as Prometheus expects"


def test_counts_that_had_grown_go_on_where_they_were() -> None:
    before = sick()
    before.say("broken on a", seconds=7)
    after = before.restarted(seconds=100)
    assert after.condition().message.startswith("ChipBroken device=a (3 lines)")
    assert after.condition().last_transition_at == at(5)
    after.say("broken on a", seconds=101)
    assert [(told.key, told.count) for told in after.told()] == [("('ChipBroken', (('device', 'a'),))", 4)]
    assert after.health.view().problems["ChipBroken"] == 1


def test_a_fault_written_meanwhile_is_found_and_told() -> None:
    after = sick().restarted(seconds=100)
    after.say("link down", seconds=90)
    assert after.status("LinkHasError") is Status.TRUE
    assert [told.reason for told in after.told()] == ["LinkDown"]


def test_a_reboot_ends_what_a_reboot_ends_and_nothing_else() -> None:
    before = sick()
    before.say("link down", seconds=8)
    after = before.restarted(boot="boot-2", seconds=100)
    assert [fault.reason for fault in after.health.faults] == ["ChipBroken", "ChipBroken", "LinkDown"]
    assert (after.condition().reason, after.condition().last_transition_at) == ("ChipBroken", at(5))
    assert [told.message for told in after.told() if told.reason == Reason.FAULT_CLEARED] == [
        "ChipHangs ended after 1 line: the node was rebooted"
    ]


def test_a_condition_whose_only_fault_ends_by_the_reboot_is_false_from_now_on() -> None:
    node = Node(RULES)
    node.say("hangs", seconds=5)
    after = node.restarted(boot="boot-2", seconds=100)
    assert (after.status(), after.condition().last_transition_at) == (Status.FALSE, at(100))
    again = after.restarted(seconds=200)
    assert (again.told(), again.condition().last_transition_at) == ([], at(100))


def test_a_replacement_ends_everything_and_says_so() -> None:
    after = sick().restarted(instance=THEIRS, boot="boot-2", seconds=100)
    assert (after.status(), after.health.faults) == (Status.FALSE, ())
    assert {told.message.partition(": ")[2] for told in after.told()} == {"the instance was replaced"}
    assert after.health.state(9).instance == THEIRS


@pytest.mark.parametrize(("old", "new", "known"), [(OURS, None, OURS), (None, OURS, OURS), (None, None, None)])
def test_an_unknown_instance_is_taken_for_ours(old: str | None, new: str | None, known: str | None) -> None:
    after = sick(instance=old).restarted(instance=new, seconds=100)
    assert (after.status(), after.told()) == (Status.TRUE, [])
    assert after.health.instance == after.health.state(9).instance == known


def test_lines_under_way_to_a_threshold_survive_a_restart_but_not_a_reboot() -> None:
    node = Node(RULES)
    node.say("flaps on a", "flaps on a", seconds=5)
    assert node.restarted(seconds=6).health.state(1).pending == node.health.state(1).pending
    restarted, rebooted = node.restarted(seconds=6), node.restarted(boot="boot-2", seconds=6)
    for after in (restarted, rebooted):
        after.say("flaps on a", seconds=7)
    assert (restarted.status(), rebooted.status()) == (Status.TRUE, Status.FALSE)


def test_faults_of_rules_no_longer_loaded_keep_their_condition_until_they_are_cleared() -> None:
    after = sick().restarted(loaded=catalog(LINKS), seconds=100)
    assert (after.status(), after.condition().last_transition_at) == (Status.TRUE, at(5))
    assert after.condition().reason == "ChipBroken"
    assert after.told() == []
    after = after.restarted(loaded=catalog(LINKS), seconds=150)
    assert after.clear("ChipBroken", seconds=200)
    assert after.clear("ChipHangs", seconds=201)
    condition = after.condition()
    assert (condition.status, condition.reason, condition.message) == (Status.FALSE, Reason.FAULT_CLEARED, "")
    assert condition.last_transition_at == at(201)


def test_faults_of_rules_no_longer_loaded_end_by_what_their_rules_said() -> None:
    after = sick().restarted(loaded=catalog(LINKS), boot="boot-2", seconds=100)
    assert [fault.reason for fault in after.health.faults] == ["ChipBroken", "ChipBroken"]


def test_a_node_that_was_blind_when_its_program_ended_is_not_for_ever() -> None:
    node = sick()
    node.health.set_blind("end of file", at(40))
    after = node.restarted(seconds=100)
    assert (after.status(), after.status("LinkHasError")) == (Status.TRUE, Status.FALSE)
    assert after.condition().last_transition_at == at(5)


def test_an_events_count_goes_on_after_a_restart_and_begins_anew_after_a_reboot() -> None:
    node = Node(RULES)
    node.say("odd", "odd", "odd", seconds=5)
    restarted, rebooted = node.restarted(seconds=6), node.restarted(boot="boot-2", seconds=6)
    assert (restarted.told(), rebooted.told()) == ([], [])
    counts = []
    for after in (restarted, rebooted):
        after.say("odd", seconds=7)
        counts += [(told.reason, told.count) for told in after.told()]
    assert counts == [("ChipOdd", 4), ("ChipOdd", 1)]


def test_the_state_says_where_reading_has_to_go_on() -> None:
    state = sick().health.state(41)
    assert (state.v, state.boot, state.instance, state.seq) == (1, "boot-1", OURS, 41)
    assert sick().health.state(None).seq is None


def test_the_state_is_written_in_the_words_of_the_contract() -> None:
    document = msgspec.to_builtins(sick().health.state(41))
    assert list(document)[:6] == ["v", "boot", "instance", "seq", "conditions", "faults"]
    assert document["faults"][0] == {
        "reason": "ChipBroken",
        "condition": "ChipHasError",
        "faultClass": "dead",
        "action": "none",
        "clearsOn": "replacement",
        "count": 2,
        "first_at": "2026-11-29T10:00:05Z",
        "last_at": "2026-11-29T10:00:05Z",
        "details": {"device": "a"},
    }
    assert document["conditions"][0] | {"message": ""} == {
        "type": "ChipHasError",
        "status": "True",
        "reason": "ChipBroken",
        "message": "",
        "lastTransitionTime": "2026-11-29T10:00:05Z",
        "lastHeartbeatTime": "2026-11-29T10:00:06Z",
    }


def published(node: Node) -> tuple[Condition, ...]:
    """Give the conditions as the Node object keeps them, with somebody else's among them."""
    ready = msgspec.structs.replace(node.condition(), type="Ready", reason="KubeletReady", message="")
    return (ready, *node.health.view().conditions)


def adopting(node: Node, conditions: tuple[Condition, ...], *, boot: str | None = "boot-1") -> None:
    node.health.adopt(conditions, at(100), boot=boot)


def test_without_a_state_the_nodes_own_condition_is_adopted_and_never_false_in_between() -> None:
    before = sick()
    after = Node(RULES, seconds=100)
    adopting(after, published(before))
    assert (after.status(), after.condition().last_transition_at) == (Status.TRUE, at(5))
    assert (after.condition().reason, after.told()) == ("ChipBroken", [])
    assert [condition.type for condition in after.health.view().conditions] == ["ChipHasError", "LinkHasError"]
    assert sorted({fault.reason for fault in after.health.faults}) == ["ChipBroken", "ChipHangs"]


def test_lines_already_told_bring_the_devices_back_and_are_not_told_again() -> None:
    after = Node(RULES, seconds=100)
    adopting(after, published(sick()))
    after.say("broken on a", "broken on a", "hangs", seconds=5)
    after.say("broken on b", seconds=6)
    assert after.told() == []
    assert (after.status(), after.condition().last_transition_at) == (Status.TRUE, at(5))
    assert sorted((fault.reason, fault.details.get("device", "")) for fault in after.health.faults) == [
        ("ChipBroken", "a"),
        ("ChipBroken", "b"),
        ("ChipHangs", ""),
    ]
    after.say("link down", seconds=50)
    assert [told.reason for told in after.told()] == ["LinkDown"]


def test_an_adopted_condition_stays_through_a_restart_and_can_be_cleared() -> None:
    node = Node(RULES, seconds=100)
    adopting(node, published(sick()))
    after = node.restarted(seconds=200)
    assert (after.status(), after.condition().last_transition_at, after.told()) == (Status.TRUE, at(5), [])
    assert after.clear("all", seconds=300)
    assert after.status() is Status.FALSE


def test_an_adopted_fault_that_a_reboot_ended_ends() -> None:
    node = Node(RULES, boot="boot-2", seconds=100)
    adopting(node, published(sick()), boot="boot-1")
    assert {fault.reason for fault in node.health.faults} == {"ChipBroken"}
    assert [told.message for told in node.told()] == ["ChipHangs ended after 1 line: the node was rebooted"]


def test_an_adopted_false_condition_keeps_its_time() -> None:
    healthy = Node(RULES)
    after = Node(RULES, seconds=100)
    adopting(after, published(healthy), boot=None)
    assert after.health.view().conditions == healthy.health.view().conditions


def test_an_adopted_unknown_condition_is_false_once_its_node_is_seen() -> None:
    blind = Node(RULES)
    blind.health.set_blind("end of file", at(40))
    after = Node(RULES, seconds=100)
    adopting(after, blind.health.view().conditions)
    assert (after.status(), after.condition().last_transition_at) == (Status.FALSE, at(100))


def test_a_state_of_another_version_is_not_read() -> None:
    text = msgspec.json.encode(sick().health.state(1)).replace(b'"v":1', b'"v":2')
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 2"):
        msgspec.json.decode(text, type=State)
