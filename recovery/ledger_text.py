"""The ledger as text: read strictly, written small enough to fit into a ConfigMap; pure.

What cannot be read whole is refused, never mended: an entry that is lost is a machine that is ended twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from recovery.model import Entry, LedgerBody, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = 1
# Beyond this nothing is admitted: a ConfigMap holds 1 MiB, and what is open must still fit when it grows.
FULL_BYTES: Final = 700_000
_TRIM_BYTES: Final = FULL_BYTES // 2
_LARGEST_BYTES: Final = 1_000_000  # a ConfigMap holds 1 MiB
_KEPT: Final = timedelta(hours=24)
# The machine is gone, and with it what was added to its Node; a retained or superseded one may still have its fence.
_FENCE_GONE: Final = frozenset({Outcome.REPLACED, Outcome.GONE})


class LedgerTextError(ValueError):
    """The text is no ledger that we know, or the ledger does not fit. It does not mean that there are no entries."""


class _Version(msgspec.Struct):
    v: int


def read(text: bytes | str) -> LedgerBody:
    """Read a ledger.

    Raises:
        LedgerTextError: it is garbage, half of one, or of another version.
    """
    try:
        version = msgspec.json.decode(text, type=_Version).v
        if version != VERSION:
            raise LedgerTextError(f"version {version}, where {VERSION} is known")
        body = msgspec.json.decode(text, type=LedgerBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LedgerTextError(str(error)) from error
    if any(at.tzinfo is None for at in _times(body)):
        raise LedgerTextError("a time in it has no zone")
    if len({entry.id for entry in body.entries}) < len(body.entries):
        raise LedgerTextError("two entries in it have the same id")
    return body


def write(body: LedgerBody, now: datetime) -> bytes:
    """Write a ledger, without its oldest closed entries if it has become large.

    Raises:
        LedgerTextError: it does not fit all the same.
    """
    text = msgspec.json.encode(body)
    if len(text) > _TRIM_BYTES:
        text = msgspec.json.encode(trimmed(body, now, _TRIM_BYTES))
    if len(text) > _LARGEST_BYTES:
        raise LedgerTextError(f"{len(text)} bytes, where {_LARGEST_BYTES} fit")
    return text


def size(body: LedgerBody) -> int:
    """Tell how many bytes a ledger takes."""
    return len(msgspec.json.encode(body))


def trimmed(body: LedgerBody, now: datetime, at_most: int) -> LedgerBody:
    """Drop closed entries, the oldest first, until the ledger fits or no entry is left that may be dropped.

    Open entries, those that ended less than 24 h ago, and those with a fence still to be lifted are always kept.

    Args:
        body: the ledger.
        now: the time.
        at_most: bytes.
    """
    surplus = size(body) - at_most
    dropped: set[str] = set()
    over = [(entry.ended_at, entry) for entry in body.entries if entry.ended_at is not None and _may_go(entry)]
    for ended_at, entry in sorted(over, key=lambda each: each[0]):
        if surplus <= 0 or now - ended_at < _KEPT:
            break
        surplus -= len(msgspec.json.encode(entry)) + 1
        dropped.add(entry.id)
    kept = tuple(entry for entry in body.entries if entry.id not in dropped)
    return msgspec.structs.replace(body, entries=kept)


def _may_go(entry: Entry) -> bool:
    return entry.outcome is not None and (not entry.added or entry.outcome in _FENCE_GONE)


def _times(body: LedgerBody) -> Iterator[datetime]:
    for field in msgspec.structs.astuple(body):
        yield from (value for value in field.values() if isinstance(value, datetime)) if isinstance(field, dict) else ()
    for entry in body.entries:
        yield from (value for value in msgspec.structs.astuple(entry) if isinstance(value, datetime))
