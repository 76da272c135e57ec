"""What a line says about the device: named groups and the known fields of a Neuron line. Pure.

Fields are somebody's words: they describe a fault, they never change what is done about it.

Source: aws-neuron-sdk neuron-runtime/nrt-troubleshoot.rst, "hardware errors" (read 2026-11-29): `NEURON_HW_ERR=CODE
instance-id=... hostname=... nd-id=... nc-id=... serial-num=... action=...`.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTANCE_ID = "instance-id"
NEURON_FIELDS = (INSTANCE_ID, "hostname", "nd-id", "nc-id", "serial-num", "action")
_MOST_CHARACTERS = 64  # of one value; the longest real one is a host name
NEURON_LINE = b"NEURON_HW_ERR="
# Linear: one literal, then a run without blanks.
_FIELD = re.compile(rb"(?:^|(?<=[\s,;]))(instance-id|hostname|nd-id|nc-id|serial-num|action)=([^\s,;\"']+)")
_WELL_FORMED_ID = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")


@functools.lru_cache(maxsize=64)  # a fault repeats its line; must not be changed by whoever gets it
def neuron_fields(text: bytes) -> Mapping[str, str]:
    """Read the fields that follow the code of a Neuron line, the first of each name; {} for any other line."""
    at = text.find(NEURON_LINE)
    if at < 0:
        return {}
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(text, at):
        fields.setdefault(name.decode("ascii"), printable(value.rstrip(b".")))
    return fields


def said_about(text: bytes, start: int, end: int) -> bytes:
    """Cut out of a text with several Neuron codes what is said about one of them: the last that a match reaches.

    Args:
        text: one record's text, or several joined.
        start: where a code may stand at the earliest; those before it may speak about another device.
        end: where the match ends.
    """
    code = text.rfind(NEURON_LINE, start, end)
    if code < 0:
        return text[start:]
    following = text.find(NEURON_LINE, code + 1)
    return text[code:] if following < 0 else text[code:following]


def named_groups(groups: Mapping[Any, bytes | None]) -> dict[str, str]:
    """Turn the named groups of a match into details; a group that took no part is left out.

    Args:
        groups: as google-re2 gives them, whose keys are bytes where the pattern was bytes.
    """
    return {
        name.decode("latin-1") if isinstance(name, bytes) else name: printable(value)
        for name, value in groups.items()
        if value
    }


def is_foreign(details: Mapping[str, str], instance: str | None) -> bool:
    """Tell whether the line speaks about another instance than this one.

    A line without an id, with a malformed one, or read while our own id is unknown is not foreign: dropping it could
    hide a fault of this node. Nor is one whose id differs only because an operator wrote ours in capitals.
    """
    named = details.get(INSTANCE_ID)
    return bool(instance and named and _WELL_FORMED_ID.fullmatch(named) and named != instance.lower())


def printable(value: bytes, most: int = _MOST_CHARACTERS) -> str:
    """Make a short, printable, one-line text of bytes that anybody may have written.

    Args:
        value: the bytes.
        most: how many characters to keep.
    """
    text = value[: 4 * most].decode("utf-8", "replace")
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "?" for c in text)
    return text[:most]
