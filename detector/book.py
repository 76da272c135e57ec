"""The book of active faults: one entry per reason and device, bounded. Pure.

Must never forget a fault to save memory: what does not fit is counted in one further entry of the same reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from detector.model import Fault, Mention, device_of
from detector.wording import as_named, named_faults
from runtime.vocabulary import Action, ClearsOn, FaultClass, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from detector.model import Condition, Finding, Rule

MOST_DEVICES = 128  # entries of one reason: trn2 has 16 devices of 8 cores
MOST_ENTRIES = 512  # faults
MOST_MENTIONED = 256  # entries of temporary problems, which must not take the faults' place
Key = tuple[str, tuple[tuple[str, str], ...]]
_FURTHER: tuple[tuple[str, str], ...] = (("device", "further"),)


def key_of(fault: Fault) -> Key:
    """Name the entry that a fault is."""
    return fault.reason, device_of(fault.details)


def key_published(fault: Fault) -> Key:
    """Name the entry that a fault is for whoever knows it from a condition's message."""
    return fault.reason, device_of(as_named(fault.details))


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
        self._again: dict[Key, int] = {}  # of adopted entries: how many of their lines have been read again

    def __contains__(self, key: Key) -> bool:
        return key in self._faults

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All active faults, in the order in which they came."""
        return tuple(self._faults.values())

    @property
    def placeholders(self) -> frozenset[Key]:
        """The entries that were adopted and whose lines have not come again."""
        return frozenset(key for key, lines in self._again.items() if not lines)

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

    def count(
        self, key: Key, finding: Finding, lines: int, first_at: datetime, last_at: datetime, *, again: bool = False
    ) -> int:
        """Add lines to an entry, made if it is new.

        Args:
            key: of the entry.
            finding: what the lines say.
            lines: how many.
            first_at: when the first of them was written (aware UTC).
            last_at: when the last was.
            again: they were written before what was adopted was published, so that it counts them already.

        Returns:
            How many lines the entry counts by now.
        """
        rule = finding.rule
        if rule.condition is None:
            return self._mention(key, lines)
        old = self._faults.get(key)
        if old is not None:
            count = old.count + lines
            if key in self._again:
                self._again[key] += lines
                count = max(old.count, self._again[key]) if again else count
            self._faults[key] = msgspec.structs.replace(old, count=count, last_at=max(last_at, old.last_at))
            return count
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
        self._enter(key_of(fault), fault)

    def mentioned(self) -> tuple[Mention, ...]:
        """Show how often the temporary problems came."""
        return tuple(
            Mention(reason=reason, details=dict(device), count=count)
            for (reason, device), count in self._mentioned.items()
        )

    def restore_mentioned(self, mentioned: Iterable[Mention]) -> None:
        """Go on counting where an earlier run in this boot ended, so that no Event's count goes backwards."""
        for mention in mentioned:
            self._mention((mention.reason, device_of(mention.details)), mention.count)

    def _mention(self, key: Key, lines: int) -> int:
        if key not in self._mentioned:
            self._devices[key[0]] = self._devices.get(key[0], 0) + 1
        self._mentioned[key] = self._mentioned.get(key, 0) + lines
        return self._mentioned[key]

    def named(self, condition: Condition) -> list[Fault]:
        """Read the faults that a condition of our own wording names."""
        if condition.status is not Status.TRUE:
            return []
        found = []
        for reason, details, lines in named_faults(condition):
            rule = self._rules.get(reason)
            if reason != condition.reason and (rule is None or rule.condition != condition.type):
                continue
            fault = Fault(
                reason=reason,
                condition=condition.type,
                fault_class=FaultClass.SUSPECT,
                action=Action.NONE,
                clears_on=ClearsOn.OPERATOR,
                count=lines,
                first_at=condition.last_transition_at,
                last_at=condition.last_transition_at,
                details=details,
            )
            found.append(fault)
        return found

    def adopt(self, named: Iterable[Fault], known: Collection[Key]) -> None:
        """Enter the faults that a True condition names; of some the device is not known.

        Args:
            named: the faults.
            known: entries, named as messages do, that an earlier run kept: those are here, or have ended since.
        """
        for fault in named:
            key = key_of(fault)
            if key in known or self._devices.get(fault.reason, 0) >= MOST_DEVICES:
                continue
            read = self._read(key)
            if read is not None:  # its line has come already
                first_at = min(self._faults[read].first_at, fault.first_at)
                self._faults[read] = msgspec.structs.replace(self._faults[read], first_at=first_at)
                continue
            self._again[key] = 0
            self.restore(fault)

    def _read(self, published: Key) -> Key | None:
        """Find the entry that a message means; one without a device may be any of its reason."""
        if published in self._faults:
            return published
        entries = ((key, fault) for key, fault in self._faults.items() if key[0] == published[0])
        return next((key for key, fault in entries if not published[1] or key_published(fault) == published), None)

    def end(self, ends: Callable[[Fault], bool]) -> list[Fault]:
        """Remove the faults that end, and return them."""
        ended = {key: fault for key, fault in self._faults.items() if ends(fault)}
        for key in ended:
            del self._faults[key]
            self._devices[key[0]] -= 1
            self._again.pop(key, None)
        return list(ended.values())

    def _without_placeholder(self, reason: str) -> Fault | None:
        """Take out the entry that stands for an adopted fault of a device unknown: its line tells the device."""
        key: Key = (reason, ())
        if self._again.get(key) != 0:
            return None
        del self._again[key]
        self._devices[reason] -= 1
        return self._faults.pop(key)

    def _enter(self, key: Key, fault: Fault) -> None:
        self._faults[key] = fault
        self._devices[key[0]] = self._devices.get(key[0], 0) + 1
