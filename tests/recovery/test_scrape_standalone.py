"""Stand-alone: the page of a real detector beside us, and what is read in place of a Node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recovery.fetch import Limits
from recovery.guard import is_tainted, missing_of_fence
from recovery.model import Entry, State
from recovery.ports import PortError
from recovery.standalone import NoKarpenter, OwnNode, OwnPage
from runtime.clock import SystemClock
from runtime.durations import Duration
from runtime.vocabulary import Action, FaultClass
from tests.detector.kernel import record
from tests.detector.process import Detector, neuron_line, until
from tests.recovery.detector_page import DMA, INSTANCE, page
from tests.recovery.servers import Server, answers, hangs, http

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHER = "i-0123456789abcdef1"
QUICK = Limits(connect_seconds=0.3, whole_seconds=0.3)


@pytest.fixture
def detector(tmp_path: Path) -> Iterator[Detector]:
    """Start a detector that follows a file."""
    (tmp_path / "kmsg").touch()
    made = Detector(tmp_path)
    try:
        yield made.start("--kmsg", tmp_path / "kmsg", "--kmsg-follow", "--enable-recovery", "true")
    finally:
        made.kill()


def own_page(url: str, instance: str | None) -> OwnPage:
    return OwnPage(url, node="me", instance=instance, stale_after=Duration(60), clock=SystemClock(), limits=QUICK)


def test_a_real_detector_is_seen_quiet_and_then_with_its_fault(detector: Detector, tmp_path: Path) -> None:
    fleet = own_page(f"{detector.url}/metrics", detector.instance)
    node = OwnNode(f"{detector.url}/metrics", node="me", instance=detector.instance)
    sighting = fleet.look()
    assert (sighting.blind, sighting.fleet) == ({}, 1)
    assert (sighting.seen["me"].faults, sighting.seen["me"].enabled) == ((), True)
    assert node.read("me").conditions["NeuronHasError"][0] == "False"

    with (tmp_path / "kmsg").open("ab") as file:
        file.write(record(1, neuron_line("DMA_ERROR", detector.instance, serial="77aa")))
    until(lambda: fleet.look().seen["me"].faults)
    (fault,) = fleet.look().seen["me"].faults
    assert (fault.reason, fault.fault_class, fault.action) == (DMA[1], FaultClass.DEAD, Action.REPLACE)
    facts = node.read("me")
    assert facts.conditions["NeuronHasError"][:2] == ("True", DMA[1])
    assert "serial-num=77aa" in facts.conditions["NeuronHasError"][2]
    assert (facts.instance, facts.provider_instance, facts.uid) == (detector.instance,) * 3
    assert facts.boot == detector.boot_id_file.read_text().strip()


def test_there_is_nothing_to_fence_to_drain_or_to_lift(detector: Detector) -> None:
    node = OwnNode(f"{detector.url}/metrics", node="me", instance=detector.instance)
    facts = node.read("me")
    assert (is_tainted(facts), missing_of_fence(facts)) == (True, ())
    entry = Entry(
        id="1",
        node="me",
        uid=facts.uid,
        instance=detector.instance,
        group="g",
        reason=DMA[1],
        class_=FaultClass.DEAD,
        action=Action.REPLACE,
        state=State.FENCED,
    )
    assert node.fence(facts, entry) == ()
    node.annotate(facts, entry)
    node.lift(facts, ())
    node.tell("me", "Fenced", "a sentence", warning=False)
    assert node.drain(facts).left == ()
    assert node.fenced() == []


def test_a_detector_of_another_instance_is_blind() -> None:
    with Server(answers(http(page(DMA)))) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        assert own_page(url, OTHER).look().blind == {"me": f"the page of another instance: {INSTANCE}, this is {OTHER}"}
        assert own_page(url, None).look().seen["me"].faults
        server.way = answers(http(page(DMA, instance=None)))
        assert own_page(url, OTHER).look().seen["me"].instance is None


def test_a_detector_that_is_not_there_or_hangs_is_blind() -> None:
    with Server(hangs()) as server:
        url = f"http://localhost:{server.port}/metrics"
        assert own_page(url, None).look().blind == {"me": "no answer in time"}
        with pytest.raises(PortError, match="no answer in time"):
            OwnNode(url, node="me", instance=None, limits=QUICK).read("me")
    assert own_page(url, None).look().blind["me"] == "Connection refused"


@pytest.mark.parametrize("body", ["<html>", "{}", '{"instance":1,"boot":"b","conditions":[]}', "[" * 10_000])
def test_conditions_that_are_none_are_an_error(body: str) -> None:
    with Server(answers(http(body))) as server, pytest.raises(PortError, match="cannot be read"):
        OwnNode(f"http://127.0.0.1:{server.port}/own/metrics", node="me", instance=None).read("me")
    assert server.requests[0].startswith("GET /own/conditions ")


def test_an_instance_that_is_no_instance_id_never_becomes_one() -> None:
    with Server(answers(http('{"instance":"*","boot":"b","conditions":[]}'))) as server:
        node = OwnNode(f"http://127.0.0.1:{server.port}/metrics", node="me", instance=None)
        assert node.read("me").instance is None


def test_only_the_own_machine_is_known() -> None:
    with pytest.raises(PortError, match="only me is known here"):
        OwnNode("http://127.0.0.1:9/metrics", node="me", instance=None).read("you")


def test_there_is_no_karpenter() -> None:
    with pytest.raises(PortError):
        NoKarpenter().is_gone("me", "aws:///a/i-1")
    with pytest.raises(PortError):
        NoKarpenter().size("pool")
