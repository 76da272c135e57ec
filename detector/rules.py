"""Rule files: read, validated, tried on their own examples, and put together. Pure.

A rule set that loads is one that works: each example goes through the exact way and through the joined one. Must never
load half a file.
"""

from __future__ import annotations

import msgspec

from detector.lines import read_line
from detector.matcher import Matcher
from detector.model import ConditionDefault, Rule, RuleSet
from detector.npd import NpdError
from detector.npd import load as load_npd
from detector.parse import to_record
from detector.patterns import PatternError, compile_one
from runtime.documents import DocumentError, load_yaml
from runtime.durations import decode_hook
from runtime.vocabulary import Facility

_NAMED_BY = "metadata.name; in a node-problem-detector file, source"
_DISAGREE = "rules with reason {!r} disagree (condition, faultClass, action, clearsOn and threshold must be the same)"


class RulesError(ValueError):
    """A rule file is refused; the message names the file, the rule and the reason."""


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """All that is loaded.

    Args:
        rule_sets: in the order given.
        conditions: each condition type once, with what it says while nothing is wrong.
        rules: one rule per reason, in order.
    """

    rule_sets: tuple[RuleSet, ...]
    conditions: tuple[ConditionDefault, ...]
    rules: tuple[Rule, ...]


def load(text: bytes, origin: str) -> RuleSet:
    """Read one rule file: ours in YAML, or node-problem-detector's JSON (no `apiVersion` in it).

    Args:
        text: the file's bytes.
        origin: its name, for messages.

    Raises:
        RulesError: anything is wrong with it.
    """
    try:
        document = load_yaml(text)
        if isinstance(document, dict) and "plugin" in document and "apiVersion" not in document:
            rule_set: RuleSet = load_npd(text, origin)
        else:
            rule_set = msgspec.convert(document, RuleSet, dec_hook=decode_hook)
    except (DocumentError, NpdError, msgspec.ValidationError) as error:
        raise RulesError(f"{origin}: {error}") from error
    _check_rules(rule_set, origin)
    _check_examples(rule_set, origin)
    return rule_set


def combine(rule_sets: tuple[RuleSet, ...]) -> Catalog:
    """Put rule sets together.

    Raises:
        RulesError: two sets disagree about a condition or a reason, or bear the same name.
    """
    names = [rule_set.name for rule_set in rule_sets]
    for name in names:
        if names.count(name) > 1:
            raise RulesError(f"rule set {name!r} is loaded twice; give each file a name of its own ({_NAMED_BY})")
    conditions: dict[str, ConditionDefault] = {}
    rules: dict[str, Rule] = {}
    for rule_set in rule_sets:
        for default in rule_set.conditions:
            if conditions.setdefault(default.type, default) != default:
                raise RulesError(f"rule set {rule_set.name!r}: condition {default.type!r} has other defaults elsewhere")
        for rule in rule_set.rules:
            if _meaning(rules.setdefault(rule.reason, rule)) != _meaning(rule):
                raise RulesError(f"rule set {rule_set.name!r}: {_DISAGREE.format(rule.reason)}")
    return Catalog(rule_sets=rule_sets, conditions=tuple(conditions.values()), rules=tuple(rules.values()))


def _meaning(rule: Rule) -> tuple[object, ...]:
    return rule.condition, rule.fault_class, rule.action, rule.clears_on, rule.threshold


def _check_rules(rule_set: RuleSet, origin: str) -> None:
    declared = [default.type for default in rule_set.conditions]
    if not rule_set.rules:
        raise RulesError(f"{origin}: no rules")
    for twice in {name for name in declared if declared.count(name) > 1}:
        raise RulesError(f"{origin}: condition {twice!r} stands twice")
    seen: dict[str, Rule] = {}
    for number, rule in enumerate(rule_set.rules):
        where = f"{origin}: rule {number} ({rule.reason})"
        if rule.condition is not None and rule.condition not in declared:
            allowed = ", ".join(declared) or "none is declared"
            raise RulesError(f"{where}: condition {rule.condition!r} is not among the file's conditions ({allowed})")
        if rule.threshold.count > 1 and not rule.threshold.window.seconds:
            raise RulesError(f"{where}: a threshold count of {rule.threshold.count} needs a window, such as 10m")
        if _meaning(seen.setdefault(rule.reason, rule)) != _meaning(rule):
            raise RulesError(f"{where}: {_DISAGREE.format(rule.reason)}")
        _check_pattern(rule.pattern, where)
    for number, pattern in enumerate(rule_set.ignore):
        _check_pattern(pattern, f"{origin}: ignore {number}")


def _check_pattern(pattern: str, where: str) -> None:
    try:
        matches_nothing = compile_one(pattern).search(b"")
    except PatternError as error:
        raise RulesError(f"{where}: pattern {pattern!r}: {error}") from error
    if matches_nothing:
        raise RulesError(f"{where}: pattern {pattern!r} matches an empty text, so it would match every record")


def _check_examples(rule_set: RuleSet, origin: str) -> None:
    try:
        matcher = Matcher([rule_set])
    except PatternError as error:
        raise RulesError(f"{origin}: {error}") from error
    for number, rule in enumerate(rule_set.rules):
        where = f"{origin}: rule {number} ({rule.reason})"
        for example in rule.examples.match:
            if not _matches(matcher, rule, example):
                raise RulesError(f"{where}: does not match its example {example!r}")
        for example in rule.examples.no_match:
            if _matches(matcher, rule, example):
                raise RulesError(f"{where}: matches {example!r}, which it must not")


def _matches(matcher: Matcher, rule: Rule, example: str) -> bool:
    """Try an example both ways; they can differ only if the loose patterns dismiss what the exact ones find."""
    message = read_line(example.encode("utf-8"))
    if message.facility == 0 and Facility.KERN not in rule.facilities:
        message = msgspec.structs.replace(message, facility=1)
    one_by_one = [finding.rule for finding in matcher.judge(message)]
    joined = [finding.rule for hit in matcher.batch([to_record(message)]) for finding in hit.findings]
    if one_by_one != joined:
        raise RulesError(f"internal: the two ways of matching differ on {example!r}; please report this rule file")
    return rule in one_by_one
