from __future__ import annotations

import contextlib
import http.client
import re
import resource
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.pages import MAX_CONNECTIONS, Page, PagesError, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.runtime.conftest import LogLines

TEXT = "text/plain; charset=utf-8"
BIG = b"x" * 40_000_000  # more than the kernel buffers between two sockets


def broken() -> Page:
    raise RuntimeError("secret detail")


ROUTES: dict[str, Callable[[], Page]] = {
    "/metrics": lambda: Page(200, TEXT, b"problem_gauge 0\n"),
    "/readyz": lambda: Page(503, TEXT, b"not reading\n"),
    "/big": lambda: Page(200, "application/octet-stream", BIG),
    "/broken": broken,
    "/unknown-status": lambda: Page(999, TEXT, b""),
}


@contextlib.contextmanager
def serving(listen: str = "127.0.0.1:0", patience_seconds: float = 5.0) -> Iterator[Server]:
    server = Server(listen, ROUTES, patience_seconds=patience_seconds)
    server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def impatient() -> Iterator[Server]:
    with serving(patience_seconds=0.3) as started:
        yield started


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def everything(client: socket.socket) -> bytes:
    """Read until the server closes; a reset counts as closing."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while data := client.recv(65_536):
            received += data
    return bytes(received)


def exchange(server: Server, request: bytes) -> bytes:
    with connect(server) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return everything(client)


def get(server: Server, path: str, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer, answer.read()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def eventually(holds: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def times_asleep(server: Server) -> int:
    """Count how often the server's thread has gone to sleep so far."""
    status = Path(f"/proc/self/task/{server._thread.native_id}/status").read_text(encoding="ascii")
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def test_page_is_served_with_its_type_and_length(server: Server) -> None:
    answer, body = get(server, "/metrics")
    assert (answer.status, answer.reason, body) == (200, "OK", b"problem_gauge 0\n")
    headers = dict(answer.getheaders())
    time.strptime(headers.pop("Date"), "%a, %d %b %Y %H:%M:%S GMT")
    assert headers == {"Server": "chipwarden", "Content-Type": TEXT, "Content-Length": "16"}


def test_status_is_the_one_of_the_page(server: Server) -> None:
    answer, body = get(server, "/readyz")
    assert (answer.status, body) == (503, b"not reading\n")


@pytest.mark.parametrize(
    "target", ["/metrics?format=x&y", "http://node-1:20257/metrics", "http://[::1]:20257/metrics?"]
)
def test_query_and_host_in_the_target_do_not_matter(server: Server, target: str) -> None:
    assert get(server, target)[1] == b"problem_gauge 0\n"


def test_head_gets_the_headers_of_get_without_the_body(server: Server) -> None:
    raw = exchange(server, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 16\r\n" in raw
    assert raw.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "FOO"])
def test_other_methods_are_refused_with_those_allowed(server: Server, method: str) -> None:
    answer, body = get(server, "/metrics", method)
    assert (answer.status, answer.getheader("Allow"), body) == (405, "GET, HEAD", b"method not allowed\n")


def test_body_of_a_refused_request_does_not_cost_the_client_its_answer(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)
        raw = everything(client)
    assert raw.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert raw.count(b"HTTP/1.1") == 1


def test_unknown_path_lists_the_paths_on_one_line(server: Server) -> None:
    answer, body = get(server, "/")
    assert answer.status == 404
    assert body == b"not found; paths: /big /broken /metrics /readyz /unknown-status\n"


@pytest.mark.parametrize("path", ["/broken", "/unknown-status"])
def test_page_that_fails_answers_500_and_leaves_one_log_line(server: Server, log_lines: LogLines, path: str) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (500, b"internal error\n")
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
    (fields,) = log_lines.fields("page failed")
    assert fields["path"] == path


def test_good_pages_leave_no_log_line(server: Server, log_lines: LogLines) -> None:
    get(server, "/metrics")
    get(server, "/nowhere")
    assert log_lines.events() == []


def test_keep_alive_connection_serves_many_scrapes(server: Server) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.connect()
        used = connection.sock
        for _ in range(50):
            connection.request("GET", "/metrics")
            assert connection.getresponse().read() == b"problem_gauge 0\n"
        assert connection.sock is used


