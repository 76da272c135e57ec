"""The API server or AWS fails in each way at each single step: no wrong act, no false conclusion, and it goes on.

The first request of each kind fails, in one way after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recovery.cleanup import Cleaned, clean
from recovery.ports import PortError
from runtime.rest import Rest
from tests.aws.surroundings import set_environment
from tests.chain.brain import ROUND
from tests.chain.case import KIND, WHOLE, Case
from tests.chain.failing import API_FAULTS, FailsFirst
from tests.chain.othercases import CLAIMS, DONE, POOL, REBOOT, PoolCase, RebootCase, fenced
from tests.chain.place import POINTS
from tests.kubernetes.faults import FaultProxy
from tests.recovery.prometheus_api import PrometheusApi

if TYPE_CHECKING:
    from tests.chain.place import Place
    from tests.recovery.servers import Server

LONGEST = 6.0  # seconds of a pass: several requests, on a busy machine
CALLS = (
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:SetInstanceHealth",
)
AWS_FAULTS = (
    *("rst", "close", "done:rst", "hang", "drip", "truncate", "502html", "502doctype", "503empty", "200garbage"),
    *("200html", "err:400:Throttling", "err:400:ValidationError", "err:403:AccessDenied", "err:500:InternalFailure"),
    "slow:0.3",
)


@pytest.mark.parametrize("fault", AWS_FAULTS)
def test_aws_fails_at_each_call(place: Place, monkeypatch: pytest.MonkeyPatch, page: Server, fault: str) -> None:
    set_environment(monkeypatch, place.aws)
    for action in CALLS:
        place.aws.proxy.will(fault, fault, action=action)  # the SDK itself tries twice
    case = Case(place, None, page)
    case.run()
    case.check()
    refused = {("terminating", "drained")} if "AccessDenied" in fault else set()  # nothing was done, and that is known
    assert case.steps_back() == refused
    assert case.longest < ROUND + LONGEST
    assert fault in {call.fault for call in place.aws.proxy.of(CALLS[-1])}


@pytest.mark.parametrize("fault", AWS_FAULTS)
def test_aws_fails_at_a_reboot(place: Place, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    set_environment(monkeypatch, place.aws)
    place.aws.proxy.will(fault, action=REBOOT)
    with PrometheusApi({}) as prometheus:
        case = RebootCase(place, None, prometheus)
        case.run()
    (entry,) = place.entries()
    told = [call.fault for call in place.aws.proxy.of(REBOOT)]
    turned_away = fault in ("err:400:Throttling", "err:403:AccessDenied")
    assert told == ([fault, "pass"] if turned_away else [fault]), "never twice, unless it certainly was not done"
    failed = not turned_away and fault not in DONE
    assert (entry["outcome"], entry["reboots_failed"]) == ("failed" if failed else "rebooted", 0)
    assert place.marked() == []
    assert case.longest < ROUND + LONGEST


@pytest.mark.parametrize("fault", API_FAULTS)
class TestTheApiServer:
    """Fails at each request."""

    def test_while_a_machine_is_replaced(
        self, place: Place, monkeypatch: pytest.MonkeyPatch, page: Server, fault: str
    ) -> None:
        set_environment(monkeypatch, place.aws)
        with FaultProxy(place.plane) as proxy:
            fails = FailsFirst(API_FAULTS[fault])
            proxy.always(fails)
            case = Case(place, proxy, page)
            case.run()
        case.check()
        assert case.steps_back() == set()
        assert place.marked() == [case.instance]
        assert case.longest < LONGEST
        assert fails.counted("leases") >= 3, "read, made, renewed"
        assert fails.counted("configmaps") >= 8
        assert fails.counted("/nodes/") >= 2
        assert fails.counted("pods") >= 3, "detectors, the node's, evicted"
        assert fails.counted("events") >= 1

    def test_while_a_machine_is_rebooted(self, place: Place, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
        set_environment(monkeypatch, place.aws)
        with PrometheusApi({}) as prometheus, FaultProxy(place.plane) as proxy:
            fails = FailsFirst(API_FAULTS[fault])
            proxy.always(fails)
            case = RebootCase(place, proxy, prometheus)
            case.run()
        (entry,) = place.entries()
        assert (entry["outcome"], entry["reboots_failed"], entry["added"]) == ("rebooted", 0, []), entry
        assert len(place.aws.proxy.of("ec2:RebootInstances")) == 1
        assert place.marked() == []
        assert case.longest < LONGEST
        node = place.admin.ask("GET", f"/api/v1/nodes/{case.node}").body
        assert not node["spec"].get("unschedulable")
        assert not node["spec"].get("taints")
        assert fails.counted("PATCH /api/v1/nodes/") >= 1
        assert fails.counted("daemonsets") == 1

    def test_while_a_node_claim_is_ended(
        self, place: Place, monkeypatch: pytest.MonkeyPatch, page: Server, fault: str
    ) -> None:
        set_environment(monkeypatch, place.aws)
        with FaultProxy(place.plane) as proxy:
            fails = FailsFirst(API_FAULTS[fault])
            proxy.always(fails)
            case = PoolCase(place, proxy, page)
            case.run()
        (entry,) = place.entries()
        assert (entry["outcome"], entry["way"], entry["group"]) == ("gone", "karpenter", POOL), entry
        assert case.claims() == {case.other}
        assert {call.action for call in place.aws.proxy.calls} <= {POINTS}
        assert case.longest < LONGEST
        assert {verb for verb in ("GET", "PATCH", "DELETE") if fails.counted(f"{verb} {CLAIMS}")} == {
            "GET",
            "PATCH",
            "DELETE",
        }
        assert fails.counted("nodepools") == 1

    def test_while_the_cluster_is_cleaned(self, place: Place, fault: str) -> None:
        names = [f"{place.namespace}-{number}" for number in range(2)]
        place.plant([fenced(name) for name in names])
        with FaultProxy(place.plane) as proxy:
            fails = FailsFirst(API_FAULTS[fault])
            proxy.always(fails)
            rest = Rest(
                counted=lambda _verb, _code: None,
                environ={"KUBECONFIG": str(place.plane.kubeconfig_for(place.plane.admin_token, url=proxy.url))},
                whole_seconds=WHOLE,
            )
            told = [_cleaned(rest) for _ in range(8)]
        assert fails.counted("nodes") >= 2 * len(names) + 1
        assert told[-1] == [], "nothing is left"
        assert any(told)
        for name in names:
            node = place.admin.ask("GET", f"/api/v1/nodes/{name}").body
            assert [taint["key"] for taint in node["spec"]["taints"]] == ["somebody/else"]
            assert not node["spec"].get("unschedulable")
            assert KIND not in {condition["type"] for condition in node["status"]["conditions"]}
            assert not [key for key in node["metadata"].get("annotations") or {} if "chipwarden" in key]


def _cleaned(rest: Rest) -> list[Cleaned] | None:
    try:
        return clean(rest, None, [], lambda _: None)
    except PortError:
        return None
