"""The lead while the API server is away, slow, or loses an answer: nobody leads for longer than others wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, resets_after, says, silent, whole
from tests.kubernetes.replicas import Replicas

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from tests.kubernetes.controlplane import ControlPlane

_UNAVAILABLE = says(whole(503))


@pytest.fixture
def replicas(apiserver: ControlPlane) -> Iterator[Replicas]:
    with FaultProxy(apiserver) as proxy:
        yield Replicas(apiserver, proxy)


def test_two_that_make_the_lease_at_once_do_not_both_lead(replicas: Replicas) -> None:
    first, second = replicas.make("a"), replicas.make("b", proxied=True)

    def meanwhile(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        first._round()
        client.sendall(fetch())
        return True

    replicas.proxy.will(says(whole(404)), meanwhile)
    second._round()
    second._round()
    assert (first.is_held(), second.is_held()) == (True, False)


def test_a_slow_answer_does_not_lengthen_the_lead(replicas: Replicas) -> None:
    leader = replicas.make("a", proxied=True)
    leader._round()

    def slow(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        answer = fetch()
        replicas.seconds += 12  # on its way
        client.sendall(answer)
        return True

    replicas.proxy.will(slow)
    leader._round()
    assert leader.is_held()
    assert not leader.is_fresh()
    replicas.seconds += 2
    assert not leader.is_held()


def test_an_outage_ends_the_lead_and_its_end_brings_it_back(replicas: Replicas) -> None:
    leader = replicas.make("a", proxied=True)
    leader._round()
    replicas.proxy.always(_UNAVAILABLE)
    for seconds, held in ((5.0, True), (13.0, True), (14.0, False), (600.0, False)):
        replicas.seconds = 100 + seconds
        leader._round()
        assert leader.is_held() is held
    replicas.proxy.always(None)
    leader._round()
    assert leader.is_fresh()
    assert replicas.get()["spec"]["leaseTransitions"] == 0


@pytest.mark.parametrize("fault", [says(whole(200, b"<html>")), says(whole(200, b"[]")), says(whole(200))])
def test_what_is_no_lease_is_no_lead(replicas: Replicas, fault: Any) -> None:
    leader = replicas.make("a", proxied=True)
    replicas.proxy.always(fault)
    leader._round()
    assert not leader.is_held()


def test_a_renewal_whose_answer_was_lost_is_found_out(replicas: Replicas) -> None:
    leader = replicas.make("a", proxied=True)
    leader._round()
    replicas.seconds += 2
    replicas.proxy.will(resets_after(0))
    leader._round()
    replicas.seconds += 9
    assert not leader.is_fresh(), "nobody told that the second renewal was taken"
    leader._round()
    leader._round()
    assert leader.is_fresh()


def test_a_stop_does_not_wait_for_an_api_server_that_hangs(replicas: Replicas) -> None:
    leader = replicas.make("a", proxied=True, real_time=True)
    leader.start()
    until(leader.is_held)
    replicas.proxy.always(silent)
    begin = time.monotonic()
    leader.close()
    assert time.monotonic() - begin < 3
    assert not leader.is_held()


def test_a_namespace_that_is_not_there_is_no_storm(replicas: Replicas) -> None:
    leader = replicas.make("a")
    leader._path = leader._path.replace(replicas.namespace, "nowhere")
    assert leader._round() > 1
    assert not leader.is_held()
