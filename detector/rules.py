"""Rule files: read, validated, tried on their own examples, and put together. Pure.

A rule set that loads is one that works: each example goes through the exact way and through the joined one. Must never
load half a file.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from detector.lines import read_line
from detector.matcher import Matcher
from detector.model import ConditionDefault, Examples, Metadata, Rule, RuleSet, Threshold
from detector.npd import NpdError
from detector.npd import load as load_npd
from detector.parse import to_record
from detector.patterns import PatternError, compile_one
from runtime.documents import DocumentError, load_yaml
from runtime.durations import decode_hook
from runtime.vocabulary import Action, ClearsOn, Facility, FaultClass

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_MESSAGE = 1024  # of a condition
_LONGEST_QUOTE = 200  # of a pattern or example in a refusal
_LONGEST_REFUSAL = 600
_PLACE = re.compile(r"`\$(?:\.(?P<list>rules|conditions)\[(?P<number>\d+)\])?(?P<rest>[^`]*)`$")
# What is allowed where msgspec only says what is not.
_ALLOWED_VALUES: dict[str, Sequence[str]] = {
    "apiVersion": ["chipwarden.io/v1"],
    "kind": ["RuleSet"],
    "faultClass": list(FaultClass),
    "action": list(Action),
    "clearsOn": list(ClearsOn),
    "facilities": list(Facility),
}
_ALLOWED_KEYS = {
    "": RuleSet,
    "metadata": Metadata,
    "conditions": ConditionDefault,
    "rules": Rule,
    "threshold": Threshold,
    "examples": Examples,
}
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
    document: Any = None
    try:
        document = _document(text)
        rule_set = _rule_set(document, text, origin)
        _check_conditions(rule_set)
        _check_rules(rule_set)
        _check_examples(rule_set)
    except msgspec.ValidationError as error:
        raise RulesError(f"{origin}: {_short(_explained(str(error), document))}") from error
    except (DocumentError, NpdError, PatternError, RulesError) as error:
        raise RulesError(f"{origin}: {_short(str(error))}") from error
    return rule_set


def _document(text: bytes) -> Any:
    """Read YAML; a file of node-problem-detector as JSON, whose escapes YAML does not all know."""
    if text.lstrip().startswith(b"{"):
        with contextlib.suppress(msgspec.DecodeError):
            document = msgspec.json.decode(text)
            if _is_npd(document):
                return document
    return load_yaml(text)


def _is_npd(document: Any) -> bool:
    return isinstance(document, dict) and "plugin" in document and "apiVersion" not in document


def _rule_set(document: Any, text: bytes, origin: str) -> RuleSet:
    if document is None:
        raise RulesError("it is empty (wanted: a RuleSet, or a file of node-problem-detector)")
    if _is_npd(document):
        return load_npd(text, origin)
    return msgspec.convert(document, RuleSet, dec_hook=decode_hook)


def combine(rule_sets: tuple[RuleSet, ...]) -> Catalog:
    """Put rule sets together.

    Raises:
        RulesError: two sets disagree about a condition or a reason, bear the same name, or are too much together.
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
    if len(rule_sets) > 1:  # each by itself was compiled when it was loaded
        _check_memory(rule_sets)
    return Catalog(rule_sets=rule_sets, conditions=tuple(conditions.values()), rules=tuple(rules.values()))


def _check_memory(rule_sets: tuple[RuleSet, ...]) -> None:
    try:
        Matcher(rule_sets)
    except PatternError as error:
        raise RulesError(f"rule sets {', '.join(each.name for each in rule_sets)}: {error}; load fewer") from error


def _meaning(rule: Rule) -> tuple[object, ...]:
    return rule.condition, rule.fault_class, rule.action, rule.clears_on, rule.threshold


def _explained(error: str, document: Any) -> str:
    """Add to msgspec's words the reason of the rule that is meant, and what is allowed."""
    place = _PLACE.search(error)
    if place is None:
        return error + _allowed(error, "")
    path = [part for part in re.split(r"[.\[\]\d]+", place["rest"]) if part]
    text = error + _allowed(error, path[-1] if path else place["list"] or "")
    if place["list"] != "rules":
        return text
    given = document["rules"][int(place["number"])]
    reason = _quoted(str(given.get("reason") or ""))[1:-1] if isinstance(given, dict) else ""
    return f"rule {place['number']} ({reason or 'without a reason'}): {text}"


