"""A stand-in for the places on a machine where an SDK finds credentials: EKS Pod Identity's agent, and IMDSv2.

Source: botocore 1.44.8, utils.py (ContainerMetadataFetcher, InstanceMetadataFetcher; read 2026-11-29).
"""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class CredentialServer:
    """Gives credentials, or what a test says.

    Attributes:
        status: of each answer; 0 = drip.
        valid: how long credentials are valid.
        tokens: the Authorization header of each request.
        answers: whoever asks is kept waiting while it is not set.
        waiting: how many have been kept waiting.
    """

    def __init__(self) -> None:
        self.status = 200
        self.valid = timedelta(hours=6)
        self.tokens: list[str] = []
        self.answers = threading.Event()
        self.answers.set()
        self.waiting = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _body(self, path: str) -> bytes:
        if path.endswith("/latest/api/token"):
            return b"token"
        if path.endswith("/iam/security-credentials/"):
            return b"role"
        return json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": "ASIAIOSFODNN7EXAMPLE",
                "SecretAccessKey": "example",
                "Token": "session",
                "Expiration": f"{datetime.now(UTC) + self.valid:%Y-%m-%dT%H:%M:%SZ}",
            }
        ).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.tokens.append(self.headers.get("Authorization", ""))
                server.waiting += not server.answers.is_set()
                server.answers.wait(60)
                body = server._body(self.path)
                if server.status == 0:
                    return self._drip(body)
                self.send_response(server.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                return self._write(body)

            def do_PUT(self) -> None:
                self.do_GET()

            def _drip(self, body: bytes) -> None:
                for byte in b"HTTP/1.0 200 OK\r\n\r\n" + body:
                    self._write(bytes([byte]))
                    time.sleep(0.1)

            def _write(self, text: bytes) -> None:
                try:
                    self.wfile.write(text)
                    self.wfile.flush()
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
