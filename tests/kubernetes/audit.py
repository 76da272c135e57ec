"""Read the API server's audit log, so that a test can count what the server was really asked.

It must not filter by anything that the server did not say: a test that counts PATCHes counts all of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

# One record per request, written when the answer is complete; a watch also has one for its start.
POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One answered request.

    Args:
        verb: Kubernetes' verb: get, list, watch, create, update, patch, delete.
        uri: Path and query.
        user: User name, such as ``system:serviceaccount:default:x``.
        code: HTTP status of the answer.
        received_at: Server's time, RFC 3339 with microseconds.
        stage: ResponseComplete, or ResponseStarted for a watch that has begun.
    """

    verb: str
    uri: str
    user: str
    code: int
    received_at: str
    stage: str


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Record(msgspec.Struct, rename="camel"):
    verb: str
    stage: str
    request_received_timestamp: str
    request_uri: str = msgspec.field(name="requestURI")
    user: _User = msgspec.field(default_factory=_User)
    response_status: _Status = msgspec.field(default_factory=_Status)


def read(log: Path, *, offset: int = 0) -> Iterator[Request]:
    """Yield the requests recorded from a byte offset on; a line still being written is left out.

    Source: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/ (read 2026-11-29).
    """
    decoder = msgspec.json.Decoder(_Record)
    with log.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            record = decoder.decode(line)
            yield Request(
                verb=record.verb,
                uri=record.request_uri,
                user=record.user.username,
                code=record.response_status.code,
                received_at=record.request_received_timestamp,
                stage=record.stage,
            )
