"""Every request ends, in a body or in a RestError, whatever the other side does."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runtime.rest import MERGE, STRATEGIC_MERGE, Rest, RestError, is_configured
from runtime.vocabulary import VERSION
from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, drips, says, silent, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFUSED = whole(401, b'{"message": "Unauthorized"}')


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as server:
        yield server


class Client:
    """A transport with a kubeconfig of its own, and what it has counted."""

    def __init__(self, folder: Path, url: str, **options: float) -> None:
        self.token_file = folder / "token"
        self.token_file.write_text("first")
        self.kubeconfig = folder / "kubeconfig"
        user = {"tokenFile": str(self.token_file)}
        config: dict[str, Any] = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(json.dumps(config))
        self.counted: Counter[tuple[str, str]] = Counter()
        self.rest = Rest(counted=self._count, environ={"KUBECONFIG": str(self.kubeconfig)}, **options)

    def _count(self, verb: str, code: str) -> None:
        self.counted[verb, code] += 1

    def get(self, read_seconds: float = 5.0) -> bytes:
        return self.rest.request("GET", "/api/v1/nodes/n", read_seconds=read_seconds)

    def fails(self, read_seconds: float = 5.0) -> RestError:
        with pytest.raises(RestError) as caught:
            self.get(read_seconds)
        return caught.value


@pytest.fixture
def client(tmp_path: Path, server: FaultProxy) -> Client:
    return Client(tmp_path, server.url)


def test_a_request_carries_token_type_and_body(server: FaultProxy, client: Client) -> None:
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


def test_a_request_without_a_body_has_no_content_type(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(200)))
    client.get()
    assert "content-type" not in server.seen[0].headers


def test_a_list_is_not_taken_for_a_json_patch(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(200)))
    client.rest.request("PATCH", "/x", body=[1], content_type=MERGE)
    assert server.seen[0].headers["content-type"] == MERGE


def test_requests_share_a_connection(server: FaultProxy, client: Client) -> None:
    server.always(says(whole(200)))
    for _ in range(3):
        client.get()
    assert len(server._clients) == 1


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 400, 403, 404, 409, 422, 429, 500, 503, 599])
def test_anything_but_success_is_an_error_with_its_status(server: FaultProxy, client: Client, status: int) -> None:
    server.will(says(whole(status, b"" if status == 304 else b'{"message": "because"}')))
    error = client.fails()
    assert error.status == status
    assert error.code == str(status)
    assert client.counted == {("GET", str(status)): 1}


def test_a_redirect_is_not_followed(server: FaultProxy, client: Client) -> None:
    with FaultProxy() as elsewhere:
        server.will(says(whole(307, Location=elsewhere.url + "/api")))
        assert client.fails().status == 307
        assert elsewhere.seen == []


def test_an_error_says_what_the_server_said(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(422, b'{"kind": "Status", "message": "status.x: Invalid value"}')))
    assert str(client.fails()) == "GET /api/v1/nodes/n: 422 status.x: Invalid value"


def test_an_error_carries_the_whole_answer(server: FaultProxy, client: Client) -> None:
    body = b'{"message": "no", "details": {"causes": [{"reason": "DisruptionBudget"}]}}'
    server.will(says(whole(429, body)), silent)
    assert client.fails().body == body
    assert client.fails(read_seconds=0.2).body == b""


def test_the_time_of_the_last_answer_is_known(server: FaultProxy, client: Client) -> None:
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
def test_a_date_that_is_none_is_passed_over(server: FaultProxy, client: Client, date: str) -> None:
    server.will(says(whole(200, Date=date)))
    client.get()
    assert client.rest.dated is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff\xfe", b'{"message": "\xff"}', b"[]", b'"x"', b"null", b"{" * 100_000]
)
def test_an_error_may_say_anything(server: FaultProxy, client: Client, body: bytes) -> None:
    server.will(says(whole(500, body)))
    error = client.fails()
    assert error.status == 500
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("7", 7), ("100000", 300), ("9" * 30, None), ("1.5", None), ("-1", None), ("soon", None), ("²", None)],
)
def test_retry_after_is_read_if_it_is_a_number_of_seconds(
    server: FaultProxy, client: Client, value: str, seconds: float | None
) -> None:
    server.will(says(whole(429).replace(b"\r\n", f"\r\nRetry-After: {value}\r\n".encode("latin-1"), 1)))
    assert client.fails().retry_after_seconds == seconds


def test_no_retry_after_is_none(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(503)))
    assert client.fails().retry_after_seconds is None


def test_a_rotated_token_is_read_at_once(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(200)), says(_REFUSED), says(whole(200, b"1")))
    client.get()
    client.token_file.write_text("second")
    assert client.get() == b"1"
    assert [each.headers["authorization"] for each in server.seen] == ["Bearer first"] * 2 + ["Bearer second"]
    assert client.counted == {("GET", "200"): 2, ("GET", "401"): 1}


def test_a_token_that_stays_refused_is_tried_twice_only(server: FaultProxy, client: Client) -> None:
    server.always(says(_REFUSED))
    assert client.fails().status == 401
    assert len(server.seen) == 2


def test_a_line_end_in_the_token_file_does_not_matter(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(200)))
    client.token_file.write_text("first\n")
    client.get()
    assert server.seen[0].headers["authorization"] == "Bearer first"


def test_credentials_may_come_later(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(200)))
    client.token_file.unlink()
    assert client.fails().status is None
    client.token_file.write_text("first")
    assert client.get() == b"{}"


def test_a_kubeconfig_may_come_later(server: FaultProxy, client: Client) -> None:
    server.will(says(whole(200)))
    text = client.kubeconfig.read_text()
    for broken in ("", "{", "{}", "- 1"):
        client.kubeconfig.write_text(broken)
        assert client.fails().code == "none"
    client.kubeconfig.write_text(text)
    assert client.get() == b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
)
def test_half_an_answer_is_an_error_without_a_status(server: FaultProxy, client: Client, answer: bytes) -> None:
    def ends(connection: socket.socket, _: object) -> bool:
        connection.sendall(answer)
        return False

    server.will(ends, says(whole(200)))
    assert client.fails().status is None
    assert client.counted == {("GET", "none"): 1}
    assert client.get() == b"{}"


def test_a_silent_server_is_given_up(server: FaultProxy, client: Client) -> None:
    server.will(silent, says(whole(200)))
    begun = time.monotonic()
    assert client.fails(read_seconds=0.2).status is None
    assert time.monotonic() - begun < 2
    assert client.get() == b"{}"


@pytest.mark.parametrize("where", ["head", "body"])
def test_an_answer_that_drips_is_given_up(tmp_path: Path, server: FaultProxy, where: str) -> None:
    client = Client(tmp_path, server.url, whole_seconds=0.5)
    head = b"HTTP/1.1 200 OK\r\nX: " + b"y" * (10_000 if where == "head" else 1) + b"\r\nContent-Length: 10000\r\n\r\n"

    def drip(connection: socket.socket, fetch: Any) -> bool:
        start = len(head) if where == "body" else 0
        connection.sendall(head[:start])
        return drips((head + b" " * 10_000)[start:], every_seconds=0.02)(connection, fetch)

    server.will(drip, says(whole(200)))
    begun = time.monotonic()
    assert client.fails().status is None
    assert 0.4 < time.monotonic() - begun < 3
    assert client.get() == b"{}"


def test_an_answer_without_end_is_given_up(server: FaultProxy, client: Client) -> None:
    def floods(connection: socket.socket, _: object) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(1 << 20))

    server.will(floods)
    assert "more than" in str(client.fails())


def test_a_closed_port_is_an_error_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    begun = time.monotonic()
    assert Client(tmp_path, url).fails().status is None
    assert time.monotonic() - begun < 2


def test_a_server_that_takes_no_connection_is_given_up(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        begun = time.monotonic()
        assert Client(tmp_path, f"http://127.0.0.1:{address[1]}").fails().status is None
        assert 1.5 < time.monotonic() - begun < 4
        for each in waiting:
            each.close()


def test_failures_leak_neither_files_nor_threads(server: FaultProxy, client: Client) -> None:
    def ends(_: socket.socket, __: object) -> bool:
        return False

    def round_of_failures() -> None:
        server.will(ends, says(_REFUSED), says(_REFUSED), says(whole(500)), says(whole(200)))
        for _ in range(3):
            client.fails()
        client.get()

    round_of_failures()
    before, threads = _sockets(), threading.active_count()
    for _ in range(30):
        round_of_failures()
    until(lambda: _sockets() <= before + 2, what="connections closed")
    until(lambda: threading.active_count() <= threads + 1, what="threads ended")  # the stand-in's own


def _sockets() -> int:
    gc.collect()  # pytest keeps the frames of exceptions for a while
    names = (os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir())
    return sum("/socket:" in name for name in names)


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
