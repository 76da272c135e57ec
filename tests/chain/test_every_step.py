"""The API server or AWS fails in each way at each single step: no wrong act, no false conclusion, and it goes on.

The first request of each kind fails, in one way after the other; writes of the ledger are told apart by the step that
they write. The detector's page is a stand-in (`tests/recovery/detector_page.py`), the clock is turned on after each
pass.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from recovery.policy import Policy, Rules
from runtime.durations import Duration
from tests.aws.surroundings import set_environment
from tests.chain import aged
from tests.chain.brain import ROUND, Brain, TurnedClock
from tests.chain.place import DMA
from tests.kubernetes.faults import FaultProxy, closes_after, drips, passes, resets_after, says, silent, whole
from tests.recovery import detector_page
from tests.recovery.servers import Server, answers, http

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.chain.place import Place
    from tests.kubernetes.faults import Fault, Seen

KIND = "NeuronHasError"
RULES = Rules(policies={DMA: Policy(confirm_for=Duration(0), drain_timeout=Duration(20))})
STATES = ["observed", "fenced", "admitted", "notified", "drained", "terminating", "gone", "replaced"]
PASSES, SECONDS = 60, 5.0
WHOLE = 0.4  # seconds that the API server has for an answer
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


def _never_asked(client: socket.socket, _: Callable[[], bytes]) -> bool:
    return resets_after(0)(client, lambda: b"")


API_FAULTS: dict[str, Fault] = {
    "reset": _never_asked,
    "done, then reset": resets_after(0),
    "done, then closed": closes_after(0),
    "truncated": closes_after(150),
    "silent": silent,
    "drips": drips(whole(200, b'{"metadata": {}}'), every_seconds=0.05),
    "throttled": says(whole(429, b'{"message": "too many"}', Retry_After="1")),
    "no etcd": says(whole(500, b'{"message": "etcdserver: request timed out"}')),
    "html": says(whole(503, b"<html>Bad Gateway</html>")),
    "garbage": says(whole(200, b"\x00\xff {]")),
    "forbidden": says(whole(403, b'{"message": "forbidden"}')),
    "conflict": says(whole(409, b'{"message": "the object has been modified"}')),
}


class Case:
    """A group of five, one of whose machines is faulty and has a pod.

    Args:
        place: its cluster.
        kubeconfig: of recovery.
        page: serves the detector's page.
    """

    def __init__(self, place: Place, kubeconfig: Path | None, page: Server) -> None:
        self.place = place
        self.group = place.aws.player.make_group(5)
        self.before = place.aws.player.instances(self.group)
        self.instance = self.before[2]
        self.node = f"{place.namespace}-node"
        said = json.dumps({"instance": self.instance, "boot": "b"})
        annotations = {"chipwarden.io/detector": said}
        place.plant([aged.node(self.node, self.instance, conditions={KIND: DMA}, annotations=annotations)])
        page.way = answers(http(detector_page.page(detector_page.DMA, instance=self.instance, enabled=True)))
        place.add_pod(self.node, page.port)
        self.job = place.add_pod(self.node, 1, app="job")
        place.set_fleet(1)
        self.clock = TurnedClock()
        whole_seconds = 5.0 if kubeconfig is None else WHOLE
        self.brain = Brain(place, RULES, self.clock, kubeconfig=kubeconfig, whole_seconds=whole_seconds)
        self.longest = 0.0

    def run(self) -> None:
        """Do passes until the entry is closed."""
        for _ in range(PASSES):
            self.longest = max(self.longest, self.brain.step())
            self.clock.turn(SECONDS)
            if any(entry["outcome"] for entry in self.place.entries()):
                break
        self.brain.close()

    def check(self) -> None:
        """It was replaced, once, and nothing else was touched."""
        (entry,) = self.place.entries()
        assert (entry["outcome"], entry["instance"], entry["kind"]) == ("replaced", self.instance, None), entry
        assert set(self.place.marked()) == {self.instance}
        after = self.place.aws.player.instances(self.group)
        assert set(self.before) - set(after) == {self.instance}
        assert len(after) == 5
        assert self.job not in self.place.pods()

    def steps_back(self) -> set[tuple[str, str]]:
        """List steps that were taken back."""
        states = [body.entries[0].state.value for body in self.brain.ledger.versions if body.entries]
        return {(one, two) for one, two in pairwise(states) if STATES.index(two) < STATES.index(one)}


@pytest.fixture
def page() -> Iterator[Server]:
    with Server(answers(b"")) as server:
        yield server


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


class FailsFirst:
    """Fails the first request of each kind.

    Args:
        proxy: the way to the API server.
        fault: how.
    """

    def __init__(self, proxy: FaultProxy, fault: Fault) -> None:
        self.met: set[str] = set()
        self._proxy = proxy
        self._fault = fault

    def __call__(self, client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        kind = _kind(fetch.args[0])  # type: ignore[attr-defined]
        if kind in self.met or not kind:
            return passes(client, fetch)
        self.met.add(kind)
        return self._fault(client, fetch)


def _kind(seen: Seen) -> str:
    """Name a request: its verb and path, and which step it writes down; "" = none of the loop's."""
    path = seen.path.partition("?")[0]
    if path.endswith("/events") or "/events/" in path:
        return ""
    text = seen.body.decode()
    step = ""
    if "ledger.json" in text:
        entries = json.loads(json.loads(text)["data"]["ledger.json"])["entries"]
        step = " ".join(f"{entry['state']} {bool(entry['called_at'])} {entry['accepted']}" for entry in entries)
    return f"{seen.verb} {path} {step}"


@pytest.mark.parametrize("fault", API_FAULTS)
def test_the_api_server_fails_at_each_request(
    place: Place, monkeypatch: pytest.MonkeyPatch, page: Server, fault: str
) -> None:
    set_environment(monkeypatch, place.aws)
    with FaultProxy(place.plane) as proxy:
        fails = FailsFirst(proxy, API_FAULTS[fault])
        proxy.always(fails)
        case = Case(place, place.kubeconfig_at(proxy.url), page)
        case.run()
    case.check()
    assert case.steps_back() == set()
    assert case.longest < LONGEST + 10 * WHOLE
    assert len(fails.met) > 12, fails.met
    assert place.marked() == [case.instance]
