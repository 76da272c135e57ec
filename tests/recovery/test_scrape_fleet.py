"""The fleet through its pages: what one poll sees, and what it remembers of the ones before."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime, timedelta

import pytest

from recovery.fetch import Limits
from recovery.model import Sighting
from recovery.pods import Pod, Roster
from recovery.scrape import PagesFleet
from runtime.durations import Duration
from runtime.rest import RestError
from tests.recovery.detector_page import DMA, INSTANCE, SINCE, page
from tests.recovery.servers import Server, answers, drips, hangs, http

QUICK = Limits(connect_seconds=0.3, whole_seconds=0.5, round_seconds=2.0)
SECOND = "i-0123456789abcdef1"


@dataclasses.dataclass
class Hand:
    """A clock that is moved by hand."""

    at: float = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(SINCE, UTC) + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return self.at


@dataclasses.dataclass
class Found:
    """What the API server would say; None = it refuses."""

    roster: Roster | None
    size: int | None = None
    lists: int = 0
    too_many: bool = False

    def fleet(self) -> int:
        if self.size is None:
            raise RestError("GET daemonset: 403 Forbidden", status=403)
        return self.size

    def list(self, at_most: int) -> Roster | None:
        assert at_most == 500
        self.lists += 1
        if self.roster is None and not self.too_many:
            raise RestError("GET pods: 500", status=500)
        return self.roster


def pod(name: str, server: Server, *, uid: str = "") -> Pod:
    return Pod(uid=uid or f"uid-{name}", node=name, host="127.0.0.1", port=server.port)


def fleet_of(*pods: Pod, clock: Hand | None = None, limits: Limits = QUICK) -> tuple[PagesFleet, Found]:
    found = Found(Roster(pods=pods, blind={"starting": "its detector pod has no address yet"}), size=len(pods) + 1)
    return PagesFleet(found, stale_after=Duration(60), clock=clock or Hand(), limits=limits), found


def test_each_node_is_seen_or_blind_and_why() -> None:
    with (
        Server(answers(http(page(DMA, enabled=True)))) as faulty,
        Server(answers(http(page(instance=SECOND)))) as quiet,
        Server(answers(http(page(), status="500 Oops"))) as broken,
    ):
        fleet, _ = fleet_of(pod("n1", faulty), pod("n2", quiet), pod("n3", broken))
        sighting = fleet.look()
    assert [fault.reason for fault in sighting.seen["n1"].faults] == [DMA[1]]
    assert sighting.seen["n2"].faults == ()
    assert sighting.blind == {"n3": "status 500", "starting": "its detector pod has no address yet"}
    assert (sighting.why_blind, sighting.fleet) == (None, 4)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (http("<html>fine</html>", kind="text/html"), "content type 'text/html'"),
        (http(page(), kind=""), "content type ''"),
        (http(page(), kind="application/json"), "content type 'application/json'"),
        (http("<html>fine</html>\n"), "line 1 is no series"),
        (http(page().encode("utf-16")), "no UTF-8"),
        (http(page(DMA), more=["Age: 61"]), "kept by a cache for 61 s"),
        (http(page(), kind="application/openmetrics-text; version=1.0.0"), "there is no # EOF"),
        (http(page(DMA).replace("} 1\n", "} NaN\n", 1)), "problem_gauge is nan"),
        (http(page(DMA)[:600]), "the last line has no end"),
        (http(page(DMA), length=9_999), "no whole HTTP answer: IncompleteRead"),
        (http(page() + "reader_up 1\n" * 400_000), "more than 4194304 bytes"),
    ],
)
def test_an_unusable_page_is_blind(data: bytes, why: str) -> None:
    with Server(answers(data)) as server:
        fleet, _ = fleet_of(pod("n1", server))
        sighting = fleet.look()
    assert sighting.seen == {}
    assert why in sighting.blind["n1"]


def test_a_page_of_another_instance_than_before_is_blind() -> None:
    with Server(answers(http(page(instance=None)))) as server:
        fleet, found = fleet_of(pod("n1", server))
        assert fleet.look().seen["n1"].instance is None
        server.way = answers(http(page()))
        assert fleet.look().seen["n1"].instance == INSTANCE  # a detector may learn it late
        server.way = answers(http(page(DMA, instance=SECOND)))
        sighting = fleet.look()
        assert sighting.seen == {}
        assert sighting.blind["n1"] == f"the page of another instance: {SECOND}, before {INSTANCE}"
        found.roster = Roster(pods=(pod("n1", server, uid="successor"),), blind={})
        assert fleet_after_renewal(fleet).seen["n1"].instance == SECOND  # another pod, perhaps of a new machine


def fleet_after_renewal(fleet: PagesFleet) -> Sighting:
    clock = fleet._clock
    assert isinstance(clock, Hand)
    clock.at += 15
    return fleet.look()


def test_two_nodes_that_claim_one_instance_are_both_blind() -> None:
    with Server(answers(http(page(DMA)))) as one, Server(answers(http(page()))) as two:
        fleet, _ = fleet_of(pod("n1", one), pod("n2", two))
        sighting = fleet.look()
    assert sighting.seen == {}
    assert sighting.blind["n1"] == sighting.blind["n2"] == f"{INSTANCE} is claimed by several nodes"


def test_nodes_that_do_not_know_their_instance_are_no_twins() -> None:
    with Server(answers(http(page(instance=None)))) as server:
        fleet, _ = fleet_of(pod("n1", server), pod("n2", server))
        assert fleet.look().seen.keys() == {"n1", "n2"}


def test_a_page_that_keeps_failing_is_asked_for_ever_more_seldom_and_stays_blind() -> None:
    clock = Hand()
    with Server(answers(http("", status="503 Busy"))) as server:
        fleet, _ = fleet_of(pod("n1", server), clock=clock)
        for _ in range(100):
            assert fleet.look().blind["n1"] == "status 503"
            clock.at += 1
        assert len(server.requests) in range(8, 14)
        server.way = answers(http(page()))
        clock.at += 15
        assert "n1" in fleet.look().seen
        server.way = answers(http("", status="503 Busy"))
        asked = len(server.requests)
        assert [fleet.look().blind.get("n1") for _ in range(2)] == ["status 503"] * 2
        assert len(server.requests) == asked + 2  # it starts anew


def test_a_page_that_hangs_delays_one_poll_not_each() -> None:
    clock = Hand()
    with (
        Server(hangs()) as bad,
        Server(drips(http(page()), seconds=0.01)) as slow,
        Server(answers(http(page()))) as good,
    ):
        fleet, _ = fleet_of(pod("n1", bad), pod("n2", slow), pod("n3", good), clock=clock)
        for _ in range(2):
            assert fleet.look().seen.keys() == {"n3"}
        began = time.monotonic()
        for _ in range(10):
            clock.at += 0.05
            assert fleet.look().blind["n1"] == "no answer in time"
        assert time.monotonic() - began < 0.5


def test_the_list_of_pods_is_kept_for_a_while_and_renewed_when_a_page_fails() -> None:
    clock = Hand()
    with Server(answers(http(page()))) as server:
        fleet, found = fleet_of(pod("n1", server), clock=clock)
        for _ in range(14):
            fleet.look()
            clock.at += 1
        assert found.lists == 1
        clock.at += 1
        fleet.look()
        assert found.lists == 2
        server.way = answers(b"")
        fleet.look()
        clock.at += 1
        fleet.look()
        assert found.lists == 2  # not at once: a rollout fails many pages
        clock.at += 2
        fleet.look()
        assert found.lists == 3


def test_an_old_list_serves_for_a_while_when_no_new_one_can_be_had() -> None:
    clock = Hand()
    with Server(answers(http(page()))) as server:
        fleet, found = fleet_of(pod("n1", server), clock=clock)
        assert "n1" in fleet.look().seen
        found.roster, found.size = None, None
        clock.at = 59
        sighting = fleet.look()
        assert ("n1" in sighting.seen, sighting.fleet) == (True, None)
        clock.at = 61
        assert fleet.look() == Sighting(
            seen={}, blind={}, why_blind="detector pods cannot be listed: GET pods: 500", fleet=None
        )


def test_more_than_500_nodes_need_prometheus() -> None:
    fleet, found = fleet_of()
    found.size = 501
    sighting = fleet.look()
    assert sighting.why_blind == "NeedsPrometheus: 501 nodes; set prometheusUrl for more than 500"
    assert (sighting.seen, sighting.fleet, found.lists) == ({}, 501, 0)


def test_more_than_500_pods_need_prometheus_too() -> None:
    fleet, found = fleet_of()
    found.roster, found.size, found.too_many = None, None, True
    assert (fleet.look().why_blind or "").startswith("NeedsPrometheus: more than 500")


def test_no_pod_at_all_is_blind_unless_none_is_wanted() -> None:
    fleet, found = fleet_of()
    found.roster = Roster(pods=(), blind={})
    assert fleet.look().why_blind == "there is no detector pod"
    empty, found = fleet_of()
    found.roster, found.size = Roster(pods=(), blind={}), 0
    assert empty.look() == Sighting(seen={}, blind={}, why_blind=None, fleet=0)


def test_proxies_in_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Server(answers(http(page()))) as server:
        fleet, _ = fleet_of(pod("n1", server))
        assert "n1" in fleet.look().seen


def test_500_pages_are_read_within_a_poll() -> None:
    with Server(answers(http(page(instance=None)))) as server:
        fleet, found = fleet_of(*[pod(f"n{n}", server) for n in range(500)], limits=Limits())
        found.size = 500
        began = time.monotonic()
        sighting = fleet.look()
    assert len(sighting.seen) == 500
    assert time.monotonic() - began < 5.0
