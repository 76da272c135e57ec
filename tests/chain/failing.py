"""The ways in which an API server fails, and who has each kind of request fail once.

Writes of the ledger are told apart by the step that they write.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.kubernetes.faults import closes_after, drips, passes, resets_after, says, silent, whole

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tests.kubernetes.faults import Fault, Seen


def _never_asked(client: socket.socket, _: Callable[[], bytes]) -> bool:
    return resets_after(0)(client, lambda: b"")


API_FAULTS: dict[str, Fault] = {
    "reset": _never_asked,
    "done, then reset": resets_after(0),
    "done, then closed": closes_after(0),
    "truncated": closes_after(150),
    "silent": silent,
    "drips": drips(whole(200, b'{"metadata": {}}'), every_seconds=0.05),
    "throttled": says(whole(429, b'{"message": "too many"}', Retry_After="1")),
    "no etcd": says(whole(500, b'{"message": "etcdserver: request timed out"}')),
    "html": says(whole(503, b"<html>Bad Gateway</html>")),
    "garbage": says(whole(200, b"\x00\xff {]")),
    "forbidden": says(whole(403, b'{"message": "forbidden"}')),
    "conflict": says(whole(409, b'{"message": "the object has been modified"}')),
}


class FailsFirst:
    """Fails the first request of each kind.

    Args:
        fault: how.
    """

    def __init__(self, fault: Fault) -> None:
        self._met: set[str] = set()
        self._fault = fault

    def counted(self, part: str) -> int:
        """Tell how many kinds of requests have failed whose name has this part."""
        return sum(part in kind for kind in self._met)

    def __call__(self, client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        kind = _kind(fetch.args[0])  # type: ignore[attr-defined]
        if kind in self._met:
            return passes(client, fetch)
        self._met.add(kind)
        return self._fault(client, fetch)


def _kind(seen: Seen) -> str:
    """Name a request: its verb and path, and which step it writes down."""
    path = seen.path.partition("?")[0]
    text = seen.body.decode()
    step = ""
    if "ledger.json" in text:
        entries = json.loads(json.loads(text)["data"]["ledger.json"])["entries"]
        step = " ".join(f"{entry['state']} {bool(entry['called_at'])} {entry['accepted']}" for entry in entries)
    return f"{seen.verb} {path} {step}"
