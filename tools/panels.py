"""Draws a dashboard's panels, each kind in one function, from what its own queries gave.

Must not know what a panel is about. Kinds and options are Grafana's, as far as our dashboards use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools.charts import PAD, TITLE, timeline, timeseries
from tools.svg import COLORS, FAINT, INK, RULE, Canvas, measured, number

if TYPE_CHECKING:
    from tools.charts import Frame, Line

_ROW: Final = 22.0
_LARGEST, _SMALLEST = 40, 14  # letters of a single value
_BOLD: Final = 1.15  # how much wider
_LONG_AGO_MINUTES: Final = 90


def panel(canvas: Canvas, spec: dict[str, Any], lines: list[Line], frame: Frame) -> None:
    """Draw one panel."""
    if spec["type"] == "row":
        canvas.text(frame.x + 4, frame.y + 21, spec["title"], size=14, bold=True)
        return
    canvas.box(frame.x, frame.y, frame.width, frame.height, fill="#ffffff", rule=RULE, round_=3)
    if spec["type"] != "stat":
        canvas.text(frame.x + PAD, frame.y + 18, spec["title"], size=13, bold=True, room=frame.width - 2 * PAD)
    _KINDS[spec["type"]](canvas, spec, lines, frame)


def _stat(canvas: Canvas, spec: dict[str, Any], lines: list[Line], frame: Frame) -> None:
    defaults = spec["fieldConfig"]["defaults"]
    text, color = defaults.get("noValue", "-"), COLORS["text"]
    if lines:
        value = lines[0].points[-1][1]
        text = lines[0].name if spec["options"]["textMode"] == "name" else _said(defaults, value)
        color = _color(defaults, value)
    canvas.box(frame.x, frame.y, frame.width, frame.height, fill=color, round_=3)
    canvas.text(frame.x + PAD, frame.y + 18, spec["title"], size=13, fill="#ffffff", bold=True, room=frame.width - PAD)
    size = _LARGEST
    while size > _SMALLEST and measured(text, size) * _BOLD > frame.width - 2 * PAD:
        size -= 1
    middle = frame.y + 18 + (frame.height - 18) / 2 + size * 0.36
    canvas.text(frame.x + frame.width / 2, middle, text, size=size, fill="#ffffff", anchor="middle", bold=True)


def _said(defaults: dict[str, Any], value: float) -> str:
    for mapping in defaults.get("mappings", ()):
        if f"{value:g}" in mapping["options"]:
            return str(mapping["options"][f"{value:g}"]["text"])
    return number(value, defaults.get("unit", "short"), defaults.get("decimals"))


def _color(defaults: dict[str, Any], value: float) -> str:
    color = "text"
    for step in defaults["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            color = step["color"]
    return COLORS[color]


def _table(canvas: Canvas, spec: dict[str, Any], lines: list[Line], frame: Frame) -> None:
    organize = spec["transformations"][-1]["options"]
    hidden = {name for name, is_hidden in organize["excludeByName"].items() if is_hidden}
    keys = [
        key for key in sorted(organize["indexByName"], key=organize["indexByName"].__getitem__) if key not in hidden
    ]
    names = [organize["renameByName"].get(key, key) for key in keys]
    units = {
        override["matcher"]["options"]: each["value"]
        for override in spec["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "unit"
    }
    rows = [
        [
            _cell(line.points[-1][1], units.get(name, "short"), frame.end)
            if key == "Value"
            else line.labels.get(key, "")
            for key, name in zip(keys, names, strict=True)
        ]
        for line in lines
    ]
    widths = _widths(names, rows, frame.width - 2 * PAD)
    y = frame.y + TITLE + 14
    if not rows:
        none = spec["fieldConfig"]["defaults"].get("noValue", "")
        canvas.text(frame.x + frame.width / 2, frame.y + frame.height / 2, none, fill=FAINT, anchor="middle")
        return
    for number_, row in enumerate([names, *rows][: int((frame.height - TITLE) / _ROW)]):
        x = frame.x + PAD
        for text, width in zip(row, widths, strict=True):
            canvas.text(x, y, text, fill=INK if number_ else FAINT, room=width - 8)
            x += width
        canvas.line([(frame.x + PAD, y + 6.5), (frame.x + frame.width - PAD, y + 6.5)], stroke=RULE)
        y += _ROW


def _cell(value: float, unit: str, now: float) -> str:
    if unit != "dateTimeFromNow":
        return number(value, unit)
    minutes = (now - value / 1000) / 60
    return (
        "just now"
        if minutes < 1
        else f"{minutes:.0f} min ago"
        if minutes < _LONG_AGO_MINUTES
        else f"{minutes / 60:.1f} h ago"
    )


def _widths(names: list[str], rows: list[list[str]], room: float) -> list[float]:
    """Share the room out as the columns need it."""
    needs = [max(measured(text, 12) for text in column) + 14 for column in zip(names, *rows, strict=True)]
    return [need * room / sum(needs) for need in needs]


def _bargauge(canvas: Canvas, spec: dict[str, Any], lines: list[Line], frame: Frame) -> None:
    defaults = spec["fieldConfig"]["defaults"]
    shown = [(line.name, line.points[-1][1]) for line in lines]
    top = max((value for _, value in shown), default=1.0) or 1.0
    room = max((measured(name, 12) for name, _ in shown), default=0.0) + 10
    height = min(30.0, (frame.height - TITLE - PAD) / max(len(shown), 1))
    for index, (name, value) in enumerate(shown):
        y = frame.y + TITLE + 6 + index * height
        canvas.text(frame.x + PAD, y + height / 2 + 2, name)
        width = (frame.width - 2 * PAD - room - 60) * value / top
        canvas.box(frame.x + PAD + room, y, max(width, 2), height - 6, fill=_color(defaults, value))
        text = number(value, defaults.get("unit", "short"))
        canvas.text(frame.x + PAD + room + max(width, 2) + 6, y + height / 2 + 2, text)


_KINDS: Final = {
    "stat": _stat,
    "table": _table,
    "timeseries": timeseries,
    "bargauge": _bargauge,
    "state-timeline": timeline,
}
