"""Getting pages: what comes whole, what does not, and how long that may take."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from recovery.fetch import Answer, FetchError, Limits, Target, fetch
from tests.recovery.servers import Server, answers, drips, floods, hangs, http, resets

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = Limits(connect_seconds=0.3, whole_seconds=0.5, round_seconds=2.0, largest_bytes=1 << 20, at_once=8)
GOOD = http("up 1\n")


def get(*ports: int, limits: Limits = QUICK) -> dict[str, Answer | FetchError]:
    found: dict[str, Answer | FetchError] = {}

    def take(key: str, result: Answer | FetchError) -> None:
        assert key not in found, "handed over twice"
        found[key] = result

    fetch([Target(f"{number}", "127.0.0.1", port) for number, port in enumerate(ports)], take, limits)
    assert len(found) == len(ports)
    return found


def test_a_page_is_got_whole() -> None:
    with Server(answers(GOOD)) as server:
        found = get(server.port)["0"]
    assert found == Answer("text/plain; version=0.0.4", 0.0, b"up 1\n")
    assert server.requests[0].startswith("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:")


def test_an_answer_in_chunks_or_without_a_length_is_got_whole() -> None:
    chunks = http(b"3\r\nup \r\n2\r\n1\n\r\n0\r\n\r\n", length=-1, more=["Transfer-Encoding: chunked"])
    with Server(answers(chunks)) as first, Server(answers(http("up 1\n", length=-1))) as second:
        found = get(first.port, second.port)
    assert [isinstance(answer, Answer) and answer.body for answer in found.values()] == [b"up 1\n", b"up 1\n"]


def test_a_connection_that_stays_open_does_not_keep_us_waiting() -> None:
    def way(connection: socket.socket) -> None:
        connection.sendall(GOOD)
        time.sleep(3)

    with Server(way) as server:
        began = time.monotonic()
        assert isinstance(get(server.port)["0"], Answer)
    assert time.monotonic() - began < 0.4


@pytest.mark.parametrize(
    ("way", "why"),
    [
        (answers(http("moved", status="302 Found", more=["Location: /elsewhere"])), "status 302"),
        (answers(http("", status="204 No Content")), "status 204"),
        (answers(http("busy", status="503 Service Unavailable")), "status 503"),
        (answers(http("up 1\n", length=500)), "no whole HTTP answer: IncompleteRead"),
        (answers(http(b"9\r\nup", length=-1, more=["Transfer-Encoding: chunked"])), "no whole HTTP answer"),
        (answers(http("up 1\n", more=["Content-Encoding: gzip"])), "encoded as gzip"),
        (answers(b"up 1\n"), "no whole HTTP answer: BadStatusLine"),
        (answers(b""), "no whole HTTP answer"),
        (answers(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n"), "no whole HTTP answer: HTTPException"),
        (resets, "reset by peer"),
        (floods, "more than 1048576 bytes"),
        (hangs(), "no answer in time"),
        (drips(http("up 1\n" * 100)), "no answer in time"),
    ],
)
def test_anything_else_is_an_error_in_time(way: Callable[[socket.socket], None], why: str) -> None:
    with Server(way) as server:
        began = time.monotonic()
        found = get(server.port)["0"]
    assert isinstance(found, FetchError)
    assert why in str(found)
    assert time.monotonic() - began < 1.0


def test_a_port_where_nobody_listens_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert str(get(port)["0"]) == "Connection refused"


def test_a_host_that_does_not_answer_costs_the_time_to_connect() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        began = time.monotonic()
        assert str(get(address[1])["0"]) == "no answer in time"
        assert time.monotonic() - began < 0.45
        for one in waiting:
            one.close()


def test_many_pages_are_got_while_some_hang() -> None:
    with Server(answers(GOOD)) as good, Server(hangs()) as bad:
        began = time.monotonic()
        found = get(*[good.port] * 100, *[bad.port] * 8, *[good.port] * 20)
    assert sum(isinstance(answer, Answer) for answer in found.values()) == 120
    assert time.monotonic() - began < 1.5


def test_a_round_ends_whatever_hangs() -> None:
    with Server(hangs()) as server:
        began = time.monotonic()
        found = get(*[server.port] * 60, limits=QUICK._replace(round_seconds=0.8))
    assert time.monotonic() - began < 1.2
    assert {str(answer) for answer in found.values()} == {
        "no answer in time",
        "not asked: the others took too long",
    }


def test_a_cache_that_says_its_age_is_heard() -> None:
    with Server(answers(http("up 1\n", more=["Age: 90"]))) as server:
        found = get(server.port)["0"]
    assert isinstance(found, Answer)
    assert found.age_seconds == 90.0


def test_an_address_that_is_none_is_an_error() -> None:
    found: list[Answer | FetchError] = []
    fetch([Target("a", "not an address", 80)], lambda _, result: found.append(result), QUICK)
    assert isinstance(found[0], FetchError)


def test_a_caller_that_fails_leaves_no_connection_open() -> None:
    ends: list[bytes] = []

    def take(_key: str, _result: Answer | FetchError) -> None:
        raise RuntimeError

    with Server(lambda connection: ends.append(connection.recv(1))) as slow, Server(answers(GOOD)) as good:
        targets = [Target(f"{n}", "127.0.0.1", good.port if n == 7 else slow.port) for n in range(8)]
        with pytest.raises(RuntimeError):
            fetch(targets, take, QUICK)
        deadline = time.monotonic() + 2
        while len(ends) < len(slow.requests) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert ends == [b""] * len(slow.requests)
