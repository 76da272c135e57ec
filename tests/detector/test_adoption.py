"""A state file that is old, or was begun before the Node could be read, against what the Node says."""

from __future__ import annotations

import msgspec
import pytest

from detector.model import Condition, State
from runtime.vocabulary import ClearsOn, Reason, Status
from tests.detector.builders import OURS, THEIRS, Node, at, catalog, rule

BROKEN = rule(r"broken(?: on (?P<device>[\w ]+))?", clears_on=ClearsOn.REPLACEMENT)
HANGS = rule("hangs", reason="ChipHangs", clears_on=ClearsOn.REBOOT)
RULES = catalog(BROKEN, HANGS)


def kept(node: Node) -> State:
    """Write the state file now; what comes later does not reach the disk any more."""
    return node.health.state(7)


def running(*, instance: str = OURS) -> Node:
    """Make a node whose Node object has been read, and said nothing."""
    node = Node(RULES, instance=instance)
    node.health.adopt((), at(0), boot=None)
    return node


def started_again(state: State | None, *, boot: str = "boot-1", instance: str | None = OURS) -> Node:
    return Node(RULES, state=state, boot=boot, instance=instance, seconds=100)


def adopt(node: Node, published: tuple[Condition, ...], *, seconds: float = 101, boot: str = "boot-1") -> None:
    node.health.adopt(published, at(seconds), boot=boot)


def devices(node: Node) -> list[str]:
    return [fault.details.get("device", "") for fault in node.health.faults]


def known_to_the_node(*lines: str, seconds: float = 50.0) -> tuple[State, tuple[Condition, ...]]:
    """Have a state kept at the start, and lines after it that only the Node heard of."""
    node = running()
    state = kept(node)
    node.say(*lines, seconds=seconds)
    return state, node.health.view().conditions


@pytest.mark.parametrize("seconds", [50, 0.9])
def test_a_fault_that_never_reached_the_disk_is_no_less_a_fault(seconds: float) -> None:
    state, published = known_to_the_node("broken on a", "broken on a", seconds=seconds)
    node = started_again(state)
    adopt(node, published)
    assert node.health.view().conditions == published
    (fault,) = node.health.faults
    assert (fault.details, fault.count, fault.first_at) == ({"device": "a"}, 2, at(int(seconds)))
    assert node.told() == []


def test_a_device_that_never_reached_the_disk_stays_beside_one_that_did() -> None:
    before = running()
    before.say("broken on a", seconds=5)
    state = kept(before)
    before.say("broken on b", seconds=50)
    node = started_again(state)
    adopt(node, before.health.view().conditions)
    assert devices(node) == ["a", "b"]
    assert node.condition() == before.condition()


def test_lines_read_again_after_an_old_state_are_not_told_twice() -> None:
    state, published = known_to_the_node("broken on a")
    node = started_again(state)
    node.say("broken on a", seconds=50)
    adopt(node, published)
    assert (node.told(), node.condition()) == ([], published[0])


@pytest.mark.parametrize("ahead", [0, 33 * 86400])
def test_a_heartbeat_from_a_clock_that_ran_ahead_hushes_no_later_fault(ahead: float) -> None:
    before = running()
    before.say("broken on a", seconds=50)
    before.health.heartbeat(at(60 + ahead))
    node = started_again(None)
    adopt(node, before.health.view().conditions)
    assert node.told() == []
    node.say("hangs", seconds=200)
    assert [told.reason for told in node.told()] == ["ChipHangs"]


def test_what_the_state_knows_to_have_ended_does_not_come_back() -> None:
    before = running()
    before.say("broken on a", seconds=5)
    published = before.health.view().conditions
    before.clear("all", seconds=9)
    node = started_again(kept(before))
    adopt(node, published)
    assert (node.status(), node.health.faults) == (Status.FALSE, ())


def test_of_two_faults_only_the_one_that_was_cleared_stays_away() -> None:
    before = running()
    before.say("broken on a", "hangs", seconds=5)
    published = before.health.view().conditions
    before.clear("ChipHangs", seconds=9)
    node = started_again(kept(before))
    adopt(node, published)
    assert devices(node) == ["a"]


def test_a_heartbeat_newer_than_the_state_brings_nothing_that_a_reboot_ended() -> None:
    before = running()
    before.say("hangs", seconds=5)
    state = kept(before)
    before.health.heartbeat(at(60))
    node = started_again(state, boot="boot-2")
    adopt(node, before.health.view().conditions)
    assert node.status() is Status.FALSE
    assert [told.reason for told in node.told()] == [Reason.FAULT_CLEARED]


def test_a_restart_with_a_state_that_is_up_to_date_changes_nothing() -> None:
    before = running()
    before.say("broken on a", "hangs", seconds=5)
    state = kept(before)
    before.health.heartbeat(at(60))
    node = started_again(state)
    view = node.health.view()
    adopt(node, before.health.view().conditions)
    assert node.health.view() == view


def test_a_state_begun_before_the_node_could_be_read_takes_in_what_it_says_whenever_that_is() -> None:
    published = known_to_the_node("broken on a")[1]
    unread = started_again(None)
    assert unread.status() is Status.FALSE
    state = msgspec.json.decode(msgspec.json.encode(kept(unread)), type=State)
    assert state.awaits_node
    node = Node(RULES, state=state, seconds=200)
    adopt(node, published, seconds=201)
    assert node.condition() == published[0]
    assert not kept(node).awaits_node


def test_what_an_operator_cleared_before_the_node_could_be_read_stays_cleared() -> None:
    unread = started_again(None)
    unread.say("broken on a", seconds=102)
    published = unread.health.view().conditions
    again = Node(RULES, state=kept(unread), seconds=200)
    again.clear("all", seconds=201)
    adopt(again, published, seconds=202)
    assert again.health.faults == ()


def test_a_state_of_another_instance_does_not_hide_what_this_one_said() -> None:
    theirs = kept(running(instance=THEIRS))
    published = known_to_the_node("broken on a")[1]
    node = started_again(theirs)
    adopt(node, published)
    assert node.status() is Status.TRUE


def test_a_state_without_the_key_was_read_with_the_node() -> None:
    document = msgspec.to_builtins(kept(running()))
    del document["awaits_node"]
    assert not msgspec.convert(document, type=State).awaits_node


@pytest.mark.parametrize("odd", ["a;b", "chip x=1", "e" * 70, "1 y=2; ChipHangs (9 lines)"])
def test_a_device_that_reads_otherwise_than_it_was_written_is_no_second_fault(odd: str) -> None:
    rules = catalog(rule(r"bad (?P<device>.+)"), HANGS)
    before = Node(rules)
    before.health.adopt((), at(0), boot=None)
    before.say(f"bad {odd}", seconds=5)
    for node in (before.restarted(seconds=100), Node(rules, seconds=100)):
        node.say(*[] if node.health.faults else [f"bad {odd}"], seconds=5)
        node.health.adopt(before.health.view().conditions, at(101), boot="boot-1")
        assert node.health.faults == before.health.faults
        assert node.condition() == before.condition()


def test_a_device_with_blanks_in_its_name_is_adopted_whole() -> None:
    state, published = known_to_the_node("broken on chip number 3")
    node = started_again(state)
    adopt(node, published)
    assert devices(node) == ["chip number 3"]