@pytest.mark.parametrize(
    "request_head", [b"GET /metrics HTTP/1.0\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n"]
)
def test_connection_closes_when_the_client_wants_no_more(server: Server, request_head: bytes) -> None:
    with connect(server) as client:
        client.sendall(request_head)
        raw = everything(client)
    assert b"Connection: close\r\n" in raw
    assert raw.endswith(b"\r\n\r\nproblem_gauge 0\n")


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    asked = ["/metrics", "/readyz", "/nowhere"] * 20
    raw = exchange(server, b"".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in asked))
    assert re.findall(rb"HTTP/1\.1 (\d+)", raw) == [b"200", b"503", b"404"] * 20


def test_request_in_single_bytes_is_answered(server: Server) -> None:
    with connect(server) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
            client.send(bytes([byte]))
        assert everything(client).endswith(b"problem_gauge 0\n")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",  # the start of a TLS handshake, complete enough to be no request
        b"get /metrics http/1.1\r\n\r\n",
        b"GET /metrics HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET  /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /m\xc3\xa9trics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\0\r\n\r\n",
        b"GET /metrics HTTP/1.1\nHost: x\n\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_400_and_the_connection_closes(server: Server, garbage: bytes) -> None:
    with connect(server) as client:
        client.sendall(garbage)
        raw = everything(client)
    assert raw.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert raw.endswith(b"bad request\n")


@pytest.mark.parametrize("head", [b"GET /" + b"x" * 20_000, b"GET / HTTP/1.1\r\n" + b"X-Y: z\r\n" * 3_000])
def test_endless_head_is_cut_off(server: Server, head: bytes) -> None:
    with connect(server) as client:
        client.sendall(head)
        assert everything(client).startswith(b"HTTP/1.1 431 ")


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Server]:
    with serving() as started:
        yield started


@settings(deadline=None, max_examples=200)
@given(garbage=st.lists(st.sampled_from([b"GET", b" ", b"/metrics", b"HTTP/1.1", b"\r\n", b":"]) | st.binary()))
def test_any_bytes_leave_the_server_serving(fuzzed: Server, garbage: list[bytes]) -> None:
    raw = exchange(fuzzed, b"".join(garbage))
    assert raw == b"" or raw.startswith(b"HTTP/1.1 ")
    assert get(fuzzed, "/metrics")[0].status == 200


def test_two_hundred_scrapes_leave_threads_and_descriptors_as_they_were(server: Server) -> None:
    get(server, "/metrics")
    assert eventually(lambda: not server._connections)
    threads = threading.active_count()
    descriptors = open_descriptors()
    for _ in range(200):
        assert get(server, "/metrics")[0].status == 200
        assert threading.active_count() == threads
    assert eventually(lambda: open_descriptors() == descriptors)


def test_slow_request_is_cut_off_however_steadily_it_drips(impatient: Server) -> None:
    with connect(impatient) as client:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 10:
                client.send(b"\r\n" if time.monotonic() - began < 0.1 else b"G")
                client.settimeout(0.02)
                with contextlib.suppress(TimeoutError):
                    if not client.recv(1):
                        break
        assert time.monotonic() - began < 3


