"""What a drain makes of each answer to an eviction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from recovery.drain import Drain
from recovery.model import NodeFacts, Taint
from recovery.ports import DrainProgress, PortError
from tests.kubernetes.faults import FaultProxy, says, whole
from tests.kubernetes.recovering import NOW, TurnedClock, rest_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FACTS = NodeFacts(
    name="n",
    uid="u",
    resource_version="1",
    created_at=NOW,
    instance=None,
    provider_instance=None,
    provider_id="",
    labels={},
    annotations={},
    taints=(Taint(key="chipwarden.io/unhealthy", value="dead", effect="NoSchedule"),),
    unschedulable=True,
    conditions={},
    boot="",
    ready=True,
    deleting=False,
)


def _list(*names: str) -> bytes:
    items = [
        {"metadata": {"name": name, "namespace": "x", "uid": name}, "status": {"phase": "Running"}} for name in names
    ]
    return whole(200, json.dumps({"items": items, "metadata": {}}).encode())


def _status(code: int, message: str, *, cause: str | None = None, **headers: str) -> bytes:
    details = {"causes": [{"reason": cause, "message": message}]} if cause else {}
    body = {"kind": "Status", "status": "Failure", "message": message, "details": details, "code": code}
    return whole(code, json.dumps(body).encode(), **headers)


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as server:
        yield server


class Alone(NamedTuple):
    """A drain whose server says what a test wants."""

    drain: Drain
    clock: TurnedClock


@pytest.fixture
def alone(server: FaultProxy, tmp_path: Path) -> Alone:
    clock = TurnedClock()
    return Alone(Drain(rest_to(server.url, tmp_path), clock), clock)


@pytest.mark.parametrize("code", [404, 409])
def test_a_pod_that_went_meanwhile_is_no_refusal(server: FaultProxy, alone: Alone, code: int) -> None:
    server.will(says(_list("a", "b")), says(_status(code, "not found")), says(_status(201, "")))
    assert alone.drain.drain(_FACTS) == DrainProgress(left=("x/a", "x/b"), blocked={})


@pytest.mark.parametrize(
    "answer",
    [
        _status(403, "admission webhook denied the request: ask the scheduler first"),
        _status(400, "denied the request: ask the scheduler first"),
        _status(504, "couldn't update PodDisruptionBudget due to conflicts"),
        _status(500, "etcd said no"),
    ],
)
def test_a_refusal_about_one_pod_does_not_hold_up_the_others(server: FaultProxy, alone: Alone, answer: bytes) -> None:
    server.will(says(_list("a", "b")), says(answer), says(whole(201, b'{"kind":"Status","status":"Success"}')))
    progress = alone.drain.drain(_FACTS)
    assert progress.left == ("x/a", "x/b")
    assert set(progress.blocked) == {"x/a"}
    assert [each.path.split("/")[-2] for each in server.requests("POST")] == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        _status(429, "Too many requests, please try again later."),
        _status(503, "apiserver is shutting down"),
        whole(502, b"<html>Bad Gateway</html>"),
        whole(500, b"oops"),
        whole(403, b"<html>who are you</html>"),
    ],
)
def test_an_api_server_in_trouble_is_not_asked_about_each_pod(server: FaultProxy, alone: Alone, answer: bytes) -> None:
    server.will(says(_list("a", "b")), says(answer))
    with pytest.raises(PortError) as caught:
        alone.drain.drain(_FACTS)
    assert caught.value.denied is None
    assert len(server.requests("POST")) == 1


def test_a_right_that_is_lacking_is_named(server: FaultProxy, alone: Alone) -> None:
    words = (
        'pods "a" is forbidden: User "u" cannot create resource "pods/eviction" in API group "" in the namespace "x"'
    )
    server.will(says(_list("a")), says(_status(403, words)))
    with pytest.raises(PortError) as caught:
        alone.drain.drain(_FACTS)
    assert caught.value.denied == "create pods/eviction"


def test_a_budget_that_asks_for_patience_gets_it(server: FaultProxy, alone: Alone) -> None:
    busy = _status(429, "still being processed", cause="DisruptionBudget", Retry_After="10")
    server.will(says(_list("a")), says(busy), says(_list("a")), says(_list("a")), says(_status(404, "")))
    alone.drain.drain(_FACTS)
    alone.clock.passed += 9
    assert alone.drain.drain(_FACTS).blocked == {"x/a": "still being processed"}
    alone.clock.passed += 2
    assert alone.drain.drain(_FACTS).blocked == {}
    assert len(server.requests("POST")) == 2
    assert alone.drain._refused == {}


def test_evictions_of_one_pass_end(server: FaultProxy, alone: Alone) -> None:
    def slowly(client: Any, _: Any) -> bool:
        alone.clock.passed += 6
        client.sendall(_status(429, "no", cause="DisruptionBudget"))
        return True

    server.will(says(_list("a", "b", "c", "d")))
    server.always(slowly)
    assert alone.drain.drain(_FACTS).left == ("x/a", "x/b", "x/c", "x/d")
    assert len(server.requests("POST")) == 2, "after 12 s nobody is asked any more"


def test_a_node_with_hundreds_of_pods_is_read_in_parts(server: FaultProxy, alone: Alone) -> None:
    parts = [_list("a", "b").replace(b"{}}", b'{"continue": "a+b/c="}}'), _list("c")]
    server.will(*(says(whole(200, each.partition(b"\r\n\r\n")[2])) for each in parts))
    server.always(says(_status(404, "")))
    assert alone.drain.drain(_FACTS).left == ("x/a", "x/b", "x/c")
    lists = [each.path for each in server.requests("GET")]
    assert lists == [
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&limit=100",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&limit=100&continue=a%2Bb%2Fc%3D",
    ]


@pytest.mark.parametrize("answer", [whole(200, b"<html>"), whole(200, b'{"items": 7}'), whole(403, b"{}")])
def test_a_list_that_is_none_is_no_empty_node(server: FaultProxy, alone: Alone, answer: bytes) -> None:
    server.will(says(answer))
    with pytest.raises(PortError):
        alone.drain.drain(_FACTS)


def test_a_list_that_breaks_off_or_never_ends_is_no_empty_node(server: FaultProxy, alone: Alone) -> None:
    part = whole(200, b'{"items": null, "metadata": {"continue": "c"}}')
    server.will(says(part), says(_status(410, "The provided continue parameter is too old")))
    with pytest.raises(PortError, match="too old"):
        alone.drain.drain(_FACTS)
    server.always(says(part))
    with pytest.raises(PortError, match="without end"):
        alone.drain.drain(_FACTS)


def test_no_answer_to_an_eviction_is_an_error(server: FaultProxy, alone: Alone) -> None:
    server.will(says(_list("a")), lambda _client, _fetch: False)
    with pytest.raises(PortError):
        alone.drain.drain(_FACTS)


def test_pods_are_listed_for_a_plan_and_none_is_asked_to_go(server: FaultProxy, alone: Alone) -> None:
    server.will(says(_list("a", "b")))
    assert alone.drain.left(_FACTS) == DrainProgress(left=("x/a", "x/b"), blocked={})
    assert [each.verb for each in server.seen] == ["GET"]
