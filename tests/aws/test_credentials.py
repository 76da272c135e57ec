"""Credentials that are missing, late, refused or about to expire: one error, in time, and it recovers by itself."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import botocore.utils
import pytest

from recovery.autoscaling import AutoScaling
from recovery.cloud import Rounds, Sdk
from recovery.cloud_errors import CloudError
from tests.aws.credentials import CredentialServer
from tests.aws.player import REGION
from tests.aws.surroundings import ROUND, SLACK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.aws.surroundings import Aws

NOBODY = "i-0123456789abcdef0"
STS = "sts:AssumeRoleWithWebIdentity"


@pytest.fixture(autouse=True)
def _no_keys(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    assert aws.proxy.url
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")


@pytest.fixture
def server() -> Iterator[CredentialServer]:
    with CredentialServer() as server:
        yield server


@pytest.fixture
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """IRSA, as the webhook of EKS sets it up."""
    path = tmp_path / "token"
    path.write_text("header.claims.signature")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/recovery")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(path))
    return path


@pytest.fixture
def pod_identity(server: CredentialServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CredentialServer:
    path = tmp_path / "token"
    path.write_text("first")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(path))
    monkeypatch.setattr(botocore.utils.ContainerMetadataFetcher, "SLEEP_TIME", 0)  # 1 s, after each of 3 attempts
    return server


def refused(hasty: AutoScaling) -> CloudError:
    """Make a call that has to fail, in time."""
    began = time.monotonic()
    with pytest.raises(CloudError) as caught:
        hasty.group_of(NOBODY)
    assert time.monotonic() - began < ROUND + SLACK
    return caught.value


def recovered(cloud: AutoScaling) -> bool:
    """Tell whether calls succeed again, soon and without help."""
    deadline = time.monotonic() + 3 * ROUND
    while time.monotonic() < deadline:
        try:
            return cloud.group_of(NOBODY) is None
        except CloudError:
            cloud.begin_round()
    return False


def test_no_credentials_at_all_is_one_quick_error(aws: Aws, hasty: AutoScaling) -> None:
    began = time.monotonic()

    error = refused(hasty)

    assert (error.outcome, error.denied) == ("credentials", None)
    assert time.monotonic() - began < SLACK
    assert not aws.proxy.calls


def test_credentials_that_come_late_are_found(
    hasty: AutoScaling, server: CredentialServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
    server.status = 503
    assert refused(hasty).outcome == "credentials"

    server.status = 200

    assert recovered(hasty)


@pytest.mark.usefixtures("token_file")
def test_a_web_identity_is_changed_for_credentials(aws: Aws, hasty: AutoScaling) -> None:
    assert recovered(hasty)
    assert list(dict.fromkeys(call.action for call in aws.proxy.calls)) == [
        STS,
        "autoscaling:DescribeAutoScalingInstances",
    ]


def test_a_token_file_that_is_missing_is_read_once_it_is_there(hasty: AutoScaling, token_file: Path) -> None:
    token_file.unlink()
    assert refused(hasty).outcome == "credentials"
    assert refused(hasty).outcome == "credentials"

    token_file.write_text("header.claims.signature")

    assert recovered(hasty)


@pytest.mark.usefixtures("token_file")
@pytest.mark.parametrize("fault", ["hang", "drip", "rst", "502doctype", "503empty", "200html", "truncate"])
def test_no_fault_of_sts_holds_a_call_longer_than_a_round(aws: Aws, hasty: AutoScaling, fault: str) -> None:
    aws.proxy.always(fault, action=STS)

    assert refused(hasty).denied is None
    assert aws.proxy.actions() == {STS}
    assert len(aws.proxy.calls) <= 2

    aws.proxy.always(None, action=STS)
    assert recovered(hasty)


@pytest.mark.usefixtures("token_file")
def test_a_refusal_of_sts_is_no_refusal_of_auto_scaling(aws: Aws, hasty: AutoScaling) -> None:
    aws.proxy.always("err:403:AccessDenied", action=STS)

    error = refused(hasty)

    assert error.outcome == "credentials"
    assert error.denied == STS


def test_an_agent_of_pod_identity_that_is_down_at_the_start_is_asked_again(
    hasty: AutoScaling, pod_identity: CredentialServer
) -> None:
    pod_identity.status = 400
    assert refused(hasty).outcome == "credentials"

    pod_identity.status = 200

    assert recovered(hasty)


def test_an_agent_that_drips_holds_nothing_and_is_asked_again(
    hasty: AutoScaling, pod_identity: CredentialServer
) -> None:
    pod_identity.status = 0
    refused(hasty)

    pod_identity.status = 200
    assert recovered(hasty)


def test_credentials_that_are_still_valid_are_used_while_new_ones_cannot_be_had(
    hasty: AutoScaling, pod_identity: CredentialServer
) -> None:
    pod_identity.valid = timedelta(minutes=14)
    assert recovered(hasty)

    pod_identity.status = 400

    assert recovered(hasty)
    assert len(pod_identity.tokens) > 2  # it has tried to get new ones


def test_in_the_last_minutes_of_credentials_calls_fail_and_then_recover_with_a_new_token(
    hasty: AutoScaling, pod_identity: CredentialServer, tmp_path: Path
) -> None:
    """The SDK refuses to use a key in its last ten minutes; nothing here can change that."""
    pod_identity.valid = timedelta(minutes=5)
    assert recovered(hasty)
    pod_identity.status = 400
    assert refused(hasty).outcome == "credentials"

    (tmp_path / "token").write_text("second")
    pod_identity.status = 200

    assert recovered(hasty)
    assert pod_identity.tokens[-1] == "second"


def test_the_region_is_given_where_the_sdk_itself_reads_none(hasty_sdk: Sdk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_AUTO_SCALING")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    own = hasty_sdk._session.create_client("autoscaling")
    rounds = Rounds(Sdk(region="eu-north-1", counted=lambda *_: None, connect_seconds=0.01), seconds=0.5)

    assert own.meta.endpoint_url == f"https://autoscaling.{REGION}.amazonaws.com"
    with pytest.raises(CloudError, match=r"autoscaling\.eu-north-1\.amazonaws\.com|given up"):
        AutoScaling(rounds).group_of(NOBODY)
    rounds.close()
