"""Shapes and numbers for tools/picture.py: writes SVG by hand, for no drawing library is worth a dependency here."""

from __future__ import annotations

import html
import math
from typing import Final

COLORS: Final = {
    "green": "#3f8f4f",
    "orange": "#d9822b",
    "red": "#c93a3a",
    "blue": "#3871c1",
    "text": "#6b7280",
}
PALETTE: Final = ("#3871c1", "#d9822b", "#3f8f4f", "#8f5bbd", "#c93a3a", "#2f9c95", "#b8860b", "#c2588f", "#6b7280")
INK, FAINT, RULE = "#1f2933", "#6b7280", "#e3e7ec"
_WIDTHS: Final = {
    "i": 0.3,
    "l": 0.3,
    "j": 0.3,
    ".": 0.32,
    ",": 0.32,
    " ": 0.32,
    "m": 0.9,
    "w": 0.8,
    "M": 0.9,
    "W": 0.98,
}
_MINUTE, _HOUR, _THOUSAND = 60, 3600, 1000


class Canvas:
    """A picture.

    Args:
        width: in pixels.
        height: in pixels.
    """

    def __init__(self, width: float, height: float) -> None:
        fonts = "Inter, Helvetica, Arial, 'DejaVu Sans', sans-serif"
        size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        self._parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{fonts}" font-size="12">']
        self.box(0, 0, width, height, fill="#f4f5f7")

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: str, rule: str = "", round_: int = 0
    ) -> None:
        """Draw a rectangle."""
        edge = f' stroke="{rule}"' if rule else ""
        corner = f' rx="{round_}"' if round_ else ""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" '
            f'fill="{fill}"{edge}{corner}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 12,
        fill: str = INK,
        anchor: str = "start",
        bold: bool = False,
        room: float | None = None,
    ) -> None:
        """Write a line; `y` is its base.

        Args:
            x: of its start, middle or end, as `anchor` says.
            y: of its base.
            text: cut off where the room ends.
            size: of the letters.
            fill: colour.
            anchor: start, middle or end.
            bold: so.
            room: in pixels; None = as much as it needs.
        """
        if room is not None:
            text = cut(text, room, size)
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{weight}>'
            f"{html.escape(text, quote=False)}</text>"
        )

    def line(self, points: list[tuple[float, float]], *, stroke: str, width: float = 1.0) -> None:
        """Draw a line through these points."""
        self._parts.append(f'<path d="{_path(points)}" fill="none" stroke="{stroke}" stroke-width="{width:g}"/>')

    def area(self, points: list[tuple[float, float]], *, fill: str, opacity: float) -> None:
        """Fill what these points surround."""
        self._parts.append(f'<path d="{_path(points)}Z" fill="{fill}" fill-opacity="{opacity:g}"/>')

    def done(self) -> str:
        """Give the file's text."""
        return "\n".join([*self._parts, "</svg>", ""])


def _path(points: list[tuple[float, float]]) -> str:
    """Write a path, without the points that lie within a straight line along an axis."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if len(kept) > 1 and (kept[-2][0] == kept[-1][0] == point[0] or kept[-2][1] == kept[-1][1] == point[1]):
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in kept)


def measured(text: str, size: int) -> float:
    """Tell about how wide a text is, in pixels."""
    return sum(_WIDTHS.get(char, 0.7 if char.isupper() else 0.6) for char in text) * size


def cut(text: str, room: float, size: int) -> str:
    """Cut a text off where the room ends."""
    if measured(text, size) <= room:
        return text
    while text and measured(text + "…", size) > room:
        text = text[:-1]
    return text + "…"


def number(value: float, unit: str = "short", decimals: int | None = None) -> str:
    """Write a value as a person reads it.

    Args:
        value: what.
        unit: as Grafana names it: short, s, cps.
        decimals: None = as many as it takes.
    """
    if unit == "s":
        return _seconds(value)
    if abs(value) >= _THOUSAND:
        text = f"{value / 1000:.3g} K"
    elif decimals is not None:
        text = f"{value:.{decimals}f}"
    else:
        text = f"{value:.3g}"
    return text + (" c/s" if unit == "cps" else "")


def _seconds(value: float) -> str:
    if value == 0:
        return "0 s"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    if value < _MINUTE:
        return f"{value:.3g} s"
    return f"{value / _MINUTE:.3g} min" if value < _HOUR else f"{value / _HOUR:.3g} h"


def ticks(top: float, about: int, unit: str, *, whole: bool = False) -> list[float]:
    """Choose round values from 0 up to `top` or just beyond; `whole` = only whole numbers."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / about
    if unit == "s" and top > _MINUTE:
        step = next((step for step in (30, 60, 120, 300, 600, 900, 1800, 3600) if step >= rough), 3600.0)
    else:
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
        step = max(step, 1.0) if whole else step
    return [step * count for count in range(math.ceil(top / step - 1e-9) + 1)]
