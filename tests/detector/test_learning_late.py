"""What a node finds out after it has read lines: its own instance id, and what it said before its state was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from detector.book import key_of
from runtime.vocabulary import ClearsOn, Status
from tests.detector.builders import OURS, THEIRS, Node, at, catalog, rule

if TYPE_CHECKING:
    from detector.health import NodeHealth
    from detector.model import Announcement, Condition

_LOADED = catalog(
    rule(r"NEURON_HW_ERR=DMA_ERROR", reason="Dma"),
    rule(r"NEURON_HW_ERR=HANG", reason="Hang", clears_on=ClearsOn.REBOOT),
)


def _line(code: str = "DMA_ERROR", instance: str | None = None, device: int = 0) -> str:
    named = f" instance-id={instance}" if instance else ""
    return f"NEURON_HW_ERR={code}{named} nd-id={device} nc-id=0"


def _node(*lines: str, instance: str | None = None, boot: str = "boot-1") -> Node:
    node = Node(_LOADED, instance=instance, boot=boot)
    for line in lines:
        node.say(line, seconds=10)
    return node


def _told(health: NodeHealth) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for each in health.announcements()]


def test_faults_of_another_instance_end_when_our_own_id_is_learned() -> None:
    node = _node(_line(instance=THEIRS), _line(instance=THEIRS), _line("HANG", instance=OURS))
    node.told()
    node.health.learn_instance(OURS, at(60))
    assert [fault.reason for fault in node.health.faults] == ["Hang"]
    assert node.health.view().foreign == 2
    assert _told(node.health) == [
        (
            "FaultCleared",
            f"Dma instance-id={THEIRS} nd-id=0 nc-id=0 ended after 2 lines: the line spoke about another instance",
        )
    ]


def test_the_condition_is_false_when_only_another_instance_was_spoken_of() -> None:
    node = _node(_line(instance=THEIRS))
    assert node.status() is Status.TRUE
    node.health.learn_instance(OURS, at(60))
    assert node.status() is Status.FALSE
    assert node.condition().last_transition_at == at(60)


@pytest.mark.parametrize("lines", [[_line()], [_line(instance=OURS)], [_line(instance="i-malformed")]])
def test_our_own_faults_stay_when_our_id_is_learned(lines: list[str]) -> None:
    node = _node(*lines)
    before = node.condition()
    node.told()
    node.health.learn_instance(OURS, at(60))
    assert node.condition() == before
    assert _told(node.health) == []
    assert node.health.view().foreign == 0


@pytest.mark.parametrize("second", [_line(), _line(instance=OURS), _line(instance="i-malformed")])
@pytest.mark.parametrize("turned", [False, True])
def test_a_fault_stays_if_any_of_its_lines_may_be_about_us(second: str, *, turned: bool) -> None:
    lines = [_line(instance=THEIRS), second]
    node = _node(*(reversed(lines) if turned else lines))
    node.health.learn_instance(OURS, at(60))
    assert node.status() is Status.TRUE


def test_what_was_not_told_yet_about_another_instance_is_not_told() -> None:
    node = _node(_line(instance=THEIRS), _line(instance=OURS, device=1))
    node.health.learn_instance(OURS, at(60))
    assert [reason for reason, _ in _told(node.health)] == ["Dma", "FaultCleared"]


def test_lines_about_another_instance_are_foreign_from_then_on() -> None:
    node = _node()
    node.health.learn_instance(OURS, at(60))
    node.say(_line(instance=THEIRS), seconds=70)
    assert node.status() is Status.FALSE
    assert node.health.view().foreign == 1


def test_a_fault_that_was_restored_ends_if_it_was_of_another_instance() -> None:
    restarted = _node(_line(instance=THEIRS), _line("HANG", instance=OURS)).restarted(seconds=100)
    restarted.health.learn_instance(OURS, at(120))
    assert [fault.reason for fault in restarted.health.faults] == ["Hang"]


def test_an_id_that_was_learned_survives_a_restart() -> None:
    node = _node()
    node.health.learn_instance(OURS, at(60))
    assert node.restarted(seconds=100).health.instance == OURS


def test_an_id_from_the_state_file_alone_makes_no_line_foreign() -> None:
    restarted = _node(instance=THEIRS).restarted(instance=None, seconds=100)
    assert restarted.health.instance == THEIRS
    restarted.say(_line(instance=OURS), seconds=110)
    assert (restarted.status(), restarted.health.view().foreign) == (Status.TRUE, 0)


def test_an_id_from_the_state_file_that_the_node_confirms_makes_lines_foreign_again() -> None:
    restarted = _node(instance=OURS).restarted(instance=None, seconds=100)
    restarted.say(_line(instance=THEIRS), seconds=110)
    assert restarted.health.learn_instance(OURS, at(120))
    assert restarted.health.is_certain
    assert (restarted.status(), restarted.health.view().foreign) == (Status.FALSE, 1)


def test_an_id_other_than_the_state_files_is_not_believed_and_ends_no_fault() -> None:
    restarted = _node(_line(instance=OURS), instance=OURS).restarted(instance=None, seconds=100)
    assert not restarted.health.learn_instance(THEIRS, at(120))
    assert (restarted.health.instance, restarted.status()) == (OURS, Status.TRUE)
    restarted.say(_line("HANG", instance=OURS), _line(instance=THEIRS, device=1), seconds=130)
    assert len(restarted.health.faults) == 3


def _published(*lines: str) -> tuple[Condition, list[Announcement]]:
    node = _node(*lines, instance=OURS)
    return node.condition(), node.told()


@pytest.mark.parametrize("read_first", [False, True])
def test_adopting_and_reading_lead_to_the_same_whatever_comes_first(*, read_first: bool) -> None:
    condition, told = _published(_line(), _line())
    node = Node(_LOADED, seconds=500)
    if not read_first:
        node.health.adopt([condition], at(501), boot="boot-1")
    for _ in range(2):
        node.say(_line(), seconds=10)
    if read_first:
        (announced,) = node.told()
        (fault,) = node.health.adopt([condition], at(501), boot="boot-1")
        assert str(key_of(fault)) == announced.key == told[0].key
    (fault,) = node.health.faults
    assert (fault.count, fault.first_at, fault.details["nd-id"]) == (2, at(10), "0")
    assert node.condition().last_transition_at == condition.last_transition_at
    assert node.told() == []


def test_a_line_that_is_newer_than_what_was_adopted_is_told() -> None:
    condition, _ = _published(_line())
    node = Node(_LOADED, seconds=500)
    node.say(_line(device=1), seconds=400)
    told = node.health.adopt([condition], at(501), boot="boot-1")
    (announced,) = node.told()
    assert announced.reason == "Dma"
    assert announced.key not in {str(key_of(fault)) for fault in told}
    assert sorted(fault.details["nd-id"] for fault in node.health.faults) == ["0", "1"]


@pytest.mark.parametrize(
    ("boot", "reasons"), [("boot-1", ["Dma", "Hang"]), ("boot-0", ["Dma"]), (None, ["Dma", "Hang"])]
)
def test_a_reboot_ends_what_it_ends_though_the_state_was_lost(boot: str | None, reasons: list[str]) -> None:
    condition, _ = _published(_line(), _line("HANG"))
    node = Node(_LOADED, seconds=500)
    node.health.adopt([condition], at(501), boot=boot)
    assert sorted(fault.reason for fault in node.health.faults) == reasons


def test_a_reboot_does_not_end_what_has_come_again_since() -> None:
    condition, _ = _published(_line("HANG"))
    node = Node(_LOADED, seconds=500)
    node.say(_line("HANG"), seconds=450)
    node.health.adopt([condition], at(501), boot="boot-0")
    assert node.status() is Status.TRUE
