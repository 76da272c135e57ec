"""A request to an API server ends, whatever the other side does, and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, drips, says, silent, whole
from tests.runtime.caller import Caller

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFUSED = whole(401, b'{"message": "Unauthorized"}')


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as server:
        yield server


@pytest.fixture
def client(tmp_path: Path, server: FaultProxy) -> Caller:
    return Caller(tmp_path, server.url)


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
def test_half_an_answer_is_an_error_without_a_status(server: FaultProxy, client: Caller, answer: bytes) -> None:
    def ends(connection: socket.socket, _: object) -> bool:
        connection.sendall(answer)
        return False

    server.will(ends, says(whole(200)))
    assert client.fails().status is None
    assert client.counted == {("GET", "none"): 1}
    assert client.get() == b"{}"


def test_a_silent_server_is_given_up(server: FaultProxy, client: Caller) -> None:
    server.will(silent, says(whole(200)))
    begun = time.monotonic()
    assert client.fails(read_seconds=0.2).status is None
    assert time.monotonic() - begun < 2
    assert client.get() == b"{}"


@pytest.mark.parametrize("where", ["head", "body"])
def test_an_answer_that_drips_is_given_up(tmp_path: Path, server: FaultProxy, where: str) -> None:
    client = Caller(tmp_path, server.url, whole_seconds=0.5)
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


def test_an_answer_without_end_is_given_up(server: FaultProxy, client: Caller) -> None:
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
    assert Caller(tmp_path, url).fails().status is None
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
        assert Caller(tmp_path, f"http://127.0.0.1:{address[1]}").fails().status is None
        assert 1.5 < time.monotonic() - begun < 4
        for each in waiting:
            each.close()


def test_failures_leak_neither_files_nor_threads(server: FaultProxy, client: Caller) -> None:
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
