"""One rule set's verdict: from the patterns that matched to the rules that count. Pure.

Only here is decided who may have written a line, what is too old, what a user can choose, and what is a fallback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detector.details import NEURON_LINE, named_groups, neuron_fields, said_about
from detector.model import Finding, NpdRuleSet
from detector.patterns import compile_one, group_names
from runtime.vocabulary import Facility

if TYPE_CHECKING:
    from collections.abc import Iterable

    from detector.model import KernelMessage, RuleSet

_FACILITIES = {0: Facility.KERN, 1: Facility.USER}


class Judge:
    """A rule set with its patterns compiled one by one.

    Args:
        rule_set: the rules.
        kernel_only: refuse lines written by a person or a test.
        started_us: kernel time of the start of the program, microseconds since boot, from which a set's lookback
            counts back; None = nothing is too old.

    Raises:
        PatternError: RE2 refuses a pattern.
    """

    def __init__(self, rule_set: RuleSet, *, kernel_only: bool, started_us: int | None) -> None:
        self._name = rule_set.name
        self._rules = rule_set.rules
        refused = {Facility.USER} if kernel_only else set()
        self._accepted = [frozenset(rule.facilities) - refused for rule in rule_set.rules]
        self.oldest_us = 0
        if isinstance(rule_set, NpdRuleSet) and started_us is not None:
            self.oldest_us = started_us - round(rule_set.lookback.seconds * 1_000_000)
        self.wanted = [rule.pattern for rule in rule_set.rules]
        self.patterns = [*self.wanted, *rule_set.ignore]
        self._searches = [compile_one(pattern) for pattern in self.patterns]
        self._is_joined = isinstance(rule_set, NpdRuleSet) and rule_set.buffer_lines > 1
        self._has_names = [self._is_joined or bool(group_names(pattern)) for pattern in self.patterns]

    def findings(self, message: KernelMessage, matching: Iterable[int], text: bytes) -> list[Finding]:
        """Decide which of the matching rules count.

        Args:
            message: the newest record.
            matching: numbers of the patterns that match the text, as places in `patterns`.
            text: what the patterns were searched in: the record's text, or several records' texts joined.
        """
        numbers = sorted(matching)
        if not numbers or numbers[-1] >= len(self._rules) or message.timestamp_us < self.oldest_us:
            return []  # nothing, text that a user can choose, or too old
        facility = _FACILITIES.get(message.facility)
        counting = [number for number in numbers if facility in self._accepted[number]]
        plain = [number for number in counting if not self._rules[number].fallback]
        return [self._finding(number, text) for number in plain or counting]

    def _finding(self, number: int, text: bytes) -> Finding:
        needs_match = self._has_names[number] or text.count(NEURON_LINE) > 1
        details = self._details(number, text) if needs_match else dict(neuron_fields(text))
        return Finding(rule=self._rules[number], rule_set=self._name, details=details)

    def _details(self, number: int, text: bytes) -> dict[str, str]:
        match = self._searches[number].search(text)
        start, end = match.span() if match else (0, len(text))
        first = 0
        if self._is_joined:  # records before the one in which the match begins may speak about another device
            first = text.rfind(b"\n", 0, end - len(text[start:end].lstrip(b"\n"))) + 1
        groups = match.groupdict() if match else {}
        return {**neuron_fields(said_about(text, first, end)), **named_groups(groups)}
