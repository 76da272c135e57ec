"""Tables as a terminal shows them; pure. What comes from outside never moves the cursor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP = "  "
_NOTHING = "-"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write columns of equal width; the last one may be as long as it is.

    Args:
        head: of each column.
        rows: as many cells each; "" is shown as a dash.
    """
    lines = [[shown(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(f"{_GAP.join(map(str.ljust, line, widths)).rstrip()}\n" for line in lines)


def when(at: datetime | None, now: datetime) -> str:
    """Write how far away a time is, as `in 4m10s` or `3h12m ago`.

    Args:
        at: None = no time.
        now: aware UTC.
    """
    if at is None:
        return ""
    seconds = round((at - now).total_seconds())
    return f"in {_span(seconds)}" if seconds > 0 else f"{_span(-seconds)} ago"


def clock(at: datetime | None) -> str:
    """Write a time of the day and its date."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def shown(cell: str) -> str:
    """Make text harmless for a terminal; a dash if there is none."""
    text = " ".join(cell.split())
    return "".join(char if char.isprintable() else "?" for char in text) or _NOTHING


def _span(seconds: int) -> str:
    parts = ((seconds // 86_400, "d"), (seconds // 3_600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    given = [f"{count}{unit}" for count, unit in parts if count]
    return "".join(given[:2]) or "0s"
