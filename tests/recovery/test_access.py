"""A Prometheus server that does not answer everybody: tokens, certificates, signatures of AWS."""

from __future__ import annotations

import hashlib
import hmac
import logging
import ssl
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from recovery.access import Holder, Signer
from recovery.prometheus import PrometheusFleet
from runtime.clock import SystemClock
from runtime.durations import Duration
from tests.aws.credentials import CredentialServer
from tests.aws.surroundings import FOREIGN, make_sdk
from tests.kubernetes.certificates import Authority
from tests.recovery.prometheus_api import PrometheusApi, Scraped
from tests.recovery.servers import Server, answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message
    from pathlib import Path

    from recovery.access import Access
    from recovery.cloud import Sdk

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"  # noqa: S105 - AWS's own example
REGION = "eu-west-1"


class Count:
    def current(self) -> int:
        return 1


def fleet(url: str, access: Access | None = None, ca_file: str = "") -> PrometheusFleet:
    return PrometheusFleet(
        url,
        selector='cluster="a b",env=~"p|t"',
        stale_after=Duration(60),
        clock=SystemClock(),
        fleet=Count(),
        access=access,
        ca_file=ca_file,
    )


@pytest.fixture
def api() -> Iterator[PrometheusApi]:
    with PrometheusApi({"n": Scraped()}, selector='cluster="a b",env=~"p|t"') as made:
        yield made


class TestATokenFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "token"
        file.write_text("first-token\n")
        return file

    def test_its_token_is_sent_and_a_rotated_one_from_the_next_request_on(
        self, api: PrometheusApi, file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        api.allows = lambda _, headers: headers["Authorization"] == "Bearer first-token"
        asked = fleet(api.url, Holder(str(file)))
        assert asked.look().seen.keys() == {"n"}

        api.allows = lambda _, headers: headers["Authorization"] == "Bearer second-token"
        blind = asked.look()
        assert blind.why_blind == "Prometheus: status 401: "
        file.write_text("second-token")
        assert asked.look().seen.keys() == {"n"}
        assert "-token" not in caplog.text

    def test_without_it_there_is_no_header(self, api: PrometheusApi) -> None:
        api.allows = lambda _, headers: "Authorization" not in headers
        assert fleet(api.url).look().seen.keys() == {"n"}

    @pytest.mark.parametrize("content", [None, b"", b"\n", b"two words", b"line\nline", "tök".encode(), b"\x00"])
    def test_what_is_no_token_is_blind_and_not_shown(
        self, api: PrometheusApi, file: Path, content: bytes | None
    ) -> None:
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        sighting = fleet(api.url, Holder(str(file))).look()
        assert sighting.why_blind is not None
        assert sighting.why_blind.startswith(f"Prometheus: prometheusTokenFile {file}: ")
        assert "two words" not in sighting.why_blind
        assert not api.asked

    def test_it_is_sent_to_nobody_to_whom_an_answer_redirects(self, api: PrometheusApi, file: Path) -> None:
        head = f"HTTP/1.1 302 Found\r\nLocation: {api.url}/\r\nContent-Length: 0\r\n\r\n"
        with Server(answers(head.encode())) as server:
            sighting = fleet(f"http://127.0.0.1:{server.port}", Holder(str(file))).look()
        assert sighting.why_blind is not None
        assert "status 302" in sighting.why_blind
        assert not api.asked


class TestACaFile:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path / "ca")

    @pytest.fixture
    def secure(self, authority: Authority) -> Iterator[PrometheusApi]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("server", "/CN=prometheus", alternatives="IP:127.0.0.1"))
        with PrometheusApi({"n": Scraped()}, selector='cluster="a b",env=~"p|t"', context=context) as made:
            yield made

    def test_a_server_that_it_vouches_for_is_trusted(self, authority: Authority, secure: PrometheusApi) -> None:
        assert fleet(secure.url, ca_file=str(authority.certificate)).look().seen.keys() == {"n"}

    @pytest.mark.parametrize("other", [True, False])
    def test_any_other_is_not(self, secure: PrometheusApi, tmp_path: Path, *, other: bool) -> None:
        ca_file = str(Authority(tmp_path / "other").certificate) if other else ""
        sighting = fleet(secure.url, ca_file=ca_file).look()
        assert sighting.why_blind is not None
        assert "certificate verify failed" in sighting.why_blind

    def test_one_that_is_not_there_is_blind(self, secure: PrometheusApi, tmp_path: Path) -> None:
        sighting = fleet(secure.url, ca_file=str(tmp_path / "none")).look()
        assert sighting.why_blind is not None
        assert sighting.why_blind.endswith(f"No such file or directory, trusting prometheusCaFile {tmp_path}/none")


