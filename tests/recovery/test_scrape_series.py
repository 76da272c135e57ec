"""What a Prometheus server's answers add up to, with a stand-in for the server."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from recovery.model import FaultSeen
from recovery.prometheus import PrometheusFleet
from recovery.series import queries
from runtime.clock import SystemClock
from runtime.durations import Duration
from runtime.vocabulary import Action, FaultClass
from tests.detector.process import environment
from tests.recovery.detector_page import DMA, HANG, SINCE, SRAM
from tests.recovery.prometheus_api import PrometheusApi, Scraped
from tests.recovery.servers import Server, answers, drips, endless, hangs, http, resets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recovery.model import Sighting

INSTANCE = "i-0123456789abcdef0"


class Count:
    """A fleet of a known size."""

    def __init__(self, size: int | None = None) -> None:
        self.size = size

    def current(self) -> int | None:
        return self.size


def fleet_at(url: str, *, selector: str = "", size: int | None = None, whole_seconds: float = 5.0) -> PrometheusFleet:
    return PrometheusFleet(
        url,
        selector=selector,
        stale_after=Duration(60),
        clock=SystemClock(),
        fleet=Count(size),
        whole_seconds=whole_seconds,
    )


@pytest.fixture
def api() -> Iterator[PrometheusApi]:
    nodes = {"n1": Scraped(instance=INSTANCE), "n2": Scraped(enabled=False, platform_repair=True)}
    with PrometheusApi(nodes) as made:
        yield made


def look(api: PrometheusApi) -> Sighting:
    return fleet_at(api.url).look()


def test_a_quiet_fleet_is_seen_whole_with_few_questions(api: PrometheusApi) -> None:
    sighting = look(api)
    assert (sighting.blind, sighting.why_blind, list(sighting.seen)) == ({}, None, ["n1", "n2"])
    one, two = sighting.seen["n1"], sighting.seen["n2"]
    assert (one.enabled, one.platform_repair, one.instance, one.faults) == (True, False, INSTANCE, ())
    assert (two.enabled, two.platform_repair, two.instance) == (False, True, None)
    assert one.reasons == tuple(sorted(reason for _, reason in (DMA, HANG, SRAM)))
    assert not {"fault_times", "rules", "since"} & set(api.asked)


def test_a_fault_comes_with_its_class_its_action_and_its_beginning(api: PrometheusApi) -> None:
    api.nodes["n1"].faults[DMA] = SINCE
    api.nodes["n1"].faults["OwnError", "Own"] = SINCE
    sighting = look(api)
    since = datetime.fromtimestamp(SINCE, UTC)
    assert sighting.seen["n1"].faults == (
        FaultSeen(type=DMA[0], reason=DMA[1], fault_class=FaultClass.DEAD, action=Action.REPLACE, since=since),
        FaultSeen(type="OwnError", reason="Own", fault_class=None, action=None, since=since),
    )
    assert sighting.seen["n2"].faults == ()


def test_a_selector_narrows_every_query() -> None:
    for query in queries('cluster="a"'):
        assert query.count("{") == query.count('cluster="a"}')
    with PrometheusApi({"n1": Scraped()}, selector='cluster="a"') as api:
        assert fleet_at(api.url, selector='cluster="a"').look().seen.keys() == {"n1"}
        assert (look(api).why_blind or "").startswith("Prometheus: status 400")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"age_seconds": 61.0}, "what Prometheus has of it is stale"),
        ({"age_seconds": float("nan")}, "what Prometheus has of it is stale"),
        ({"reader_up": False}, "the detector cannot read the kernel log"),
        ({"twins": 2}, "several detectors speak for it"),
        ({"enabled": float("nan")}, "chipwarden_detector_recovery_enabled is nan"),
        ({"platform_repair": 2}, "chipwarden_detector_platform_repair is 2"),
        ({"faults": {DMA: float("nan")}}, "fault_since_timestamp_seconds is nan"),
        ({"instance": "i-0123456789abcdef9"}, "i-0123456789abcdef9 is claimed by several nodes"),
    ],
)
def test_a_node_in_doubt_is_blind_and_the_others_are_not(api: PrometheusApi, change: dict[str, Any], why: str) -> None:
    if "instance" in change:
        api.nodes["n3"] = Scraped(instance=change["instance"])
    for name, value in change.items():
        setattr(api.nodes["n2"], name, value)
    sighting = look(api)
    assert why in sighting.blind["n2"]
    assert sighting.seen.keys() == {"n1"}


def _element(**labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [time.time(), "1"]}


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("faults", _element(node="n1", type=DMA[0], reason=DMA[1], pod="other"), "stands there several times"),
        ("faults", _element(node="n1", type=DMA[0]), "without type or reason"),
        ("faults", _element(node="n1", type=HANG[0], reason=HANG[1]), "is stale"),
        ("rules", _element(node="n1", type=DMA[0], reason=DMA[1], action="none"), "rule_info stands there several"),
        ("since", _element(node="n1", type=DMA[0], reason=DMA[1], pod="other"), "seconds stands there several times"),
        ("instances", _element(node="n1", exported_instance="i-00000000"), "instance_info is ambiguous"),
        ("lacking", _element(node="n1"), "problem_gauge lacks some of its reasons"),
    ],
)
def test_series_that_contradict_each_other_make_their_node_blind(
    api: PrometheusApi, name: str, more: dict[str, Any], why: str
) -> None:
    api.nodes["n1"].faults[DMA] = SINCE

    def tamper(asked: str, answer: dict[str, Any]) -> dict[str, Any]:
        if asked == name:
            answer["data"]["result"].append(more)
        return answer

    api.tamper = tamper
    sighting = look(api)
    assert why in sighting.blind["n1"]
    assert sighting.seen.keys() == {"n2"}


@pytest.mark.parametrize("name", ["times", "loaded", "enabled", "platform"])
def test_a_node_that_an_answer_leaves_out_is_blind(api: PrometheusApi, name: str) -> None:
    def tamper(asked: str, answer: dict[str, Any]) -> dict[str, Any]:
        if asked == name:
            answer["data"]["result"] = [e for e in answer["data"]["result"] if e["metric"]["node"] != "n1"]
        return answer

    api.tamper = tamper
    sighting = look(api)
    assert "there is no chipwarden_detector_" in sighting.blind["n1"]
    assert sighting.seen.keys() == {"n2"}


def test_an_instance_that_was_lost_on_the_way_makes_its_node_blind(api: PrometheusApi) -> None:
    def tamper(asked: str, answer: dict[str, Any]) -> dict[str, Any]:
        if asked == "instances":
            del answer["data"]["result"][0]["metric"]["exported_instance"]
        return answer

    api.tamper = tamper
    assert look(api).blind == {"n1": "chipwarden_detector_instance_info has lost its instance"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"warnings": ["PromQL: partial response"]}, "a warning: PromQL: partial response"),
        ({"isPartial": True}, "a partial answer: some of its stores did not answer"),
        ({"status": "error", "error": "timeout"}, "status 400"),
        ({"data": {"resultType": "matrix", "result": []}}, "no vector"),
        ({"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1.0]}]}}, "an answer that is none"),
        ({"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}}, "without numbers"),
        ({"data": None}, "no vector"),
        ({"data": {"resultType": "vector", "result": [_element(node="n1")] * 2}}, "several values for a node"),
    ],
)
def test_an_answer_that_cannot_be_relied_on_makes_the_fleet_blind(
    api: PrometheusApi, change: dict[str, Any], why: str
) -> None:
    api.tamper = lambda asked, answer: answer | change if asked == "times" else answer
    sighting = look(api)
    assert why in (sighting.why_blind or "")
    assert (sighting.seen, sighting.blind) == ({}, {})


def test_notes_that_are_no_warnings_do_no_harm(api: PrometheusApi) -> None:
    api.tamper = lambda _, answer: answer | {"infos": ["PromQL info: metric might not be a counter"], "warnings": []}
    assert look(api).seen.keys() == {"n1", "n2"}


@pytest.mark.parametrize("seconds", [-61, 61])
def test_a_server_with_another_clock_makes_the_fleet_blind(api: PrometheusApi, seconds: float) -> None:
    api.clock = lambda: time.time() + seconds
    assert "its clock says" in (look(api).why_blind or "")


def test_a_server_without_data_is_blind_unless_none_is_wanted(api: PrometheusApi) -> None:
    api.nodes.clear()
    assert "no series with the label node" in (look(api).why_blind or "")
    sighting = fleet_at(api.url, size=0).look()
    assert (sighting.why_blind, sighting.fleet) == (None, 0)


@pytest.mark.parametrize(
    "way",
    [
        answers(http("<html>login</html>", kind="text/html")),
        answers(http("<html>bad gateway</html>", status="502 Bad Gateway")),
        answers(http("", status="302 Found", more=["Location: http://127.0.0.1:9/"])),
        answers(http('{"status":"success","data":{"resultType":"vector","result":[', length=9_000)),
        answers(http(b"\xff\xfe")),
        answers(b""),
        resets,
    ],
)
def test_a_server_that_answers_anything_else_makes_the_fleet_blind(way: Callable[[Any], None]) -> None:
    with Server(way) as server:
        sighting = fleet_at(f"http://127.0.0.1:{server.port}").look()
    assert (sighting.why_blind or "").startswith("Prometheus: ")
    assert len(server.requests) == 1  # nothing is repeated within a poll, and no redirect followed


@pytest.mark.parametrize("way", [hangs(seconds=9), drips(http(b" " * 200 + b"{}"), seconds=0.1)])
def test_a_server_that_does_not_end_is_given_up(way: Callable[[Any], None]) -> None:
    with Server(way) as server:
        began = time.monotonic()
        sighting = fleet_at(f"http://127.0.0.1:{server.port}", whole_seconds=0.5).look()
    assert sighting.why_blind is not None
    assert time.monotonic() - began < 2.0


def test_answers_that_are_slow_one_by_one_are_given_up_together(api: PrometheusApi) -> None:
    def tamper(_asked: str, answer: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.2)
        return answer

    api.tamper = tamper
    began = time.monotonic()
    sighting = fleet_at(api.url, whole_seconds=0.3).look()
    assert sighting.why_blind == "Prometheus: no answers within 0.9 s"
    assert time.monotonic() - began < 3.0


def test_an_answer_that_is_too_large_is_given_up() -> None:
    with Server(endless) as server:
        sighting = fleet_at(f"http://127.0.0.1:{server.port}", whole_seconds=60).look()
    assert "an answer of more than" in (sighting.why_blind or "")


MEASURE = """
import sys
from pathlib import Path
from recovery.prometheus import PrometheusFleet
from runtime.clock import SystemClock
from runtime.durations import Duration
class Count:
    def current(self): return None
fleet = PrometheusFleet(
    sys.argv[1], selector="", stale_after=Duration(60), clock=SystemClock(), fleet=Count(), whole_seconds=15
)
for _ in range(4):
    sighting = fleet.look()
most = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]  # of this program, not of its parent
print(len(sighting.seen), int(most) // 1024, sighting.why_blind)
"""


@pytest.mark.parametrize(("count", "most_mebibytes"), [(1_000, 45), (10_000, 75)])
def test_a_large_fleet_fits_into_memory(count: int, most_mebibytes: int) -> None:
    nodes = {f"ip-10-{n // 250}-{n % 250}-1.us-west-2.compute.internal": Scraped(f"i-{n:017x}") for n in range(count)}
    for one in list(nodes.values())[:: count // 500]:
        one.faults[DMA] = SINCE
    with PrometheusApi(nodes) as api:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, api.url], capture_output=True, env=environment(), timeout=60, check=True
        )
    seen, mebibytes, _ = done.stdout.decode().split(maxsplit=2)
    assert int(seen) == count, done.stdout
    assert int(mebibytes) <= most_mebibytes
