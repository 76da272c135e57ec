"""`rules check`: whether rule files load, work on their own examples, and stay quick on hostile text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from detector.hostile import SLOWEST_MS_PER_KB, milliseconds_per_kb
from detector.rulefiles import read
from detector.rules import RulesError, combine, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detector.model import RuleSet


class Checked(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is said about one file that is fine."""

    file: str
    rule_set: str
    rules: int
    conditions: list[str]
    examples: int
    hostile_ms_per_kb: float


def check(files: Sequence[str], *, as_json: bool) -> None:
    """Check rule files, one by one and together, and print what is in them.

    Raises:
        RulesError: one is refused; the message names file, rule and reason.
    """
    rule_sets = []
    for name in files:
        rule_set = load(read(name), name)
        rule_sets.append(rule_set)
        checked = _checked(name, rule_set)
        print(msgspec.json.encode(checked).decode() if as_json else _row(checked))
    combine(tuple(rule_sets))


def _checked(name: str, rule_set: RuleSet) -> Checked:
    slowest = milliseconds_per_kb(rule_set)
    if slowest > SLOWEST_MS_PER_KB:
        raise RulesError(
            f"{name}: a hostile text keeps the patterns busy for {slowest:.1f} ms per KB "
            f"(allowed: {SLOWEST_MS_PER_KB:g}); look for repeated `.*` and large counts such as {{1,1000}}"
        )
    return Checked(
        file=name,
        rule_set=rule_set.name,
        rules=len(rule_set.rules),
        conditions=[default.type for default in rule_set.conditions],
        examples=sum(len(rule.examples.match) + len(rule.examples.no_match) for rule in rule_set.rules),
        hostile_ms_per_kb=round(slowest, 3),
    )


def _row(checked: Checked) -> str:
    conditions = ", ".join(checked.conditions) or "no condition"
    return (
        f"{checked.file}: ok, {checked.rules} rules ({conditions}), {checked.examples} examples, "
        f"{checked.hostile_ms_per_kb} ms per KB of hostile text"
    )
