"""Every call ends: whatever hangs, and also at the limits that are the defaults."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from recovery.autoscaling import AutoScaling
from recovery.cloud import ROUND_SECONDS, Rounds
from recovery.cloud_errors import CloudError
from tests.aws.surroundings import ROUND, SLACK, make_sdk
from tests.detector.process import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.cloud import Sdk
    from tests.aws.surroundings import Aws

NOBODY = "i-0123456789abcdef0"


def test_calls_of_a_round_end_within_its_limit_together(aws: Aws, hasty_sdk: Sdk) -> None:
    rounds = Rounds(hasty_sdk, seconds=1.5)
    cloud = AutoScaling(rounds)
    cloud.group_of(NOBODY)
    aws.proxy.always("hang")
    began = time.monotonic()
    cloud.begin_round()

    outcomes = []
    for _ in range(5):
        with pytest.raises(CloudError) as caught:
            cloud.group_of(NOBODY)
        outcomes.append(caught.value.outcome)

    assert time.monotonic() - began < 1.5 + SLACK
    assert outcomes[-1] == "given_up"
    aws.proxy.always(None)
    with pytest.raises(CloudError, match="not tried, the time of this round is over"):
        cloud.group_of(NOBODY)

    def is_answered() -> bool:
        cloud.begin_round()
        with contextlib.suppress(CloudError):  # the call that was given up may take a moment to end
            return cloud.group_of(NOBODY) is None
        return False

    until(is_answered)
    rounds.close()


def test_a_name_server_that_hangs_does_not_hold_the_loop_and_nothing_is_sent_late(
    aws: Aws, hasty_sdk: Sdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    resolve = socket.getaddrinfo

    def hanging(host: Any, *args: Any, **more: Any) -> Any:
        if host == "aws.test":
            answers.wait(30)
            host = "127.0.0.1"
        return resolve(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    monkeypatch.setenv("AWS_ENDPOINT_URL_AUTO_SCALING", aws.proxy.url.replace("127.0.0.1", "aws.test"))
    rounds = Rounds(hasty_sdk, seconds=1.0)
    cloud = AutoScaling(rounds)
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)
    began = time.monotonic()

    with pytest.raises(CloudError, match="given up"):
        cloud.set_unhealthy(instance)
    assert time.monotonic() - began < 1 + SLACK
    with pytest.raises(CloudError, match="has not ended yet"):
        cloud.set_unhealthy(instance)

    answers.set()
    assert rounds._last is not None
    assert rounds._last.done.wait(10)
    assert not aws.proxy.calls
    cloud.begin_round()
    assert cloud.group_of(instance) == name
    rounds.close()


def test_hang_and_drip_end_at_the_limits_that_are_the_defaults(aws: Aws) -> None:
    aws.proxy.always("hang", action="autoscaling:DescribeAutoScalingInstances")
    aws.proxy.always("drip", action="autoscaling:DescribeAutoScalingGroups")
    sdk = make_sdk()

    def ask(call: Callable[[AutoScaling], object]) -> tuple[str, float]:
        rounds = Rounds(sdk)
        began = time.monotonic()
        with pytest.raises(CloudError) as caught:
            call(AutoScaling(rounds))
        rounds.close()
        return caught.value.outcome, time.monotonic() - began

    with ThreadPoolExecutor(2) as pool:
        hang = pool.submit(ask, lambda cloud: cloud.group_of(NOBODY))
        drip = pool.submit(ask, lambda cloud: cloud.group("any", failed_since=None))

    assert hang.result()[0] == "timeout"
    assert 10 <= hang.result()[1] < 11 + SLACK  # two attempts of 5 s
    assert drip.result()[0] in ("timeout", "given_up")
    assert drip.result()[1] < ROUND_SECONDS + SLACK


def test_a_call_after_a_drip_finds_its_thread_free(aws: Aws, hasty: AutoScaling) -> None:
    aws.proxy.will("drip")
    with pytest.raises(CloudError):
        hasty.group_of(NOBODY)

    deadline = time.monotonic() + ROUND
    while True:
        try:
            assert hasty.group_of(NOBODY) is None
        except CloudError:
            assert time.monotonic() < deadline
        else:
            break


def test_a_client_that_is_being_made_for_points_holds_a_call_no_longer_than_its_round(hasty_sdk: Sdk) -> None:
    rounds = Rounds(hasty_sdk, seconds=0.5)
    with hasty_sdk._making, pytest.raises(CloudError) as caught:  # as while an agent with credentials hangs
        AutoScaling(rounds).group_of(NOBODY)

    assert caught.value.outcome == "timeout"
    assert AutoScaling(Rounds(hasty_sdk)).group_of(NOBODY) is None
    rounds.close()


def test_the_client_of_ec2_is_made_only_when_it_is_needed(aws: Aws, hasty_sdk: Sdk) -> None:
    rounds = Rounds(hasty_sdk, seconds=ROUND_SECONDS)
    cloud = AutoScaling(rounds)
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)

    cloud.group_of(instance)
    cloud.group(name, failed_since=None)
    cloud.set_unhealthy(instance)
    assert {service for service, _ in hasty_sdk._clients} == {"autoscaling"}

    cloud.reboot(instance)
    assert {service for service, _ in hasty_sdk._clients} == {"autoscaling", "ec2"}
    rounds.close()


def test_retries_are_standard_whatever_the_environment_says(
    aws: Aws, hasty_sdk: Sdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    rounds = Rounds(hasty_sdk, seconds=ROUND)
    aws.proxy.always("503empty")

    with pytest.raises(CloudError):
        AutoScaling(rounds).group_of(NOBODY)

    assert len(aws.proxy.calls) == 2
    rounds.close()
