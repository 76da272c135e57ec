"""Durations as people write them in settings and rule files: `10s`, `5m`, `24h`.

A type of its own, so that no bare number without a unit can pass for one.
"""

from __future__ import annotations

import functools
import re
from typing import Any

_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ALLOWED = "allowed: a number and ms, s, m, h or d, such as 10s, 5m, 24h"
_LONGEST_SECONDS = 1000 * 86400.0
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@functools.total_ordering
class Duration:
    """A span of time; no dataclass, for msgspec would take those for objects with fields.

    Args:
        seconds: its length, never negative.
    """

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = float(seconds)

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read `10s`, `1m30s` or `500ms`.

        Raises:
            ValueError: the text is no duration; the message says what is allowed.
        """
        parts = _WRITTEN.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ValueError(f"{text!r} is not a duration ({_ALLOWED})")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if seconds > _LONGEST_SECONDS:
            raise ValueError(f"{text!r} is too long (allowed: up to 1000d)")
        return cls(seconds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.seconds == other.seconds

    def __lt__(self, other: Duration) -> bool:
        return self.seconds < other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __repr__(self) -> str:
        return f"Duration({self.seconds:g})"

    def __str__(self) -> str:
        for unit in ("d", "h", "m", "s"):
            count = self.seconds / _SECONDS[unit]
            if count >= 1 and count == int(count):
                return f"{int(count)}{unit}"
        milliseconds = f"{self.seconds * 1000:.3f}".rstrip("0").rstrip(".")
        return f"{milliseconds}ms" if self.seconds else "0s"


def decode_hook(wanted: type, value: Any) -> Any:
    """Decode our own types for msgspec: give it as `dec_hook`.

    Raises:
        ValueError: the value is no duration; msgspec adds the path to the message.
        NotImplementedError: a type that is not ours.
    """
    if wanted is Duration:
        if isinstance(value, str):
            return Duration.parse(value)
        raise ValueError(f"{value!r} is not a duration ({_ALLOWED})")
    raise NotImplementedError(f"no decoding is known for {wanted}")


def encode_hook(value: Any) -> Any:
    """Encode our own types for msgspec: give it as `enc_hook`.

    Raises:
        NotImplementedError: a type that is not ours.
    """
    if isinstance(value, Duration):
        return str(value)
    raise NotImplementedError(f"no encoding is known for {type(value)}")
