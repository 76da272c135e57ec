"""A leader that is held up between its decision and the first byte sends nothing once another may lead."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from recovery.autoscaling import AutoScaling
from recovery.cloud import Rounds
from recovery.cloud_errors import CloudError
from tests.aws.credentials import CredentialServer
from tests.aws.surroundings import make_sdk
from tests.detector.process import until
from tests.recovery.held_up import Leading, NameServer, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.aws.surroundings import Aws

ACTS: dict[str, Callable[[AutoScaling, str], object]] = {
    "autoscaling:SetInstanceHealth": AutoScaling.set_unhealthy,
    "autoscaling:SetInstanceHealth Healthy": AutoScaling.set_healthy,
    "autoscaling:TerminateInstanceInAutoScalingGroup": AutoScaling.terminate,
    "ec2:RebootInstances": AutoScaling.reboot,
}


@pytest.fixture
def name_server(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> NameServer:
    for service in ("AUTO_SCALING", "EC2"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", named(aws.proxy.url))
    return NameServer(monkeypatch)


@pytest.fixture
def agent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[CredentialServer]:
    """An agent that gives credentials which have to be asked for anew before each call."""
    request.getfixturevalue("aws")  # its environment first
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with CredentialServer() as server:
        server.valid = timedelta(minutes=8)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/credentials")
        yield server


@contextlib.contextmanager
def leader(leading: Leading, seconds: float = 20.0) -> Iterator[AutoScaling]:
    rounds = Rounds(make_sdk(is_hasty=True), seconds=seconds, permits=leading.permit)
    yield AutoScaling(rounds)
    rounds.close()


@pytest.mark.parametrize("act", ACTS)
def test_a_call_that_waits_for_a_name_until_another_may_lead_is_not_sent(
    aws: Aws, name_server: NameServer, act: str
) -> None:
    (instance,) = aws.player.instances(aws.player.make_group(1))
    leading = Leading()
    name_server.close()
    with leader(leading) as cloud, ThreadPoolExecutor(1) as pool:
        call = pool.submit(ACTS[act], cloud, instance)
        assert name_server.asked.wait(10)
        leading.lose()
        name_server.open()

        with pytest.raises(CloudError, match=r"not sent, .*somebody else has led") as caught:
            call.result()
        assert (caught.value.unsent, caught.value.outcome) == (True, "given_up")
        assert aws.proxy.calls == []

        ACTS[act](cloud, instance)
        assert aws.proxy.actions() == {act.partition(" ")[0]}


@pytest.mark.parametrize("act", ACTS)
def test_a_call_that_waits_for_credentials_until_another_may_lead_is_not_sent(
    aws: Aws, agent: CredentialServer, act: str
) -> None:
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)
    leading = Leading()
    with leader(leading) as cloud, ThreadPoolExecutor(1) as pool:
        assert cloud.group_of(instance) == name
        agent.answers.clear()
        call = pool.submit(ACTS[act], cloud, instance)
        until(lambda: agent.waiting, what="credentials are asked for")
        leading.lose()
        agent.answers.set()

        with pytest.raises(CloudError) as caught:
            call.result()
        assert caught.value.unsent, caught.value
        assert aws.proxy.actions() == {"autoscaling:DescribeAutoScalingInstances"}


def test_what_the_sdk_would_send_again_is_not_sent_either(aws: Aws) -> None:
    (instance,) = aws.player.instances(aws.player.make_group(1))
    leading = Leading()
    aws.proxy.will("hang")
    with leader(leading) as cloud, ThreadPoolExecutor(1) as pool:
        call = pool.submit(cloud.set_unhealthy, instance)
        until(lambda: aws.proxy.of("autoscaling:SetInstanceHealth"), what="it is sent once")
        leading.lose()

        with pytest.raises(CloudError) as caught:
            call.result()
    assert not caught.value.unsent, "it may have been done"
    assert len(aws.proxy.of("autoscaling:SetInstanceHealth")) == 1


def test_a_call_that_is_given_up_before_it_was_sent_is_known_not_to_have_been_made(
    aws: Aws, name_server: NameServer
) -> None:
    (instance,) = aws.player.instances(aws.player.make_group(1))
    name_server.close()
    with leader(Leading(), seconds=0.3) as cloud:
        for _ in range(2):  # while it waits, and while it still has not ended
            with pytest.raises(CloudError) as caught:
                cloud.reboot(instance)
            assert caught.value.unsent, caught.value
        name_server.open()
    assert aws.proxy.calls == []


@pytest.mark.parametrize("fault", ["hang", "done:rst", "err:500:InternalError", "200html"])
def test_what_was_sent_may_have_been_done(aws: Aws, fault: str) -> None:
    (instance,) = aws.player.instances(aws.player.make_group(1))
    aws.proxy.always(fault, "ec2:RebootInstances")
    with leader(Leading()) as cloud, pytest.raises(CloudError) as caught:
        cloud.reboot(instance)
    assert not caught.value.unsent


def test_a_server_that_refuses_connections_has_taken_nothing(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    (instance,) = aws.player.instances(aws.player.make_group(1))
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", f"http://127.0.0.1:{port}")
    with leader(Leading()) as cloud, pytest.raises(CloudError) as caught:
        cloud.reboot(instance)
    assert (caught.value.unsent, caught.value.outcome) == (True, "unreachable")


@pytest.mark.parametrize(
    "fault",
    ["err:400:Throttling", "err:503:RequestLimitExceeded", "err:403:UnauthorizedOperation", "err:401:AuthFailure"],
)
def test_a_reboot_that_was_turned_away_was_not_made(aws: Aws, fault: str) -> None:
    (instance,) = aws.player.instances(aws.player.make_group(1))
    aws.proxy.always(fault)
    with leader(Leading()) as cloud:
        with pytest.raises(CloudError) as caught:
            cloud.reboot(instance)
        assert caught.value.unsent
        with pytest.raises(CloudError) as caught:
            cloud.set_unhealthy(instance)
        assert not caught.value.unsent, "it was sent more than once, or may be, and is repeated in any case"
    assert len(aws.proxy.of("ec2:RebootInstances")) == 1
