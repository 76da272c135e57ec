"""Each fault on the way to AWS, at each call: one error, no conclusion, in time, and the next call works."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from recovery.autoscaling import AutoScaling
from recovery.cloud import Empty, Rounds
from recovery.cloud_errors import CloudError
from recovery.sending import Sending
from tests.aws.clock import START, SteppedClock
from tests.aws.surroundings import ROUND, SLACK, Aws, make_sdk, set_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recovery.cloud import Sdk

# What goes wrong, and what it is called then.
FAULTS = {
    "rst": {"unreachable"},
    "close": {"unreachable"},
    "done:rst": {"unreachable"},
    "hang": {"timeout"},
    "drip": {"timeout", "given_up"},
    "truncate": {"incomplete"},
    "slow:0.8": {"timeout"},
    "502html": {"failed", "incomplete"},
    "502doctype": {"failed", "incomplete"},
    "503empty": {"failed"},
    "200garbage": {"incomplete"},
    "200html": {"incomplete"},
    "err:500:InternalFailure": {"failed"},
    "err:503:ServiceUnavailable": {"failed"},
    "err:400:Throttling": {"throttled"},
    "err:400:RequestLimitExceeded": {"throttled"},
    "err:429:SomethingNew": {"throttled"},
    "err:400:ValidationError": {"refused"},
    "err:403:AccessDenied": {"denied"},
    "err:403:UnauthorizedOperation": {"denied"},
    "err:403:ExpiredToken": {"credentials"},
    "err:403:InvalidClientTokenId": {"credentials"},
    "err:403:RequestTimeTooSkewed": {"credentials"},
    "err:403:InvalidSignatureException": {"credentials"},
    "err:403:MissingAuthenticationTokenException": {"credentials"},
    "err:400:IncompleteSignature": {"credentials"},
}


class Parts:
    """Every call there is, each through a limit of its own, so that a test makes them all at once."""

    def __init__(self, aws: Aws, sdk: Sdk) -> None:
        self._sdk = sdk
        self.name = aws.player.make_group(2)
        self.instance, self.other = aws.player.instances(self.name)
        self._rounds: list[Rounds] = []

    def calls(self) -> dict[str, Callable[[], object]]:
        """Give the calls by the action that each makes, with a thread each."""
        instance, name = self.instance, self.name
        return {
            "autoscaling:DescribeAutoScalingInstances": lambda: self._cloud().group_of(instance),
            "autoscaling:DescribeAutoScalingGroups": lambda: self._cloud().group(name, failed_since=None),
            "autoscaling:SetInstanceHealth": lambda: self._cloud().set_unhealthy(instance),
            "autoscaling:TerminateInstanceInAutoScalingGroup": lambda: self._cloud().terminate(self.other),
            "ec2:RebootInstances": lambda: self._cloud().reboot(instance),
            "ec2:DescribeInstances": lambda: self._cloud().is_terminated(instance),
            "cloudwatch:PutMetricData": self._put,
        }

    def close(self) -> None:
        for rounds in self._rounds:
            rounds.close()

    def _cloud(self) -> AutoScaling:
        self._rounds.append(Rounds(self._sdk, seconds=ROUND))
        return AutoScaling(self._rounds[-1])

    def _put(self) -> object:
        parameters: dict[str, Any] = {"Namespace": "N", "MetricData": [{"MetricName": "x", "Value": 1.0}]}
        return self._sdk.ask(
            "cloudwatch", "PutMetricData", Empty, parameters, sending=Sending(time.monotonic() + ROUND), attempts=1
        )


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    """One for all tests here: making clients takes longer than the tests."""
    with Aws(SteppedClock()) as played, pytest.MonkeyPatch.context() as patch:
        set_environment(patch, played)
        played.proxy.asked.is_narrow = True
        yield played


@pytest.fixture(scope="module")
def shared_parts(aws: Aws) -> Iterator[Parts]:
    made = Parts(aws, make_sdk(is_hasty=True))
    together(made.calls())  # clients are made
    yield made
    made.close()


@pytest.fixture
def parts(aws: Aws, shared_parts: Parts) -> Parts:
    aws.proxy.calls.clear()
    aws.proxy.always(None)
    return shared_parts


def together(calls: dict[str, Callable[[], object]]) -> dict[str, tuple[object, float]]:
    """Make all calls at once; tell what each returned or raised, and how long it took."""

    def timed(call: Callable[[], object]) -> tuple[object, float]:
        began = time.monotonic()
        try:
            answer = call()
        except CloudError as error:
            answer = error
        return answer, time.monotonic() - began

    with ThreadPoolExecutor(len(calls)) as pool:
        return dict(zip(calls, pool.map(timed, calls.values()), strict=True))


def recovered(parts: Parts) -> bool:
    """Tell whether every call succeeds, soon and without help."""
    deadline = time.monotonic() + 3 * ROUND
    left = parts.calls()
    while left and time.monotonic() < deadline:
        left = {action: left[action] for action, (got, _) in together(left).items() if isinstance(got, CloudError)}
    return not left


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_at_any_call_is_an_answer_and_none_takes_longer_than_a_round(
    aws: Aws, parts: Parts, fault: str
) -> None:
    aws.proxy.always(fault)

    answers = together(parts.calls())
    if fault == "truncate":  # the head of this answer has all there is to say
        answers.pop("cloudwatch:PutMetricData")

    for action, (answer, seconds) in answers.items():
        assert isinstance(answer, CloudError), action
        assert answer.outcome in FAULTS[fault], (action, answer, answer.outcome)
        assert action in str(answer)
        assert answer.denied == (action if "denied" in FAULTS[fault] else None)
        assert not answer.gone
        assert seconds < ROUND + SLACK, action
    for action in answers:
        most = 1 if action in ("ec2:RebootInstances", "cloudwatch:PutMetricData") else 2
        assert len(aws.proxy.of(action)) <= most, action

    aws.proxy.always(None)
    assert recovered(parts)


def test_a_slow_answer_is_an_answer(aws: Aws, parts: Parts) -> None:
    aws.proxy.always("slow:0.1")

    assert recovered(parts)


def test_a_lost_answer_to_the_mark_leaves_the_mark(aws: Aws, parts: Parts) -> None:
    aws.proxy.will("done:rst", "done:rst", action="autoscaling:SetInstanceHealth")

    (answer, _), *_ = together({"": parts.calls()["autoscaling:SetInstanceHealth"]}).values()

    assert isinstance(answer, CloudError)
    cloud = parts._cloud()
    group = cloud.group(parts.name, failed_since=START)
    assert group is not None
    assert group.members[0].health == "Unhealthy"


def test_a_reboot_whose_answer_is_lost_is_not_sent_again(aws: Aws, parts: Parts) -> None:
    aws.proxy.will("done:rst", action="ec2:RebootInstances")

    with pytest.raises(CloudError):
        parts._cloud().reboot(parts.instance)

    assert len(aws.proxy.of("ec2:RebootInstances")) == 1
