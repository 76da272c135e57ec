"""Who leads, told by a real Lease; time is the processes' own and is turned by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from recovery.lease import Alone, identity
from recovery.ports import PortError
from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy
from tests.kubernetes.replicas import Replicas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.controlplane import ControlPlane


@pytest.fixture
def replicas(apiserver: ControlPlane) -> Iterator[Replicas]:
    with FaultProxy(apiserver) as proxy:
        yield Replicas(apiserver, proxy)


def test_the_first_leads_and_the_second_waits(replicas: Replicas) -> None:
    first, second = replicas.make("a"), replicas.make("b")
    assert not first.is_held()
    first._round()
    second._round()
    assert (first.is_held(), first.is_fresh(), second.is_held(), second.is_fresh()) == (True, True, False, False)
    assert (first.holder, second.holder) == ("a", "a")
    spec = replicas.get()["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"])


def test_a_renewal_moves_only_its_time(replicas: Replicas) -> None:
    leader = replicas.make("a")
    leader._round()
    before = replicas.get()["spec"]
    replicas.seconds += 2
    leader._round()
    after = replicas.get()["spec"]
    assert after.pop("renewTime") > before.pop("renewTime")
    assert after == before


def test_the_lead_is_fresh_for_ten_seconds_and_held_for_fourteen(replicas: Replicas) -> None:
    leader = replicas.make("a")
    leader._round()
    seen = []
    for seconds in (9.9, 10.0, 13.9, 14.0):
        replicas.seconds = 100 + seconds
        seen.append((leader.is_fresh(), leader.is_held()))
    assert seen == [(True, True), (False, True), (False, True), (False, False)]


@pytest.mark.parametrize("written", ["2000-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z"])
def test_a_lease_is_taken_after_its_time_without_a_change_whatever_other_clocks_say(
    replicas: Replicas, written: str
) -> None:
    replicas.make("a")._round()
    replicas.patch({"spec": {"renewTime": written}})
    second = replicas.make("b")
    second._round()
    replicas.seconds += 14.9
    second._round()
    assert not second.is_held()
    replicas.seconds += 0.1
    second._round()
    assert second.is_held()
    spec = replicas.get()["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


def test_each_renewal_makes_the_others_wait_anew(replicas: Replicas) -> None:
    first, second = replicas.make("a"), replicas.make("b")
    for _ in range(5):
        first._round()
        second._round()
        replicas.seconds += 10
    assert not second.is_held()


def test_what_is_not_of_the_lease_itself_does_not_count_as_a_renewal(replicas: Replicas) -> None:
    replicas.make("a")._round()
    second = replicas.make("b")
    second._round()
    replicas.patch({"metadata": {"annotations": {"team": "x"}}})
    replicas.seconds += 15
    second._round()
    assert second.is_held()
    assert replicas.get()["metadata"]["annotations"] == {"team": "x"}


def test_a_lease_that_was_made_for_longer_is_respected(replicas: Replicas) -> None:
    replicas.make("a")._round()
    replicas.patch({"spec": {"leaseDurationSeconds": 60}})
    second = replicas.make("b")
    second._round()
    for seconds, held in ((59.0, False), (60.0, True)):
        replicas.seconds = 100 + seconds
        second._round()
        assert second.is_held() is held


def test_of_several_that_wait_one_leads(replicas: Replicas) -> None:
    replicas.make("a")._round()
    waiting = [replicas.make(f"w{number}") for number in range(4)]
    for each in waiting:
        each._round()
    replicas.seconds += 15
    for each in waiting:
        each._look()
        assert each._is_free()
    waiting[0]._take(waiting[0]._seen)
    for each in waiting[1:]:  # which have seen it expired, too
        with pytest.raises(PortError) as caught:
            each._take(each._seen)
        assert caught.value.conflict
        each._round()
    assert [each.is_held() for each in waiting] == [True, False, False, False]


def test_a_leader_that_was_paused_knows_before_it_asks_and_cannot_come_back(replicas: Replicas) -> None:
    first, second = replicas.make("a"), replicas.make("b")
    first._round()
    second._round()
    replicas.seconds += 60  # the first was stopped for so long
    second._round()
    assert (first.is_held(), second.is_held()) == (False, True)
    first._round()
    first._round()
    assert (first.is_held(), second.is_held()) == (False, True)
    assert replicas.get()["spec"]["holderIdentity"] == "b"


def test_a_lease_that_an_operator_gives_to_another_is_lost(replicas: Replicas) -> None:
    leader = replicas.make("a")
    leader._round()
    replicas.patch({"spec": {"holderIdentity": "somebody"}})
    leader._round()
    leader._round()
    assert not leader.is_held()
    assert leader.holder == "somebody"


def test_a_lease_that_was_deleted_is_made_anew(replicas: Replicas) -> None:
    leader = replicas.make("a")
    leader._round()
    replicas.delete()
    leader._round()
    leader._round()
    assert leader.is_fresh()
    assert replicas.get()["spec"]["holderIdentity"] == "a"


def test_a_change_by_somebody_else_costs_a_moment_and_not_the_lead(replicas: Replicas) -> None:
    leader = replicas.make("a")
    leader._round()
    replicas.patch({"metadata": {"labels": {"x": "y"}}})
    assert leader._round() < 0.3
    assert leader._round() > 1
    assert leader.is_fresh()
    assert replicas.get()["metadata"]["labels"] == {"x": "y"}


def test_a_clean_stop_lets_the_next_lead_at_once(replicas: Replicas) -> None:
    first, second = replicas.make("a", real_time=True), replicas.make("b", real_time=True)
    first.start()
    until(first.is_held)
    second.start()
    until(lambda: second.holder == "a")
    first.close()
    assert not first.is_held()
    until(second.is_held, seconds=5)
    second.close()
    spec = replicas.get()["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("", 1)


def test_one_that_does_not_lead_gives_nothing_up(replicas: Replicas) -> None:
    first, second = replicas.make("a"), replicas.make("b", real_time=True)
    first._round()
    second.start()
    until(lambda: second.holder == "a")
    second.close()
    assert replicas.get()["spec"]["holderIdentity"] == "a"


def test_two_processes_of_one_pod_name_differ() -> None:
    assert identity("pod") != identity("pod")
    assert identity("pod").startswith("pod_")


def test_stand_alone_there_is_no_rival() -> None:
    assert Alone().is_held()
    assert Alone().is_fresh()
