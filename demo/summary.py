"""What the tour has shown, in figures, and where to read on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from demo.screen import Screen

_LINKS: Final = (
    ("next", "make demo-cluster: the same with Nodes, on a real Kubernetes API server"),
    ("how it works", "docs/how-it-works.md"),
    ("install it", "docs/install-eks.md; docs/README.md lists the other ways, and all else"),
)


@dataclasses.dataclass(kw_only=True)
class Facts:
    """What was measured; all times are seconds after the line.

    Args:
        read: records of the kernel log.
        lost: records that could not be read.
        traps: lines that look like a fault and are none.
        hang_seconds: to the metric of the hang.
        metric_seconds: to the metric of the dead chip.
        confirmed_seconds: until recovery was sure.
        held_seconds: for how long the budget kept recovery from acting.
        marked_seconds: to SetInstanceHealth.
        replaced_seconds: until the replacement was in service.
        calls: to AWS in all.
        marks: of them SetInstanceHealth.
        refused: what was not done at all.
        waits: what had to wait, and why.
    """

    read: int = 0
    lost: int = 0
    traps: int = 0
    hang_seconds: float = 0.0
    metric_seconds: float = 0.0
    confirmed_seconds: float = 0.0
    held_seconds: float = 0.0
    marked_seconds: float = 0.0
    replaced_seconds: float = 0.0
    calls: int = 0
    marks: int = 0
    refused: str = ""
    waits: list[str] = dataclasses.field(default_factory=list)


def summary(screen: Screen, facts: Facts) -> None:
    """Write the figures, and where to read on."""
    screen.title("")
    screen.title(f"What you have seen in {screen.seconds():.0f} s")
    screen.pair("read", f"{facts.read:,} lines, {facts.lost} lost; {facts.traps} looked like a fault and were none")
    screen.pair(
        "detected", f"line to metric: {_ms(facts.hang_seconds)} (hang), {_ms(facts.metric_seconds)} (dead chip)"
    )
    screen.pair("refused", facts.refused)
    for wait in facts.waits:
        screen.pair("waited", wait)
    screen.pair(
        "given away",
        f"{facts.marked_seconds:.1f} s after the line: {facts.confirmed_seconds:.1f} s to be sure,"
        f" {facts.held_seconds:.1f} s held by the budget",
    )
    screen.pair("replaced", f"{facts.replaced_seconds:.1f} s after the line a new machine is in service")
    screen.pair("AWS", f"{facts.calls} calls, {facts.marks} of them SetInstanceHealth")
    screen.title("")
    for name, text in _LINKS:
        screen.pair(name, text)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
