"""Write docs/reference.md from the code: settings, reasons, metrics. `make reference`; a test keeps it true."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from detector.board import Board
from detector.keeper import Keeper
from detector.kmsg import KmsgReader
from detector.rulefiles import load_all
from detector.settings import LAYERS, Settings
from detector.sight import Sight
from detector.statefile import StateFile
from detector.web import Pages
from runtime.clock import SystemClock
from runtime.durations import encode_hook
from runtime.vocabulary import SHIPPED_RULE_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detector.model import Rule

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference.md"


def reference() -> str:
    """Write the whole page."""
    return "\n".join([*_head(), *_settings(), *_reasons(), *_metrics()]) + "\n"


def _head() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "Written by `make reference` from the code; a test fails when it is out of date."
    yield ""


def _settings() -> Iterator[str]:
    yield "## Settings of the detector"
    yield ""
    yield "Defaults < YAML file (`--config`, `CHIPWARDEN_CONFIG`) < environment < flags."
    yield "An empty environment variable counts as not set."
    yield ""
    yield "| key | environment | flag | default | meaning |"
    yield "|---|---|---|---|---|"
    defaults = msgspec.to_builtins(Settings(), enc_hook=encode_hook)
    for field in LAYERS.fields:
        value = defaults[field.key]
        shown = ", ".join(value) if isinstance(value, (list, tuple)) else str(value).lower() if value != "" else ""
        shown = str(value) if isinstance(value, str) else shown
        yield f"| {field.key} | {', '.join(field.env)} | {field.flag} | {shown} | {field.about} |"
    yield ""


def _reasons() -> Iterator[str]:
    for name in SHIPPED_RULE_SETS:
        rule_set = load_all([name]).rule_sets[0]
        yield f"## Rule set {name}"
        yield ""
        yield "| reason | condition | class | action | clears on |"
        yield "|---|---|---|---|---|"
        for rule in {rule.reason: rule for rule in rule_set.rules}.values():
            yield _reason(rule)
        yield ""


def _reason(rule: Rule) -> str:
    if rule.condition is None:
        return f"| {rule.reason} | Event only | | | |"
    return f"| {rule.reason} | {rule.condition} | {rule.fault_class} | {rule.action} | {rule.clears_on} |"


def _metrics() -> Iterator[str]:
    yield "## Metrics of the detector"
    yield ""
    yield "| name | type | meaning |"
    yield "|---|---|---|"
    catalog = load_all(["neuron"])
    source = KmsgReader("/dev/kmsg")
    file = StateFile("/nonexistent")
    board = Board(source=source, sight=Sight(source, SystemClock()), keeper=Keeper(file), boot="", instance=None)
    page = Pages(board, catalog, Settings()).metrics().body.decode()
    abouts = dict(line.split(" ", 3)[2:] for line in page.splitlines() if line.startswith("# HELP"))
    for line in page.splitlines():
        if line.startswith("# TYPE"):
            name, kind = line.split(" ")[2:]
            yield f"| {name} | {kind} | {abouts[name]} |"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
