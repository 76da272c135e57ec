r"""Bytes of one /dev/kmsg record, as read() returns them, to a KernelMessage. Pure.

Must raise nothing but ParseError, whatever the bytes are.

Source: torvalds/linux Documentation/ABI/testing/dev-kmsg and kernel/printk/printk.c (read 2026-11-29). A record is
`priority,sequence,timestamp,flags[,more];text\n` and then ` KEY=value\n` lines; bytes below 0x20, from 0x7f on and
the backslash are written `\xNN`.
"""

from __future__ import annotations

import re

from detector.model import KernelMessage

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_UNPRINTABLE = re.compile(rb"[^\x20-\x5b\x5d-\x7e]")
_MOST_DIGITS = 20  # of a 64-bit number
_LARGEST_SEQUENCE = 2**64 - 1
_LEAST_FIELDS = 3  # kernels before 3.7 wrote no flags


class ParseError(ValueError):
    """The bytes are no kernel log record. It does not mean that a record was lost: the next one may be fine."""


def parse(record: bytes) -> KernelMessage:
    """Parse one record.

    Args:
        record: the answer of one read(), with or without the final newline.

    Raises:
        ParseError: the header is not `priority,sequence,timestamp[,...];`.
    """
    header, semicolon, rest = record.partition(b";")
    fields = header.split(b",")
    if not semicolon or len(fields) < _LEAST_FIELDS:
        raise ParseError("no header `priority,sequence,timestamp,flags;`")
    priority = _number(fields[0])
    text, _, more = rest.partition(b"\n")
    return KernelMessage(
        facility=priority >> 3,
        level=priority & 7,
        sequence=_number(fields[1]),
        timestamp_us=_number(fields[2]),
        flags=fields[3].decode("latin-1") if len(fields) > _LEAST_FIELDS else "-",
        text=unescape(text),
        dictionary=_dictionary(more) if more else {},
    )


def sequence_of(record: bytes) -> int:
    """Read the sequence number alone, for the reader's count of lost records.

    Raises:
        ParseError: there is none.
    """
    fields = record.split(b",", 2)
    if len(fields) < _LEAST_FIELDS:
        raise ParseError("no sequence number")
    return _number(fields[1])


def unescape(text: bytes) -> bytes:
    r"""Undo the kernel's `\xNN`; a broken escape, as at the end of a cut record, is kept as it is."""
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(lambda escape: bytes((int(escape[1], 16),)), text)


def to_record(message: KernelMessage) -> bytes:
    """Write a message as the kernel would: the inverse of `parse`."""
    header = f"{message.facility << 3 | message.level},{message.sequence},{message.timestamp_us},{message.flags};"
    lines = b"".join(b" %s=%s\n" % (k.encode("latin-1"), escape(v.encode())) for k, v in message.dictionary.items())
    return header.encode("latin-1") + escape(message.text) + b"\n" + lines


def escape(text: bytes) -> bytes:
    r"""Write bytes below 0x20, from 0x7f on, and the backslash as `\xNN`."""
    return _UNPRINTABLE.sub(lambda byte: b"\\x%02x" % byte[0][0], text)


def _number(field: bytes) -> int:
    if not field.isdigit() or len(field) > _MOST_DIGITS or (value := int(field)) > _LARGEST_SEQUENCE:
        raise ParseError(f"{field[:_MOST_DIGITS]!r} is no 64-bit number")
    return value


def _dictionary(lines: bytes) -> dict[str, str]:
    pairs = {}
    for line in lines.split(b"\n"):
        key, equals, value = line.partition(b"=")
        if equals and key.startswith(b" "):
            pairs[key[1:].decode("latin-1")] = unescape(value).decode("utf-8", "replace")
    return pairs
