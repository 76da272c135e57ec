"""A request to an API server: what is sent, and what an answer means."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from runtime.rest import MERGE, STRATEGIC_MERGE, is_configured
from runtime.vocabulary import VERSION
from tests.kubernetes.faults import FaultProxy, says, silent, whole
from tests.runtime.caller import Caller

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REFUSED = whole(401, b'{"message": "Unauthorized"}')


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as server:
        yield server


@pytest.fixture
def client(tmp_path: Path, server: FaultProxy) -> Caller:
    return Caller(tmp_path, server.url)


def test_a_request_carries_token_type_and_body(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(200, b'{"kind":"Node"}')))
    answer = client.rest.request("PATCH", "/api/v1/nodes/n/status", body={"x": None}, content_type=STRATEGIC_MERGE)
    (seen,) = server.seen
    assert answer == b'{"kind":"Node"}'
    assert (seen.verb, seen.path, seen.body) == ("PATCH", "/api/v1/nodes/n/status", b'{"x":null}')
    assert seen.headers["authorization"] == "Bearer first"
    assert seen.headers["content-type"] == STRATEGIC_MERGE
    assert seen.headers["accept"] == "application/json"
    assert seen.headers["user-agent"] == f"chipwarden/{VERSION}"
    assert client.counted == {("PATCH", "200"): 1}


def test_a_request_without_a_body_has_no_content_type(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(200)))
    client.get()
    assert "content-type" not in server.seen[0].headers


def test_a_list_is_not_taken_for_a_json_patch(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(200)))
    client.rest.request("PATCH", "/x", body=[1], content_type=MERGE)
    assert server.seen[0].headers["content-type"] == MERGE


def test_requests_share_a_connection(server: FaultProxy, client: Caller) -> None:
    server.always(says(whole(200)))
    for _ in range(3):
        client.get()
    assert len(server._clients) == 1


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 400, 403, 404, 409, 422, 429, 500, 503, 599])
def test_anything_but_success_is_an_error_with_its_status(server: FaultProxy, client: Caller, status: int) -> None:
    server.will(says(whole(status, b"" if status == 304 else b'{"message": "because"}')))
    error = client.fails()
    assert error.status == status
    assert error.code == str(status)
    assert client.counted == {("GET", str(status)): 1}


def test_a_redirect_is_not_followed(server: FaultProxy, client: Caller) -> None:
    with FaultProxy() as elsewhere:
        server.will(says(whole(307, Location=elsewhere.url + "/api")))
        assert client.fails().status == 307
        assert elsewhere.seen == []


def test_an_error_says_what_the_server_said(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(422, b'{"kind": "Status", "message": "status.x: Invalid value"}')))
    assert str(client.fails()) == "GET /api/v1/nodes/n: 422 status.x: Invalid value"


def test_an_error_carries_the_whole_answer(server: FaultProxy, client: Caller) -> None:
    body = b'{"message": "no", "details": {"causes": [{"reason": "DisruptionBudget"}]}}'
    server.will(says(whole(429, body)), silent)
    assert client.fails().body == body
    assert client.fails(read_seconds=0.2).body == b""


def test_the_time_of_the_last_answer_is_known(server: FaultProxy, client: Caller) -> None:
    assert client.rest.dated is None
    server.will(says(whole(403, Date="Sun, 29 Nov 2026 10:15:30 GMT")), says(whole(200)), silent)
    client.fails()
    first = client.rest.dated
    assert first is not None
    assert first.date == datetime(2026, 11, 29, 10, 15, 30, tzinfo=UTC)
    assert 0 <= time.monotonic() - first.monotonic < 5
    client.get()
    client.fails(read_seconds=0.2)
    assert client.rest.dated == first, "neither of the two had a Date"


@pytest.mark.parametrize("date", ["", "soon", "Sun, 29 Nov 2026 10:15:30 -0000", "Sun, 99 Nov 2026 10:15:30 GMT"])
def test_a_date_that_is_none_is_passed_over(server: FaultProxy, client: Caller, date: str) -> None:
    server.will(says(whole(200, Date=date)))
    client.get()
    assert client.rest.dated is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff\xfe", b'{"message": "\xff"}', b"[]", b'"x"', b"null", b"{" * 100_000]
)
def test_an_error_may_say_anything(server: FaultProxy, client: Caller, body: bytes) -> None:
    server.will(says(whole(500, body)))
    error = client.fails()
    assert error.status == 500
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("7", 7), ("100000", 300), ("9" * 30, None), ("1.5", None), ("-1", None), ("soon", None), ("²", None)],
)
def test_retry_after_is_read_if_it_is_a_number_of_seconds(
    server: FaultProxy, client: Caller, value: str, seconds: float | None
) -> None:
    server.will(says(whole(429).replace(b"\r\n", f"\r\nRetry-After: {value}\r\n".encode("latin-1"), 1)))
    assert client.fails().retry_after_seconds == seconds


def test_no_retry_after_is_none(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(503)))
    assert client.fails().retry_after_seconds is None


def test_a_rotated_token_is_read_at_once(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(200)), says(_REFUSED), says(whole(200, b"1")))
    client.get()
    client.token_file.write_text("second")
    assert client.get() == b"1"
    assert [each.headers["authorization"] for each in server.seen] == ["Bearer first"] * 2 + ["Bearer second"]
    assert client.counted == {("GET", "200"): 2, ("GET", "401"): 1}


def test_a_token_that_stays_refused_is_tried_twice_only(server: FaultProxy, client: Caller) -> None:
    server.always(says(_REFUSED))
    assert client.fails().status == 401
    assert len(server.seen) == 2


def test_a_line_end_in_the_token_file_does_not_matter(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(200)))
    client.token_file.write_text("first\n")
    client.get()
    assert server.seen[0].headers["authorization"] == "Bearer first"


def test_credentials_may_come_later(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(200)))
    client.token_file.unlink()
    assert client.fails().status is None
    client.token_file.write_text("first")
    assert client.get() == b"{}"


def test_a_kubeconfig_may_come_later(server: FaultProxy, client: Caller) -> None:
    server.will(says(whole(200)))
    text = client.kubeconfig.read_text()
    for broken in ("", "{", "{}", "- 1"):
        client.kubeconfig.write_text(broken)
        failed = client.fails()
        assert failed.code == "none"
        assert f"KUBECONFIG {client.kubeconfig}: " in str(failed)
    client.kubeconfig.write_text(text)
    assert client.get() == b"{}"


def test_nothing_heavy_is_imported_before_the_first_request() -> None:
    code = (
        "import sys; from runtime.rest import Rest; Rest(counted=print, environ={});"
        "print(*{'kubernetes', 'urllib3', 'ssl', 'http.client'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == ""


def test_an_api_server_is_known_by_the_environment() -> None:
    assert is_configured({"KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    assert is_configured({"KUBECONFIG": "/x"})
    assert not is_configured({"KUBECONFIG": ""})
    assert not is_configured({})