def test_silent_connection_is_closed_after_the_patience(impatient: Server) -> None:
    with connect(impatient) as client:
        assert everything(client) == b""
    answer = exchange(impatient, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_client_that_does_not_read_is_cut_off(impatient: Server) -> None:
    with connect(impatient) as client:
        client.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(8) == b"HTTP/1.1"
        assert eventually(lambda: not impatient._connections)


def test_big_page_arrives_whole(server: Server) -> None:
    assert get(server, "/big")[1] == BIG


def test_sleeping_clients_cannot_lock_out_a_scrape_and_are_never_more_than_the_limit(server: Server) -> None:
    threads = threading.active_count()
    with contextlib.ExitStack() as held:
        sleepers = [held.enter_context(connect(server)) for _ in range(3 * MAX_CONNECTIONS)]
        for sleeper in sleepers[::2]:
            with contextlib.suppress(ConnectionError):
                sleeper.send(b"GET /met")
        assert get(server, "/metrics")[0].status == 200
        assert len(server._connections) <= MAX_CONNECTIONS
        assert threading.active_count() == threads
        closed = 0
        for sleeper in sleepers[: 2 * MAX_CONNECTIONS]:
            closed += everything(sleeper) == b""
        assert closed == 2 * MAX_CONNECTIONS


def test_client_that_resets_does_no_harm(server: Server) -> None:
    for _ in range(20):
        client = connect(server)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.send(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        client.close()
    assert get(server, "/metrics")[0].status == 200


def test_idle_server_sleeps_without_waking_up(server: Server) -> None:
    get(server, "/metrics")
    assert eventually(lambda: not server._connections)
    before = times_asleep(server)
    time.sleep(1.5)  # the time that is watched: nothing may happen in it
    assert times_asleep(server) <= before + 1  # it may just have been about to fall asleep
    for _ in range(3):
        get(server, "/metrics")
    assert times_asleep(server) > before + 1


def test_running_out_of_descriptors_pauses_and_then_goes_on(server: Server, log_lines: LogLines) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with connect(server) as first, socket.socket() as client:
        first.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        first.recv(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno(), hard))
        try:
            client.settimeout(10)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert eventually(lambda: bool(log_lines.events()))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert everything(client).endswith(b"problem_gauge 0\n")
    assert log_lines.events() == ["pages accept no connection for a moment"]


def test_close_cuts_clients_and_returns_at_once() -> None:
    descriptors = open_descriptors()
    with serving() as server, connect(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(8)
        began = time.monotonic()
        server.close()
        server.close()
        assert time.monotonic() - began < 0.5
        everything(client)
        with pytest.raises(ConnectionRefusedError):
            connect(server)
    assert open_descriptors() == descriptors


def test_close_while_clients_come_and_go_never_fails() -> None:
    descriptors = open_descriptors()
    for _ in range(100):
        with serving() as server, connect(server) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert open_descriptors() == descriptors


def test_server_that_was_never_started_can_be_closed() -> None:
    descriptors = open_descriptors()
    server = Server("127.0.0.1:0", ROUTES)
    server.close()
    assert open_descriptors() == descriptors


def test_close_does_not_wait_for_a_page_that_hangs() -> None:
    release = threading.Event()
    entered = threading.Event()

    def hang() -> Page:
        entered.set()
        release.wait(30)
        return Page(200, TEXT, b"")

    server = Server("127.0.0.1:0", {"/hang": hang})
    server.start()
    with connect(server) as client:
        client.sendall(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        assert entered.wait(10)
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < 3
        release.set()
        everything(client)
    assert eventually(lambda: not server._thread.is_alive())


def test_every_ipv6_address_takes_ipv4_as_well() -> None:
    with serving("[::]:0") as server:
        assert get(server, "/metrics")[0].status == 200
        with socket.create_connection(("::1", server.port), timeout=10) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert everything(client).endswith(b"problem_gauge 0\n")


def test_host_name_can_be_listened_on() -> None:
    with serving("localhost:0") as server:
        assert get(server, "/metrics")[0].status == 200


@pytest.mark.parametrize(
    "listen",
    [
        "",
        "20257",
        ":20257",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:http",
        "127.0.0.1:65536",
        "::1:20257",
        "[::1]",
        "a b:1",
    ],
)
def test_malformed_address_is_refused_with_the_allowed_form(listen: str) -> None:
    with pytest.raises(
        PagesError, match=r"this is no address \(allowed: host:port, such as 0\.0\.0\.0:20257"
    ) as refused:
        Server(listen, ROUTES)
    assert repr(listen) in str(refused.value)


@pytest.mark.parametrize(
    ("listen", "reason"),
    [("[1:2]:80", "not"), ("192.0.2.1:0", "Cannot assign requested address"), ("a..b:1", "not")],
)
def test_address_that_cannot_be_bound_is_refused_with_the_reason(listen: str, reason: str) -> None:
    with pytest.raises(PagesError, match=reason) as refused:
        Server(listen, ROUTES)
    assert str(refused.value).startswith(f"cannot listen on {listen!r}: ")


def test_address_in_use_is_named(server: Server) -> None:
    with pytest.raises(PagesError) as refused:
        Server(f"127.0.0.1:{server.port}", ROUTES)
    assert str(refused.value) == (
        f"cannot listen on '127.0.0.1:{server.port}': Address already in use (another program has this port)"
    )