def _allowed(error: str, key: str) -> str:
    if error.startswith("Invalid enum value") and key in _ALLOWED_VALUES:
        return f" (allowed: {', '.join(_ALLOWED_VALUES[key])})"
    if error.startswith("Object contains unknown field"):
        return f" (allowed: {', '.join(_ALLOWED_KEYS[key].__struct_encode_fields__)})"
    return ""


def _short(refusal: str) -> str:
    return refusal if len(refusal) <= _LONGEST_REFUSAL else refusal[: _LONGEST_REFUSAL - 3] + "..."


def _check_conditions(rule_set: RuleSet) -> None:
    for kind, times in Counter(default.type for default in rule_set.conditions).items():
        if times > 1:
            raise RulesError(f"condition {kind!r} stands twice")
    for default in rule_set.conditions:
        if len(default.message) > _LONGEST_MESSAGE:
            raise RulesError(f"condition {default.type!r}: its message is longer than {_LONGEST_MESSAGE} characters")


def _check_rules(rule_set: RuleSet) -> None:
    if not rule_set.rules:
        raise RulesError("no rules")
    declared = {default.type: default for default in rule_set.conditions}
    seen: dict[str, Rule] = {}
    for number, rule in enumerate(rule_set.rules):
        where = _where(number, rule)
        if rule.condition is not None and rule.condition not in declared:
            allowed = ", ".join(declared) or "none is declared"
            raise RulesError(f"{where}: condition {rule.condition!r} is not among the file's conditions ({allowed})")
        if rule.threshold.count > 1 and not rule.threshold.window.seconds:
            raise RulesError(f"{where}: a threshold count of {rule.threshold.count} needs a window, such as 10m")
        if _meaning(seen.setdefault(rule.reason, rule)) != _meaning(rule):
            raise RulesError(f"{where}: {_DISAGREE.format(rule.reason)}")
        _check_pattern(rule.pattern, where)
    for number, pattern in enumerate(rule_set.ignore):
        _check_pattern(pattern, f"ignore {number}")


def _where(number: int, rule: Rule) -> str:
    return f"rule {number} ({rule.reason})"


def _check_pattern(pattern: str, where: str) -> None:
    try:
        matches_nothing = compile_one(pattern).search(b"")
    except PatternError as error:
        raise RulesError(f"{where}: pattern {_quoted(pattern)}: {error}") from error
    if matches_nothing:
        raise RulesError(f"{where}: pattern {_quoted(pattern)} matches an empty text, so it would match every record")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "...")


def _check_examples(rule_set: RuleSet) -> None:
    matcher = Matcher([rule_set])
    for number, rule in enumerate(rule_set.rules):
        for example in rule.examples.match:
            if not _matches(matcher, rule, example):
                raise RulesError(f"{_where(number, rule)}: does not match its example {_quoted(example)}")
        for example in rule.examples.no_match:
            if _matches(matcher, rule, example):
                raise RulesError(f"{_where(number, rule)}: matches {_quoted(example)}, which it must not")


def _matches(matcher: Matcher, rule: Rule, example: str) -> bool:
    """Try an example both ways; they can differ only if the loose patterns dismiss what the exact ones find."""
    message = read_line(example.encode("utf-8"))
    if message.facility == 0 and Facility.KERN not in rule.facilities:
        message = msgspec.structs.replace(message, facility=1)
    one_by_one = [finding.rule for finding in matcher.judge(message)]
    joined = [finding.rule for hit in matcher.batch([to_record(message)]) for finding in hit.findings]
    _check_agreement(one_by_one, joined, example)
    return rule in one_by_one


def _check_agreement(one_by_one: list[Rule], joined: list[Rule], example: str) -> None:
    if one_by_one != joined:
        raise RulesError(f"internal: the two ways of matching differ on {_quoted(example)}; please report this file")
