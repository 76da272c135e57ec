"""Write docs/reference.md from the code: settings, reasons, metrics. `make reference`; a test keeps it true."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from recovery.board import Board as RecoveryBoard
from recovery.decision import Kind, Why
from recovery.model import Outcome, State
from recovery.policy import Budget, Policy
from recovery.settings import LAYERS as RECOVERY_LAYERS
from recovery.settings import Settings as RecoverySettings
from recovery.web import Pages as RecoveryPages
from runtime.clock import SystemClock
from runtime.durations import encode_hook
from runtime.vocabulary import SHIPPED_RULE_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detector.model import Rule
    from runtime.layers import Layers
    from runtime.pages import Page

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference.md"


def reference() -> str:
    """Write the whole page."""
    parts = [_head(), _settings("the detector", LAYERS, Settings()), _reasons(), _metrics("the detector", _detector())]
    parts += [_settings("recovery", RECOVERY_LAYERS, RecoverySettings()), _keys(), _words()]
    parts += [_metrics("recovery", RecoveryPages(RecoveryBoard(SystemClock())).metrics())]
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _head() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "Written by `make reference` from the code; a test fails when it is out of date."
    yield ""


def _settings(program: str, layers: Layers[Any], defaults: msgspec.Struct) -> Iterator[str]:
    yield f"## Settings of {program}"
    yield ""
    yield "Defaults < YAML file (`--config`, `CHIPWARDEN_CONFIG`) < environment < flags."
    yield "An empty environment variable counts as not set."
    yield ""
    yield "| key | environment | flag | default | meaning |"
    yield "|---|---|---|---|---|"
    values = msgspec.to_builtins(defaults, enc_hook=encode_hook)
    for field in layers.fields:
        if field.env:  # the others are YAML only, and have tables of their own
            shown = _shown(values[field.key])
            yield f"| {field.key} | {', '.join(field.env)} | {field.flag} | {shown} | {field.about} |"
    yield ""


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(value)
    return value if isinstance(value, str) else "" if value is None else str(value).lower()


def _keys() -> Iterator[str]:
    """Write the settings that are in the YAML file only; their meaning is what the code says of them."""
    for title, struct in (("`policies`, each reason, and `default`", Policy), ("`budget`", Budget)):
        yield f"## Keys of {title}"
        yield ""
        yield "In the YAML file only."
        yield ""
        yield "| key | default | meaning |"
        yield "|---|---|---|"
        values = msgspec.to_builtins(struct(), enc_hook=encode_hook)
        abouts = dict(re.findall(r"^    (\w+): ((?:.|\n        )+)", inspect.getdoc(struct) or "", re.MULTILINE))
        for field in msgspec.structs.fields(struct):
            about = " ".join(abouts[field.name].split()).removesuffix(".").replace("None = ", "not set: ")
            yield f"| {field.encode_name} | {_shown(values[field.encode_name])} | {about} |"
        yield ""


def _words() -> Iterator[str]:
    yield "## Words of recovery"
    yield ""
    yield "docs/recovery.md tells what they mean."
    yield ""
    for title, words in (("States", State), ("Outcomes", Outcome), ("Why", Why), ("Kinds of ReplacementBlocked", Kind)):
        yield f"- {title}: {', '.join(f'`{word}`' for word in words)}"
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


def _detector() -> Page:
    source = KmsgReader("/dev/kmsg")
    keeper = Keeper(StateFile("/nonexistent"))
    board = Board(source=source, sight=Sight(source, SystemClock()), keeper=keeper, boot="", instance=None)
    return Pages(board, load_all(["neuron"]), Settings()).metrics()


def _metrics(program: str, page: Page) -> Iterator[str]:
    yield f"## Metrics of {program}"
    yield ""
    yield "| name | type | meaning |"
    yield "|---|---|---|"
    lines = page.body.decode().splitlines()
    abouts = dict(line.split(" ", 3)[2:] for line in lines if line.startswith("# HELP"))
    for line in lines:
        if line.startswith("# TYPE"):
            name, kind = line.split(" ")[2:]
            yield f"| {name} | {kind} | {abouts[name]} |"
    yield ""


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
