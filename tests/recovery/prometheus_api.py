"""A stand-in for a Prometheus server: it answers recovery's own queries, as of now, for any number of nodes.

It evaluates nothing: it knows what each of the queries asks for, and refuses all others. What a real server answers to
them is tested with a real server in test_prometheus_real.py.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from recovery.series import queries
from tests.recovery.detector_page import RULES

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator
    from email.message import Message
    from typing import Self

_Element = tuple[dict[str, str], float]


@dataclasses.dataclass
class Scraped:
    """What the server has of one detector.

    Args:
        instance: own instance id; None = unknown to the detector.
        age_seconds: since its last scrape.
        faults: type and reason to the time it began, Unix seconds.
        twins: how many targets have its node label.
    """

    instance: str | None = None
    enabled: bool = True
    platform_repair: bool = False
    reader_up: bool = True
    age_seconds: float = 1.0
    faults: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    twins: int = 1


class _Quiet(ThreadingHTTPServer):
    """Says nothing of a client that was killed in the middle of an answer."""

    def handle_error(self, *_: object) -> None:
        return


class PrometheusApi:
    """The server.

    Args:
        nodes: what it has, by the label `node`; may be changed at any time.
        selector: what recovery is expected to add to its queries.
        context: for TLS; None = plain HTTP.

    Attributes:
        allows: tells by a request's address and headers whether it is answered, else with 401.
    """

    def __init__(self, nodes: dict[str, Scraped], *, selector: str = "", context: ssl.SSLContext | None = None) -> None:
        self.nodes = nodes
        self.asked: list[str] = []
        self.tamper: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda _name, answer: answer
        self.clock: Callable[[], float] = time.time
        self._names = {query: name for name, query in queries(selector)._asdict().items()}
        self.allows: Callable[[str, Message], bool] = lambda _path, _headers: True
        self._server = _Quiet(("127.0.0.1", 0), self._handler())
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, query: str) -> dict[str, Any]:
        """Answer a query as the real server words it."""
        now = self.clock()
        vector: list[_Element]
        if query == "vector(time())":
            name, vector = "time", [({}, now)]
        elif query in self._names:
            name = self._names[query]
            vector = list(getattr(self, f"_{name}")(now))
        else:
            return {"status": "error", "errorType": "bad_data", "error": f"unknown query {query}"}
        self.asked.append(name)
        result = [{"metric": labels, "value": [now, f"{value!r}"]} for labels, value in vector]
        return self.tamper(name, {"status": "success", "data": {"resultType": "vector", "result": result}})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet: else each answer waits for an acknowledgement

            def do_GET(self) -> None:
                if not api.allows(self.path, self.headers):
                    self.send_response(401)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                (query,) = parse_qs(urlsplit(self.path).query)["query"]
                answer = api.answer(query)
                body = json.dumps(answer).encode()
                self.send_response(200 if answer["status"] == "success" else 400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        return Handler

    def _faults(self, _now: float) -> Iterator[_Element]:
        for node, one in self.nodes.items():
            for kind, reason in one.faults:
                yield {"__name__": "problem_gauge", "node": node, "type": kind, "reason": reason}, 1.0

    def _fault_times(self, now: float) -> Iterable[_Element]:
        for labels, _ in self._faults(now):
            yield labels, now - self.nodes[labels["node"]].age_seconds

    def _rules(self, now: float) -> Iterable[_Element]:
        for labels, _ in self._faults(now):
            rule = RULES.get((labels["type"], labels["reason"]))
            if rule is not None:
                yield labels | {"fault_class": rule[0], "action": rule[1]}, 1.0

    def _since(self, now: float) -> Iterable[_Element]:
        for labels, _ in self._faults(now):
            yield labels, self.nodes[labels["node"]].faults[labels["type"], labels["reason"]]

    def _down(self, _now: float) -> Iterable[_Element]:
        return [({"node": node}, 0.0) for node, one in self.nodes.items() if not one.reader_up]

    def _twins(self, _now: float) -> Iterable[_Element]:
        return [({"node": node}, float(one.twins)) for node, one in self.nodes.items() if one.twins > 1]

    def _lacking(self, _now: float) -> Iterable[_Element]:
        return []

    def _times(self, now: float) -> Iterable[_Element]:
        return [({"node": node}, now - one.age_seconds) for node, one in self.nodes.items()]

    def _loaded(self, _now: float) -> Iterable[_Element]:
        return [({"node": node}, float(len(RULES))) for node in self.nodes]

    def _enabled(self, _now: float) -> Iterable[_Element]:
        return [({"node": node}, float(one.enabled)) for node, one in self.nodes.items()]

    def _platform(self, _now: float) -> Iterable[_Element]:
        return [({"node": node}, float(one.platform_repair)) for node, one in self.nodes.items()]

    def _instances(self, _now: float) -> Iterable[_Element]:
        for node, one in self.nodes.items():
            if one.instance is not None:
                yield {"node": node, "instance": f"{node}:20257", "exported_instance": one.instance}, 1.0

    def _reasons(self, _now: float) -> Iterable[_Element]:
        return [({"type": kind, "reason": reason}, float(len(self.nodes))) for kind, reason in RULES if kind]
