"""Draws what has a time axis: lines, bars and states; for tools/panels.py."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tools.svg import COLORS, FAINT, PALETTE, RULE, cut, measured, number, ticks

if TYPE_CHECKING:
    from tools.svg import Canvas

PAD: Final = 10.0
TITLE: Final = 26.0
_SMALL: Final = 11  # letters of axes and legends
_HOURS_APART: Final = 60.0  # pixels, at least

Points = list[tuple[float, float]]


class Line(NamedTuple):
    """One series.

    Args:
        name: as the legend shows it.
        labels: of the series.
        points: times in Unix seconds, and values.
    """

    name: str
    labels: dict[str, str]
    points: Points


class Frame(NamedTuple):
    """Where a panel is, in pixels, and which time it shows, in Unix seconds."""

    x: float
    y: float
    width: float
    height: float
    start: float
    end: float
    step: float


class _Axes(NamedTuple):
    """Where a chart is within its panel.

    Args:
        frame: what is left of the panel.
        top: the value at its upper end.
    """

    frame: Frame
    top: float

    def across(self, at: float) -> float:
        """Tell where a time is."""
        frame = self.frame
        return frame.x + (at - frame.start) / (frame.end - frame.start) * frame.width

    def up(self, value: float) -> float:
        """Tell where a value is."""
        return self.frame.y + self.frame.height * (1 - value / self.top)


def timeseries(canvas: Canvas, spec: dict[str, Any], lines: list[Line], frame: Frame) -> None:
    """Draw lines, areas or bars, one upon the other if the panel says so."""
    defaults = spec["fieldConfig"]["defaults"]
    custom = defaults["custom"]
    bases = _bases(lines) if custom["stacking"]["mode"] == "normal" else [{} for _ in lines]
    top = max(
        (value + base.get(at, 0.0) for line, base in zip(lines, bases, strict=True) for at, value in line.points),
        default=0.0,
    )
    unit = defaults.get("unit", "short")
    scale = ticks(top, 4, unit, whole=defaults.get("decimals") == 0)
    axes = _axes(canvas, frame, scale, unit, _legend(canvas, lines, frame))
    if not lines:
        canvas.text(frame.x + frame.width / 2, frame.y + frame.height / 2, "no data", fill=FAINT, anchor="middle")
    for index, (line, base) in enumerate(zip(lines, bases, strict=True)):
        color = PALETTE[index % len(PALETTE)]
        for run in _runs(line.points, frame.step):
            lower = [(at, base.get(at, 0.0)) for at, _ in run]
            upper = [(at, value + below) for (at, value), (_, below) in zip(run, lower, strict=True)]
            if custom["drawStyle"] == "bars":
                _bars(canvas, axes, lower, upper, color)
            else:
                _curve(canvas, axes, lower, upper, color=color, custom=custom)


def _bases(lines: list[Line]) -> list[dict[float, float]]:
    """Tell what lies below each line."""
    total: dict[float, float] = {}
    bases = []
    for line in lines:
        bases.append(dict(total))
        for at, value in line.points:
            total[at] = total.get(at, 0.0) + value
    return bases


def _runs(points: Points, step: float) -> list[Points]:
    """Cut a line where samples are missing."""
    runs: list[Points] = []
    for point in points:
        if runs and point[0] - runs[-1][-1][0] <= step * 1.5:
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs


def _bars(canvas: Canvas, axes: _Axes, lower: Points, upper: Points, color: str) -> None:
    frame = axes.frame
    width = frame.step / (frame.end - frame.start) * frame.width
    for (at, below), (_, above) in zip(lower, upper, strict=True):
        if above > below:
            left = max(axes.across(at) - width * 0.9, frame.x)
            canvas.box(left, axes.up(above), width * 0.8, axes.up(below) - axes.up(above), fill=color)


def _curve(canvas: Canvas, axes: _Axes, lower: Points, upper: Points, *, color: str, custom: dict[str, Any]) -> None:
    is_stepped = custom["lineInterpolation"] == "stepAfter"
    edges = [[(axes.across(at), axes.up(value)) for at, value in points] for points in (upper, lower)]
    above, below = map(_steps, edges) if is_stepped else edges
    if custom["fillOpacity"]:
        canvas.area([*above, *reversed(below)], fill=color, opacity=custom["fillOpacity"] / 100)
    canvas.line(above, stroke=color, width=1.4)


def _steps(points: Points) -> Points:
    corners = [corner for before, after in pairwise(points) for corner in (before, (after[0], before[1]))]
    return [*corners, points[-1]]


def _axes(canvas: Canvas, frame: Frame, scale: list[float], unit: str, legend: float) -> _Axes:
    """Draw both axes, and give the place between them."""
    texts = [number(tick, unit) for tick in scale]
    left = frame.x + PAD + max(measured(text, _SMALL) for text in texts) + 6
    width, height = frame.x + frame.width - PAD - left, frame.height - TITLE - 32 - legend
    axes = _Axes(frame._replace(x=left, y=frame.y + TITLE + 8, width=width, height=height), scale[-1])
    for tick, text in zip(scale, texts, strict=True):
        y = axes.up(tick)
        canvas.line([(left, y), (left + width, y)], stroke=RULE)
        canvas.text(left - 6, y + 4, text, size=_SMALL, fill=FAINT, anchor="end")
    _hours(canvas, axes)
    return axes


def _hours(canvas: Canvas, axes: _Axes) -> None:
    frame = axes.frame
    per_second = frame.width / (frame.end - frame.start)
    apart = next(step for step in (600, 900, 1800, 3600) if step * per_second > _HOURS_APART)
    at = frame.start - frame.start % apart + apart
    while at < frame.end - 12 / per_second:  # its end is cut off otherwise
        hour = f"{datetime.fromtimestamp(at, UTC):%H:%M}"
        canvas.text(axes.across(at), frame.y + frame.height + 15, hour, size=_SMALL, fill=FAINT, anchor="middle")
        at += apart


def _legend(canvas: Canvas, lines: list[Line], frame: Frame) -> float:
    """Write the legend at the bottom; return its height."""
    places: list[tuple[float, int, str]] = []
    x, row = 0.0, 0
    for line in lines:
        name = cut(line.name, frame.width - 4 * PAD, _SMALL)
        width = measured(name, _SMALL) + 26
        if x and x + width > frame.width - 2 * PAD:
            x, row = 0.0, row + 1
        places.append((x, row, name))
        x += width
    height = (row + 1) * 15.0 if lines else 0.0
    for index, (at, line_row, name) in enumerate(places):
        y = frame.y + frame.height - height + line_row * 15
        canvas.box(frame.x + PAD + at, y, 12, 4, fill=PALETTE[index % len(PALETTE)])
        canvas.text(frame.x + PAD + at + 16, y + 6, name, size=_SMALL, fill=FAINT)
    return height


def timeline(canvas: Canvas, spec: dict[str, Any], lines: list[Line], frame: Frame) -> None:
    """Draw one bar for each series, coloured by its states."""
    states = spec["fieldConfig"]["defaults"]["mappings"][0]["options"]
    room = min(max((measured(line.name, 12) for line in lines), default=0.0) + 12, frame.width * 0.5)
    place = frame._replace(x=frame.x + PAD + room, width=frame.width - 2 * PAD - room)
    axes = _Axes(place._replace(y=frame.y + TITLE + 4, height=frame.height - TITLE - 44), 1.0)
    height = axes.frame.height / max(len(lines), 1)
    for index, line in enumerate(lines):
        y = axes.frame.y + index * height
        canvas.text(frame.x + PAD, y + height / 2 + 3, line.name, room=room - 6)
        for start, end, value in _spans(line.points, frame.step):
            state = states[f"{value:g}"]
            left, right = axes.across(start), min(axes.across(end), place.x + place.width)
            canvas.box(left, y + 2, right - left, height - 5, fill=COLORS[state["color"]])
            if measured(state["text"], _SMALL) < right - left - 4:
                middle = (left + right) / 2
                canvas.text(middle, y + height / 2 + 3, state["text"], size=_SMALL, fill="#ffffff", anchor="middle")
    _hours(canvas, axes)
    x = frame.x + PAD
    for state in states.values():
        canvas.box(x, frame.y + frame.height - 14, 12, 4, fill=COLORS[state["color"]])
        canvas.text(x + 16, frame.y + frame.height - 8, state["text"], size=_SMALL, fill=FAINT)
        x += measured(state["text"], _SMALL) + 30


def _spans(points: Points, step: float) -> list[tuple[float, float, float]]:
    """Join equal neighbours."""
    spans: list[tuple[float, float, float]] = []
    for at, value in points:
        if spans and spans[-1][2] == value and at - spans[-1][1] <= step / 2:
            spans[-1] = (spans[-1][0], at + step, value)
        else:
            spans.append((at, at + step, value))
    return spans
