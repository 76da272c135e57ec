"""The sentences in conditions and Events. Pure.

Text from a line goes into them only made printable and short: anybody may have written it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from detector.details import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from detector.model import Condition, Fault, Finding

_LONGEST_MESSAGE = 1024  # what Kubernetes advises for a condition's and allows for an Event's message
_LONGEST_QUOTE = 256
_LONGEST_DEVICE = 512  # a rule may name any number of groups
_PART = re.compile(r"(\S+)(.*) \(([0-9]{1,9}) lines?\)")
_DETAIL = re.compile(r" ([A-Za-z_][\w-]*)=")


class Named(NamedTuple):
    """A fault as a condition's message names it."""

    reason: str
    details: dict[str, str]
    lines: int


def gravest_first(faults: Iterable[Fault]) -> list[Fault]:
    """Sort faults by gravity, then the oldest first."""
    return sorted(faults, key=lambda fault: (fault.fault_class.gravity, fault.first_at))


def condition_message(faults: Sequence[Fault]) -> str:
    """List all faults with their devices and counts, as far as a condition's message goes.

    Args:
        faults: the gravest first.
    """
    parts: list[str] = []
    length = 0
    for number, fault in enumerate(faults):
        part = f"{fault.reason}{_on(fault.details)} ({_times(fault.count)})"
        more = f"and {len(faults) - number} more"
        if length + len(part) + len("; ") + len("; ") + len(more) > _LONGEST_MESSAGE:
            return "; ".join([*parts, more])
        parts.append(part)
        length += len(part) + len("; ")
    return "; ".join(parts)


def named_faults(condition: Condition) -> list[Named]:
    """Read again what `condition_message` wrote, as far as it is there: the message may be cut, or somebody else's.

    Returns:
        The faults in the order of the message; the condition's reason is always among them.
    """
    parts = map(_PART.fullmatch, condition.message[:_LONGEST_MESSAGE].split("; "))
    named = [Named(part[1], _details(part[2]), int(part[3])) for part in parts if part]
    if condition.reason not in {each.reason for each in named}:
        named.insert(0, Named(condition.reason, {}, 1))
    return named


def as_named(details: Mapping[str, str]) -> dict[str, str]:
    """Tell how the details of a fault read again: odd ones come back otherwise than they were written."""
    return _details(_on(details))


def fault_message(finding: Finding, text: bytes) -> str:
    """Say what a line means, and quote it."""
    rule = finding.rule
    meaning = f"{rule.fault_class}, vendor's advice: {rule.action}" if rule.condition else "no condition"
    return f"{rule.reason}{_on(finding.details)} ({meaning}): {printable(text, _LONGEST_QUOTE)}"[:_LONGEST_MESSAGE]


def cleared_message(fault: Fault, cause: str) -> str:
    """Say which fault has ended, and why."""
    return f"{fault.reason}{_on(fault.details)} ended after {_times(fault.count)}: {cause}"


def _on(details: Mapping[str, str]) -> str:
    """Name a device. No semicolon of somebody's text may pass for the one between two faults."""
    return "".join(f" {name}={value}" for name, value in details.items()).replace(";", ",")[:_LONGEST_DEVICE]


def _details(text: str) -> dict[str, str]:
    before, *pairs = _DETAIL.split(text)
    return {} if before else dict(zip(pairs[::2], pairs[1::2], strict=True))


def _times(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"
