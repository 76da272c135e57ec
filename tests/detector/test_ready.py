"""AcceleratedHardwareReady says what the own conditions say, in EKS's words, and never False on a suspicion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from detector.ready import ready
from detector.rulefiles import load_all
from runtime.vocabulary import OUR_MARK, FaultClass, Status
from tests.detector.builders import OURS, Node, at, catalog, rule

if TYPE_CHECKING:
    from detector.model import Condition
    from detector.rules import Catalog

_NEURON = load_all(["neuron"])
_NVIDIA = load_all(["nvidia"])


def _says(node: Node, before: Condition | None = None, seconds: float = 60.0) -> Condition:
    return ready(node.health.view(), before, at(seconds))


def _broken(code: str, loaded: Catalog = _NEURON) -> Node:
    node = Node(loaded)
    node.say(f"NEURON_HW_ERR={code} instance-id={OURS} nd-id=1", seconds=10)
    return node


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("SRAM_UNCORRECTABLE_ERROR", "NeuronSRAMUncorrectableError"),
        ("NC_UNCORRECTABLE_ERROR", "NeuronNCUncorrectableError"),
        ("HBM_UNCORRECTABLE_ERROR", "NeuronHBMUncorrectableError"),
        ("DMA_ERROR", "NeuronDMAError"),
    ],
)
def test_a_fault_that_needs_a_replacement_is_false_with_the_name_that_eks_knows(code: str, reason: str) -> None:
    said = _says(_broken(code))
    assert (said.type, said.status, said.reason) == ("AcceleratedHardwareReady", Status.FALSE, reason)
    assert f"NeuronHasError_{code}" in said.message


def test_an_xid_is_named_as_eks_names_it() -> None:
    node = Node(_NVIDIA)
    node.say("NVRM: Xid (PCI:0000:b7:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", seconds=10)
    assert _says(node).reason == "NvidiaXID79Error"


def test_a_reason_that_eks_has_no_name_for_keeps_ours() -> None:
    node = Node(catalog(rule("broken", fault_class=FaultClass.DEAD)))
    node.say("broken")
    assert (_says(node).status, _says(node).reason) == (Status.FALSE, "ChipBroken")


def test_a_suspicion_is_never_false() -> None:
    said = _says(_broken("HANG_ON_COLLECTIVES"))
    assert (said.status, said.reason) == (Status.TRUE, "NeuronAcceleratedHardwareIsReady")


def test_a_suspicion_beside_a_broken_chip_does_not_hide_it() -> None:
    node = _broken("HANG_ON_COLLECTIVES")
    node.say(f"NEURON_HW_ERR=DMA_ERROR instance-id={OURS} nd-id=2", seconds=11)
    assert (_says(node).status, _says(node).reason) == (Status.FALSE, "NeuronDMAError")
    assert "HANG" not in _says(node).message


def test_the_gravest_fault_names_the_reason() -> None:
    node = _broken("DMA_ERROR")
    node.say(f"NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id={OURS} nd-id=2", seconds=11)
    assert _says(node).reason == "NeuronSRAMUncorrectableError"


@pytest.mark.parametrize(
    ("loaded", "reason"),
    [
        (_NEURON, "NeuronAcceleratedHardwareIsReady"),
        (_NVIDIA, "NvidiaAcceleratedHardwareIsReady"),
        (catalog(rule()), "AcceleratedHardwareIsReady"),
    ],
)
def test_a_healthy_node_is_true(loaded: Catalog, reason: str) -> None:
    assert (_says(Node(loaded)).status, _says(Node(loaded)).reason) == (Status.TRUE, reason)


def test_a_blind_detector_says_unknown() -> None:
    node = Node(_NEURON)
    node.health.set_blind("gone", at(50))
    assert (_says(node).status, _says(node).reason) == (Status.UNKNOWN, "DetectorBlind")


def test_a_broken_chip_stays_broken_while_the_detector_is_blind() -> None:
    node = _broken("DMA_ERROR")
    node.health.set_blind("gone", at(50))
    assert _says(node).status is Status.FALSE


def test_the_transition_time_moves_with_the_status_only() -> None:
    node = Node(_NEURON)
    first = _says(node, seconds=1)
    second = _says(node, first, seconds=5)
    assert (second.last_transition_at, second.last_heartbeat_at) == (at(1), at(5))
    node.say(f"NEURON_HW_ERR=DMA_ERROR instance-id={OURS} nd-id=2", seconds=6)
    third = _says(node, second, seconds=6)
    node.say(f"NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id={OURS} nd-id=2", seconds=7)
    fourth = _says(node, third, seconds=7)
    assert (third.last_transition_at, fourth.last_transition_at) == (at(6), at(6))
    assert third.reason != fourth.reason


def test_the_longest_message_still_carries_our_mark() -> None:
    node = Node(_NEURON)
    for device in range(100):
        node.say(f"NEURON_HW_ERR=DMA_ERROR instance-id={OURS} nd-id={device} serial-num=abcdef", seconds=10)
    message = _says(node).message
    assert len(message) <= 1024
    assert message.endswith(OUR_MARK)
