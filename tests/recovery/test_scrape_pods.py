"""Which pods are detectors: what the API server's lists mean."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from recovery.pods import DetectorPods, Pod, Roster
from runtime.rest import Rest, RestError


def pod(uid: str, node: str | None, **more: Any) -> dict[str, Any]:
    """Write a pod as the API server does, with fields that nobody asked for."""
    ports = [{"name": "metrics", "containerPort": more.get("port", 20257), "protocol": "TCP"}]
    return {
        "metadata": {"name": f"node-problem-detector-{uid}", "uid": uid, "labels": {"app": "node-problem-detector"}}
        | ({"deletionTimestamp": "2026-11-29T00:00:00Z"} if more.get("ending") else {}),
        "spec": {"containers": [{"name": "detector"} | ({"ports": ports} if more.get("named", True) else {})]}
        | ({"nodeName": node} if node else {}),
        "status": {"phase": more.get("phase", "Running")} | ({"podIP": more["ip"]} if "ip" in more else {}),
    }


class Recorded(Rest):
    """An API server's recorded answers; nothing is sent."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(counted=lambda *_: None, environ={})
        self.paths: list[str] = []
        self._answers = [answer if isinstance(answer, bytes) else msgspec.json.encode(answer) for answer in answers]

    def request(self, verb: str, path: str, **_: Any) -> bytes:
        assert verb == "GET"
        self.paths.append(path)
        return self._answers.pop(0)


def listed(*pods: dict[str, Any], at_most: int = 10) -> Roster | None:
    return DetectorPods(Recorded({"kind": "PodList", "metadata": {}, "items": pods}), "ns").list(at_most)


def test_the_running_pod_of_each_node_is_asked_at_its_address() -> None:
    roster = listed(pod("a", "n1", ip="10.0.0.1"), pod("b", "n2", ip="fd00::2", port=9100))
    assert roster == Roster(
        pods=(
            Pod(uid="a", node="n1", host="10.0.0.1", port=20257, name="node-problem-detector-a"),
            Pod(uid="b", node="n2", host="fd00::2", port=9100, name="node-problem-detector-b"),
        ),
        blind={},
    )


def test_a_pod_without_a_named_port_is_asked_at_the_usual_one() -> None:
    roster = listed(pod("a", "n1", ip="10.0.0.1", named=False))
    assert roster is not None
    assert roster.pods[0].port == 20257


def test_a_pod_on_its_way_out_gives_way_to_its_successor() -> None:
    roster = listed(pod("old", "n1", ip="10.0.0.1", ending=True), pod("new", "n1", ip="10.0.0.2"))
    assert roster is not None
    assert [one.uid for one in roster.pods] == ["new"]


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([pod("a", "n1", ip="10.0.0.1", ending=True)], "its detector pod is ending"),
        ([pod("a", "n1", phase="Pending")], "its detector pod has no address yet"),
        ([pod("a", "n1", ip="10.0.0.1"), pod("b", "n1", ip="10.0.0.2")], "2 detector pods"),
        (
            [pod("a", "n1", ip="10.0.0.1"), pod("b", "n2", ip="10.0.0.1")],
            "10.0.0.1 is the address of several detector pods",
        ),
    ],
)
def test_a_node_whose_detector_is_in_doubt_is_blind(pods: list[dict[str, Any]], why: str) -> None:
    roster = listed(*pods)
    assert roster is not None
    assert roster.pods == ()
    assert roster.blind["n1"] == why


def test_pods_that_are_over_or_nowhere_do_not_count() -> None:
    pods = [pod("a", "n1", phase="Failed"), pod("b", "n2", phase="Succeeded", ip="10.0.0.1"), pod("c", None)]
    assert listed(*pods) == Roster(pods=(), blind={})


def test_a_long_list_is_read_in_parts_to_its_end() -> None:
    parts = [
        {"metadata": {"continue": "a/b="}, "items": [pod("a", "n1", ip="10.0.0.1")]},
        {"metadata": {"continue": ""}, "items": [pod("b", "n2", ip="10.0.0.2")]},
    ]
    rest = Recorded(*parts)
    roster = DetectorPods(rest, "ns").list(10)
    assert roster is not None
    assert [one.node for one in roster.pods] == ["n1", "n2"]
    asked = [parse_qs(urlsplit(path).query) for path in rest.paths]
    assert asked[0] == {"labelSelector": ["app=node-problem-detector"], "limit": ["100"]}
    assert asked[1]["continue"] == ["a/b="]


def test_too_long_a_list_is_not_read_further() -> None:
    part = {"metadata": {"continue": "x"}, "items": [pod(f"{n}", f"n{n}", ip=f"10.0.0.{n}") for n in range(3)]}
    rest = Recorded(part, part)
    assert DetectorPods(rest, "ns").list(2) is None
    assert len(rest.paths) == 1


def test_a_list_without_end_is_an_error() -> None:
    rest = Recorded(*[{"metadata": {"continue": "x"}, "items": []}] * 200)
    with pytest.raises(RestError, match="without end"):
        DetectorPods(rest, "ns").list(10)


@pytest.mark.parametrize("answer", [b"<html>", b"\xff", b"{}", b'{"items":[{}]}', b'{"items":[{"metadata":1}]}'])
def test_an_answer_that_is_no_list_is_an_error(answer: bytes) -> None:
    with pytest.raises(RestError, match="not what was asked for"):
        DetectorPods(Recorded(answer), "ns").list(10)


def test_the_fleet_is_what_the_daemonset_wants() -> None:
    rest = Recorded({"kind": "DaemonSet", "status": {"desiredNumberScheduled": 812, "numberReady": 4}})
    assert DetectorPods(rest, "my ns").fleet() == 812
    assert rest.paths == ["/apis/apps/v1/namespaces/my%20ns/daemonsets/node-problem-detector"]


def test_a_daemonset_without_a_status_is_an_error() -> None:
    with pytest.raises(RestError):
        DetectorPods(Recorded({"kind": "DaemonSet"}), "ns").fleet()
