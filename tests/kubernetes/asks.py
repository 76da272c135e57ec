"""Requests to an API server as one account, with the bare answer: what the server says, not what a client makes of it.

It must not judge: a refusal is an answer like any other.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kubernetes.client import Client

STRATEGIC = "application/strategic-merge-patch+json"
_NODE_CLAIM = "authentication.kubernetes.io/node-name"
_SECONDS = 10.0


class Answer(NamedTuple):
    """What came back.

    Args:
        code: HTTP status.
        text: message of a refusal; "" if it was done.
        body: the decoded answer.
    """

    code: int
    text: str
    body: Any


class Asker:
    """An account that asks.

    Args:
        plane: the API server.
        headers: that say who asks.
    """

    def __init__(self, plane: Client, headers: Mapping[str, str]) -> None:
        self._address = plane.url.removeprefix("https://")
        self._context = ssl.create_default_context(cafile=plane.authority)
        self._headers = headers

    def ask(self, verb: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """Ask for something and return what was answered."""
        headers = {**self._headers, "Accept": "application/json", "Content-Type": content_type}
        encoded = None if body is None else json.dumps(body)
        connection = http.client.HTTPSConnection(self._address, timeout=_SECONDS, context=self._context)
        with contextlib.closing(connection):
            connection.request(verb, path, body=encoded, headers=headers)
            answer = connection.getresponse()
            decoded = json.loads(answer.read())
        refused = answer.status >= http.HTTPStatus.BAD_REQUEST
        return Answer(answer.status, str(decoded.get("message")) if refused else "", decoded)

    def patch(self, path: str, body: Any, *, tries: bool = False) -> Answer:
        """Send a strategic merge patch.

        Args:
            path: of the object or its subresource.
            body: the patch.
            tries: the server judges it, and changes nothing.
        """
        return self.ask("PATCH", f"{path}?dryRun=All" if tries else path, body, content_type=STRATEGIC)


def holder(plane: Client, token: str) -> Asker:
    """Ask as whoever holds a token."""
    return Asker(plane, {"Authorization": f"Bearer {token}"})


def almighty(plane: Client, user: str, *, node: str | None = None, group: str = "system:masters") -> Asker:
    """Ask under any user name with every right there is, so that only admission can refuse.

    Args:
        plane: the API server.
        user: full name.
        node: whose name its token would carry; None = it is not bound.
        group: another one has that group's rights only.
    """
    headers = {"Authorization": f"Bearer {plane.admin_token}", "Impersonate-User": user, "Impersonate-Group": group}
    if node is not None:
        headers[f"Impersonate-Extra-{quote(_NODE_CLAIM, safe='')}"] = node
    return Asker(plane, headers)
