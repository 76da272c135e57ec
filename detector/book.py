"""The book of active faults: one entry per reason and device, bounded. Pure.

Must never forget a fault to save memory: what does not fit is counted in one further entry of the same reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from detector.model import Fault, device_of
from runtime.vocabulary import Action, ClearsOn, FaultClass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from detector.model import Condition, Finding, Rule

MOST_DEVICES = 128  # entries of one reason: trn2 has 16 devices of 8 cores
MOST_ENTRIES = 512  # faults
MOST_MENTIONED = 256  # entries of temporary problems, which must not take the faults' place
Key = tuple[str, tuple[tuple[str, str], ...]]
_FURTHER: tuple[tuple[str, str], ...] = (("device", "further"),)


class Book:
    """Faults, and the temporary problems mentioned in Events, by reason and device.

    Args:
        rules: the rules loaded, by reason.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        self._faults: dict[Key, Fault] = {}
        self._mentioned: dict[Key, int] = {}
        self._devices: dict[str, int] = {}  # entries by reason
        self._placeholders: set[str] = set()  # reasons adopted, whose devices are not known yet

    def __contains__(self, key: Key) -> bool:
        return key in self._faults

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All active faults, in the order in which they came."""
        return tuple(self._faults.values())

    @property
    def placeholders(self) -> frozenset[str]:
        """The reasons that were adopted and whose lines have not come."""
        return frozenset(self._placeholders)

    def key_of(self, fault: Fault) -> Key:
        """Name the entry that a fault is."""
        return fault.reason, device_of(fault.details)

    def key(self, finding: Finding) -> Key:
        """Name the entry that a finding counts in; with too many devices that is the entry for the further ones."""
        reason = finding.rule.reason
        key = (reason, finding.device)
        if key in self._faults or key in self._mentioned:
            return key
        if finding.rule.condition is None:
            full = len(self._mentioned) >= MOST_MENTIONED
        else:
            full = len(self._faults) >= MOST_ENTRIES
        return (reason, _FURTHER) if full or self._devices.get(reason, 0) >= MOST_DEVICES else key

    def count(self, key: Key, finding: Finding, lines: int, first_at: datetime, last_at: datetime) -> int:
        """Add lines to an entry, made if it is new.

        Returns:
            How many lines the entry counts by now.
        """
        rule = finding.rule
        if rule.condition is None:
            if key not in self._mentioned:
                self._devices[rule.reason] = self._devices.get(rule.reason, 0) + 1
            self._mentioned[key] = self._mentioned.get(key, 0) + lines
            return self._mentioned[key]
        old = self._faults.get(key)
        if old is not None:
            if key == (rule.reason, ()):  # adopted or not: its lines tell no device
                self._placeholders.discard(rule.reason)
            last_at = max(last_at, old.last_at)
            self._faults[key] = msgspec.structs.replace(old, count=old.count + lines, last_at=last_at)
            return old.count + lines
        adopted = self._without_placeholder(rule.reason)
        fault = Fault(
            reason=rule.reason,
            condition=rule.condition,
            fault_class=rule.fault_class,
            action=rule.action,
            clears_on=rule.clears_on,
            count=lines,
            first_at=min(first_at, adopted.first_at) if adopted else first_at,
            last_at=last_at,
            details=dict(_FURTHER) if key[1] == _FURTHER else finding.details,
        )
        self._enter(key, fault)
        return lines

    def restore(self, fault: Fault) -> None:
        """Enter a fault of an earlier run, with what its rule says now; a rule no longer loaded keeps its last word."""
        rule = self._rules.get(fault.reason)
        if rule is not None and rule.condition is not None:
            fault = msgspec.structs.replace(
                fault,
                condition=rule.condition,
                fault_class=rule.fault_class,
                action=rule.action,
                clears_on=rule.clears_on,
            )
        self._enter(self.key_of(fault), fault)

    def adopt(self, condition: Condition) -> None:
        """Enter the faults that a True condition of our own wording names; their devices are not known yet."""
        words = {condition.reason, *(part.partition(" ")[0] for part in condition.message.split("; "))}
        named = [reason for reason, rule in self._rules.items() if reason in words and rule.condition == condition.type]
        for reason in named or [condition.reason]:
            read = next((key for key in self._faults if key[0] == reason), None)
            if read is not None:  # its line has come already
                first_at = min(self._faults[read].first_at, condition.last_transition_at)
                self._faults[read] = msgspec.structs.replace(self._faults[read], first_at=first_at)
                continue
            self._placeholders.add(reason)
            self.restore(
                Fault(
                    reason=reason,
                    condition=condition.type,
                    fault_class=FaultClass.SUSPECT,
                    action=Action.NONE,
                    clears_on=ClearsOn.OPERATOR,
                    count=1,
                    first_at=condition.last_transition_at,
                    last_at=condition.last_transition_at,
                )
            )

    def end(self, ends: Callable[[Fault], bool]) -> list[Fault]:
        """Remove the faults that end, and return them."""
        ended = {key: fault for key, fault in self._faults.items() if ends(fault)}
        for key in ended:
            del self._faults[key]
            self._devices[key[0]] -= 1
            self._placeholders.discard(key[0])
        return list(ended.values())

    def _without_placeholder(self, reason: str) -> Fault | None:
        """Take out the entry that stands for an adopted fault: its line has come again and tells the device."""
        if reason not in self._placeholders:
            return None
        self._placeholders.discard(reason)
        self._devices[reason] -= 1
        return self._faults.pop((reason, ()))

    def _enter(self, key: Key, fault: Fault) -> None:
        self._faults[key] = fault
        self._devices[key[0]] = self._devices.get(key[0], 0) + 1