def is_signed(path: str, headers: Message) -> bool:
    """Verify a signature as AWS does, which knows the secret.

    Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html (read 2026-11-30).
    """
    algorithm, _, rest = headers.get("Authorization", "").partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
    if algorithm != "AWS4-HMAC-SHA256":
        return False
    _, date, region, service, ending = parts["Credential"].split("/")
    names = parts["SignedHeaders"].split(";")
    query = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parse_qsl(urlsplit(path).query)
    )
    canonical = [
        "GET",
        urlsplit(path).path,
        "&".join(f"{name}={value}" for name, value in query),
        *(f"{name}:{headers[name].strip()}" for name in names),
        "",
        ";".join(names),
        hashlib.sha256(b"").hexdigest(),
    ]
    scope = f"{date}/{region}/{service}/{ending}"
    hashed = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    text = "\n".join([algorithm, headers["X-Amz-Date"], scope, hashed])
    key = f"AWS4{SECRET}".encode()
    for part in (date, region, service, ending, text):
        key = hmac.digest(key, part.encode(), "sha256")
    return (region, service, "host" in names, key.hex()) == (REGION, "aps", True, parts["Signature"])


class TestASignature:
    @pytest.fixture
    def sdk(self, monkeypatch: pytest.MonkeyPatch) -> Sdk:
        for name in (*FOREIGN, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        return make_sdk(is_hasty=True)

    @pytest.mark.parametrize("path", ["", "/workspaces/ws-1/"])
    def test_it_is_what_aws_computes(
        self, api: PrometheusApi, sdk: Sdk, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        api.allows = is_signed
        sighting = fleet(api.url + path, Signer(sdk, REGION)).look()
        assert sighting.why_blind is None
        assert sighting.seen.keys() == {"n"}

    @pytest.mark.parametrize(("secret", "region"), [("another", REGION), (SECRET, "eu-west-2")])
    def test_another_is_refused(
        self, api: PrometheusApi, sdk: Sdk, monkeypatch: pytest.MonkeyPatch, secret: str, region: str
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        api.allows = is_signed
        assert fleet(api.url, Signer(sdk, region)).look().why_blind == "Prometheus: status 401: "

    def test_a_session_token_is_sent_with_it(
        self, api: PrometheusApi, sdk: Sdk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with CredentialServer() as agent:
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{agent.url}/credentials")
            api.allows = lambda _, headers: headers["X-Amz-Security-Token"] == "session"
            assert fleet(api.url, Signer(sdk, REGION)).look().seen.keys() == {"n"}

    def test_without_credentials_the_fleet_is_blind_until_there_are_some(
        self, api: PrometheusApi, sdk: Sdk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = fleet(api.url, Signer(sdk, REGION))
        assert asked.look().why_blind == "Prometheus: there are no AWS credentials"
        assert not api.asked
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        assert asked.look().seen.keys() == {"n"}

    def test_an_agent_that_gives_none_does_not_hold_the_loop(
        self, api: PrometheusApi, sdk: Sdk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with CredentialServer() as agent:
            agent.status = 500
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{agent.url}/credentials")
            began = SystemClock().monotonic()
            sighting = fleet(api.url, Signer(sdk, REGION)).look()
            assert SystemClock().monotonic() - began < 8
        assert sighting.why_blind is not None
        assert sighting.why_blind.startswith("Prometheus: credentials:")
