"""Requests to the API server as the ports want them: typed answers, long lists in parts, one error.

An edge. Must not retry and must not interpret: a refusal keeps its kind, everything else is an unknown outcome.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from recovery.ports import PortError
from runtime.rest import JSON, READ_SECONDS, Rest, RestError

if TYPE_CHECKING:
    from collections.abc import Iterator

_Kind = TypeVar("_Kind")
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_FORBIDDEN: Final = 403
_INVALID: Final = 422
# nodes "a" is forbidden: User "system:serviceaccount:x:y" cannot get resource "nodes" in API group "" at ...
_LACKS: Final = re.compile(r'cannot (\w+) resource "([^"]+)"')
_REFUSALS: Final = frozenset({400, _FORBIDDEN, _NOT_FOUND, 405, 406, _CONFLICT, 410, 413, 415, _INVALID})
_OTHER_UID: Final = "metadata.uid: Invalid value"
LIST_SECONDS: Final = 60.0
_MOST_PARTS: Final = 1000


class _ListMeta(msgspec.Struct, frozen=True):
    next: str | None = msgspec.field(default=None, name="continue")


class _Part(msgspec.Struct, Generic[_Kind]):
    items: tuple[_Kind, ...] | None = None
    metadata: _ListMeta = _ListMeta()


def port_error(error: RestError) -> PortError:
    """Translate an error of the transport.

    A 403 may come from RBAC, an admission webhook or a namespace that is being deleted: only RBAC's means that a right
    is lacking, and it names the right. A patch with the UID of an object that is no more is refused with 422, since a
    UID cannot be changed.

    Source: k8s.io/apiserver v0.36.3, pkg/endpoints/handlers/responsewriters/errors.go (read 2026-11-29).
    """
    lacks = _LACKS.search(str(error)) if error.status == _FORBIDDEN else None
    return PortError(
        str(error),
        denied=" ".join(lacks.groups()) if lacks else None,
        conflict=error.status == _CONFLICT or (error.status == _INVALID and _OTHER_UID in str(error)),
        gone=error.status == _NOT_FOUND,
        answered=error.status in _REFUSALS,
    )


def ask(
    rest: Rest,
    verb: str,
    path: str,
    *,
    body: object = None,
    content_type: str = JSON,
    read_seconds: float = READ_SECONDS,
) -> bytes:
    """Send one request; arguments as `Rest.request` takes them.

    Raises:
        PortError: anything but a 2xx answer.
    """
    try:
        return rest.request(verb, path, body=body, content_type=content_type, read_seconds=read_seconds)
    except RestError as error:
        raise port_error(error) from error


def decode(path: str, text: bytes, kind: type[_Kind]) -> _Kind:
    """Decode an answer.

    Raises:
        PortError: it is not what was asked for.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PortError(f"{path}: not what was asked for: {error}", answered=True) from error


def get(rest: Rest, path: str, kind: type[_Kind]) -> _Kind:
    """Read an object.

    Raises:
        PortError: it cannot be read, or is not what was asked for.
    """
    return decode(path, ask(rest, "GET", path), kind)


def listed(rest: Rest, path: str, kind: type[_Kind], *, part: int, seconds: float = LIST_SECONDS) -> Iterator[_Kind]:
    """Yield the objects of a list; only one part of it is in memory at a time.

    Args:
        rest: the API server.
        path: with or without a query.
        kind: of one object.
        part: how many objects are asked for at once.
        seconds: how long all of it may take.

    Raises:
        PortError: it cannot be read to its end in that time.
    """
    deadline = time.monotonic() + seconds
    query = f"{path}{'&' if '?' in path else '?'}limit={part}"
    more = ""
    for _ in range(_MOST_PARTS):
        answer = get(rest, query + more, _Part[kind])  # type: ignore[valid-type] # mypy knows no type made at run time
        yield from answer.items or ()
        if not answer.metadata.next:
            return
        if time.monotonic() > deadline:
            break
        more = f"&continue={quote(answer.metadata.next, safe='')}"
    raise PortError(f"GET {path}: a list without end")
