r"""Metrics in Prometheus' text format.

Hand-written, for two reasons: client_python renames `problem_counter` to `problem_counter_total`, which existing
dashboards and alerts do not find, and it costs 14 MB on every node (docs/benchmarks.md). The pages are checked with
promtool and a real Prometheus in the tests.

Source: prometheus.io/docs/instrumenting/exposition_formats, text format 0.0.4 (read 2026-11-29).
"""

from __future__ import annotations

import bisect
import itertools
import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Sample(NamedTuple):
    """One value.

    Args:
        labels: names to values, any text.
        value: the number.
        suffix: what follows the family's name, as `_bucket`.
    """

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of one name; an empty family is shown with its type and help."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    about: str
    samples: Sequence[Sample]


def single(name: str, kind: Literal["gauge", "counter"], about: str, value: float) -> Family:
    """Make a family of one sample without labels."""
    return Family(name, kind, about, [Sample({}, value)])


class Histogram:
    """Counts observations in buckets.

    Args:
        bounds: upper bounds, ascending, without +Inf.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, about: str) -> Family:
        """Show the buckets, cumulated, with sum and count."""
        totals = list(itertools.accumulate(self._counts))
        bounds = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        samples = [Sample({"le": bound}, total, "_bucket") for bound, total in zip(bounds, totals, strict=True)]
        return Family(
            name, "histogram", about, [*samples, Sample({}, self._sum, "_sum"), Sample({}, totals[-1], "_count")]
        )


def render(families: Iterable[Family]) -> bytes:
    """Write the page."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.about.translate(_HELP_ESCAPES)}\n")
        lines.append(f"# TYPE {family.name} {family.kind}\n")
        for labels, value, suffix in family.samples:
            inside = ",".join(f'{name}="{text.translate(_LABEL_ESCAPES)}"' for name, text in labels.items())
            braces = f"{{{inside}}}" if inside else ""
            lines.append(f"{family.name}{suffix}{braces} {_number(value)}\n")
    return "".join(lines).encode("utf-8", "replace")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
