"""What recovery makes of answers that a healthy API server seldom gives."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from recovery import api
from recovery.drain import Drain
from recovery.events import Events
from recovery.karpenter import KarpenterClaims
from recovery.kube import KubeNodes
from recovery.lease import Lease
from recovery.model import SCALE_DOWN_DISABLED
from recovery.ports import PortError
from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, says, whole
from tests.kubernetes.recovering import NOW, PROVIDER, TurnedClock, rest_to
from tests.recovery.cases import facts

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runtime.rest import Rest


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as server:
        yield server


@pytest.fixture
def rest(server: FaultProxy, tmp_path: Path) -> Rest:
    return rest_to(server.url, tmp_path)


def _says(body: object, status: int = 200) -> Callable[..., bool]:
    return says(whole(status, json.dumps(body).encode()))


def _node(name: str = "n", **changes: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-11-29T10:00:00Z"}
    return {"metadata": metadata, "spec": {"providerID": PROVIDER}, **changes}


def _claim(name: str, provider_id: str = PROVIDER) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, "status": {"providerID": provider_id}}


class TestNodes:
    @pytest.fixture
    def nodes(self, rest: Rest) -> KubeNodes:
        clock = TurnedClock()
        return KubeNodes(rest, drain=Drain(rest, clock), events=Events(rest, clock))

    @pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"metadata": {"name": "n"}}', b"\xff"])
    def test_what_is_no_node_is_an_error(self, server: FaultProxy, nodes: KubeNodes, body: bytes) -> None:
        server.will(says(whole(200, body)))
        with pytest.raises(PortError, match="not what was asked for") as caught:
            nodes.read("n")
        assert not caught.value.gone
        assert caught.value.answered

    @pytest.mark.parametrize(
        ("status", "answered"), [(403, True), (404, True), (429, False), (500, False), (401, False)]
    )
    def test_a_refusal_about_one_node_is_told_from_a_server_that_is_not_well(
        self, server: FaultProxy, nodes: KubeNodes, status: int, answered: bool
    ) -> None:
        server.always(_says({}, status))
        with pytest.raises(PortError) as caught:
            nodes.read("n")
        assert caught.value.answered is answered

    def test_a_fence_without_its_copy_is_lifted_without_an_annotation(
        self, server: FaultProxy, nodes: KubeNodes
    ) -> None:
        server.always(_says(_node(spec={"unschedulable": True})))
        nodes.lift(nodes.read("n"), ("cordon", "taint", SCALE_DOWN_DISABLED))
        (patch,) = server.requests("PATCH")
        assert json.loads(patch.body) == {"metadata": {"resourceVersion": "1"}, "spec": {"unschedulable": False}}

    def test_a_name_cannot_lead_elsewhere(self, server: FaultProxy, nodes: KubeNodes) -> None:
        server.always(_says(_node()))
        nodes.read("../pods?x")
        assert server.seen[0].path == "/api/v1/nodes/..%2Fpods%3Fx"

    def test_what_is_remembered_of_nodes_has_an_end(self, server: FaultProxy, nodes: KubeNodes) -> None:
        server.always(_says(_node()))
        nodes._uids.update((f"n{number}", "u") for number in range(1000))
        nodes.read("another")
        assert len(nodes._uids) == 1000
        assert "n0" not in nodes._uids

    @pytest.mark.parametrize("status", [401, 500, 503])
    def test_a_list_that_fails_is_no_fleet_without_fences(
        self, server: FaultProxy, nodes: KubeNodes, status: int
    ) -> None:
        server.will(_says({"items": [_node()], "metadata": {"continue": "c"}}))
        server.always(_says({}, status))
        with pytest.raises(PortError):
            nodes.fenced()


def test_a_list_that_takes_too_long_is_given_up(server: FaultProxy, rest: Rest) -> None:
    server.always(_says({"items": [], "metadata": {"continue": "c"}}))
    begin = time.monotonic()
    with pytest.raises(PortError, match="without end"):
        list(api.listed(rest, "/x?a=b", dict, part=1, seconds=0.2))
    assert time.monotonic() - begin < 5
    assert server.seen[0].path == "/x?a=b&limit=1"


class TestKarpenter:
    @pytest.fixture
    def claims(self, rest: Rest) -> KarpenterClaims:
        return KarpenterClaims(rest, lambda: NOW)

    def test_two_claims_of_one_machine_are_left_alone(self, server: FaultProxy, claims: KarpenterClaims) -> None:
        server.always(_says({"items": [_claim("a"), _claim("other", "x"), _claim("b")]}))
        with pytest.raises(PortError, match="a, b have the same providerID"):
            claims.is_gone("n", PROVIDER)

    def test_a_claim_that_is_known_is_asked_for_by_name(self, server: FaultProxy, claims: KarpenterClaims) -> None:
        server.will(_says({"items": [_claim("a")]}), _says(_claim("a")), _says({}, 404), _says({"items": []}))
        server.will(_says({}, 404))
        assert [claims.is_gone("n", PROVIDER) for _ in range(3)] == [False, False, True]
        assert [each.path.partition("?")[0].rpartition("/")[2] for each in server.seen] == [
            "nodeclaims",
            "a",
            "a",
            "nodeclaims",
            "n",
        ]

    def test_a_name_that_was_given_anew_is_no_claim_of_ours(self, server: FaultProxy, claims: KarpenterClaims) -> None:
        server.will(
            _says({"items": [_claim("a")]}), _says(_claim("a", "another")), _says({"items": []}), _says({}, 404)
        )
        assert [claims.is_gone("n", PROVIDER) for _ in range(2)] == [False, True]

    def test_a_node_that_stands_and_has_no_nodeclaim_was_not_ended(
        self, server: FaultProxy, claims: KarpenterClaims
    ) -> None:
        node = facts(name="n", provider_id=PROVIDER)
        server.will(_says({"items": []}), _says(_node()), _says({"items": []}), _says(_node()))
        with pytest.raises(PortError, match="no NodeClaim has the providerID") as caught:
            claims.terminate(node)
        assert caught.value.unsent
        with pytest.raises(PortError, match="no NodeClaim has the providerID"):
            claims.is_gone("n", PROVIDER)
        going = _node()
        going["metadata"]["deletionTimestamp"] = "2026-11-29T10:00:00Z"
        for answer in (_says(going), _says(_node(spec={"providerID": "another"})), _says({}, 404)):
            server.will(_says({"items": []}), answer)
            assert claims.is_gone("n", PROVIDER)
        assert server.requests("PATCH") == server.requests("DELETE") == []

    @pytest.mark.parametrize("answer", [whole(503), whole(200, b"<html>"), whole(200, b"{}"), whole(403)])
    def test_gone_is_never_concluded_from_a_failure(
        self, server: FaultProxy, claims: KarpenterClaims, answer: bytes
    ) -> None:
        server.will(_says({"items": [_claim("a")]}))
        assert not claims.is_gone("n", PROVIDER)
        server.always(says(answer))
        with pytest.raises(PortError):
            claims.is_gone("n", PROVIDER)

    @pytest.mark.parametrize(
        ("status", "size"),
        [
            ({"nodes": 7}, 7),
            ({"nodes": 0, "resources": {"nodes": "12"}}, 12),
            ({"resources": {"nodes": "2k"}}, 2000),
            ({"resources": {"nodes": 3}}, 3),
            ({"resources": {"nodes": "1500m"}}, None),
            ({"resources": {"cpu": "4"}}, None),
            ({"nodes": 0}, None),
            ({}, None),
        ],
    )
    def test_a_pool_tells_its_size_in_one_way_or_another(
        self, server: FaultProxy, claims: KarpenterClaims, status: dict[str, Any], size: int | None
    ) -> None:
        server.will(_says({"status": status}))
        assert claims.size("p") == size

    def test_what_is_remembered_of_claims_has_an_end(self, server: FaultProxy, claims: KarpenterClaims) -> None:
        claims._names.update((f"p{number}", "a") for number in range(1000))
        server.will(_says({"items": [_claim("a")]}))
        claims._find(PROVIDER, None)
        assert len(claims._names) == 1000


class TestEvents:
    @pytest.fixture
    def events(self, rest: Rest) -> Events:
        return Events(rest, TurnedClock())

    def test_an_answer_that_is_none_does_not_end_the_thread(self, server: FaultProxy, events: Events) -> None:
        server.will(_says({}, 409), says(whole(200, b"<html>")))
        server.always(_says({}, 201))
        events.tell("n", "u", "A", "first", warning=False)
        events.start()
        until(lambda: len(server.seen) >= 2)
        events.tell("n", "u", "B", "second", warning=False)
        events.close()
        assert "second" in server.requests("POST")[-1].body.decode()

    def test_what_is_told_while_it_is_being_written_is_not_lost(self, server: FaultProxy, events: Events) -> None:
        def meanwhile(client: socket.socket, _: Callable[[], bytes]) -> bool:
            events.tell("n", "u", "A", "x", warning=True)
            client.sendall(whole(500))
            return True

        server.will(meanwhile)
        server.always(_says({}, 201))
        events.tell("n", "u", "A", "x", warning=True)
        events.start()
        until(lambda: events._lane.failures == 1)
        until(lambda: [each.count for each in events._waiting.values()] == [2])
        events._lane.succeeded(0.0)
        events.close()
        assert json.loads(server.requests("POST")[-1].body)["count"] == 2

    def test_a_renewal_that_fails_is_tried_again(self, server: FaultProxy, events: Events) -> None:
        server.will(_says({}, 409), _says({"count": 4}), _says({}, 500), _says({}, 409), _says({"count": 4}))
        server.always(_says({}, 200))
        events.tell("n", "u", "A", "x", warning=True)
        events.start()
        until(lambda: events._lane.failures == 1)
        events._lane.succeeded(0.0)
        events.close()
        assert json.loads(server.requests("PATCH")[-1].body)["count"] == 5

    def test_of_too_many_that_wait_the_oldest_are_dropped(self, server: FaultProxy, events: Events) -> None:
        for number in range(1500):
            events.tell("n", "u", "A", f"sentence {number}", warning=True)
        assert [each.message for each in events._waiting.values()] == [f"sentence {n}" for n in range(500, 1500)]
        assert server.seen == []

    def test_the_end_does_not_wait_for_an_api_server_that_refuses(self, server: FaultProxy, events: Events) -> None:
        server.always(says(whole(503)))
        for number in range(100):
            events.tell("n", "u", "A", f"{number}", warning=True)
        events.start()
        begin = time.monotonic()
        events.close()
        assert time.monotonic() - begin < 1
        assert not events._thread.is_alive()

    def test_what_is_remembered_of_events_has_an_end(self, server: FaultProxy, events: Events) -> None:
        server.always(_says({}, 201))
        events._written.update((f"e{number}", (1, 0.0)) for number in range(1000))
        events.start()
        events.tell("n", "u", "A", "x", warning=True)
        events.close()
        assert len(events._written) == 1000


def test_whatever_happens_to_a_lease_its_thread_goes_on(server: FaultProxy, rest: Rest) -> None:
    def broken() -> float:
        raise RuntimeError("no clock")

    lease = Lease(rest, "n", "a", seconds=broken)
    server.always(_says({"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "b"}}))
    assert lease._round() > 1
    assert lease._round() > 1
    assert not lease.is_held()
