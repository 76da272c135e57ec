"""The conditions of a node, made of its faults. Pure.

Must never say False of a type that has a fault, nor of any type while nobody looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detector.model import Condition, ConditionDefault
from detector.wording import condition_message, gravest_first
from runtime.vocabulary import Reason, Status

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from detector.book import Book


class Verdicts:
    """Condition by type.

    Args:
        defaults: what each type says while nothing is wrong.
        book: the active faults.
    """

    def __init__(self, defaults: Iterable[ConditionDefault], book: Book) -> None:
        self.revision = 0  # grows when a condition changes in more than counts and times
        self.blind: str | None = None  # why nothing can be seen
        self._defaults = {default.type: default for default in defaults}
        self._book = book
        self._conditions: dict[str, Condition] = {}

    @property
    def kinds(self) -> list[str]:
        """The condition types of the rules loaded."""
        return list(self._defaults)

    @property
    def types(self) -> list[str]:
        """The condition types of the rules, and those left by faults whose rules are no longer loaded."""
        left = [fault.condition for fault in self._book.faults]
        return list(dict.fromkeys([*self._defaults, *self._conditions, *left]))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All of them."""
        return tuple(self._conditions.values())

    def take_over(self, condition: Condition) -> None:
        """Take a condition as it was published before; `update` says whether it still holds."""
        self.revision += self._conditions.get(condition.type) != condition
        self._conditions[condition.type] = condition

    def update(self, kinds: Iterable[str], now: datetime) -> None:
        """Recompute conditions; the transition time moves only with the status."""
        self._update(kinds, now.replace(microsecond=0), beat=False)

    def beat(self, now: datetime) -> None:
        """Say that the conditions still hold, counts brought up to date."""
        revision = self.revision
        self._update(self.types, now.replace(microsecond=0), beat=True)
        self.revision = revision

    def _update(self, kinds: Iterable[str], now: datetime, *, beat: bool) -> None:
        for kind in kinds:
            old = self._conditions.get(kind)
            status, reason, message = self._says(kind)
            if old is not None and not beat and (old.status, old.reason, old.message) == (status, reason, message):
                continue
            self.revision += 1
            moved = old is None or old.status is not status
            self._conditions[kind] = Condition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                last_transition_at=now if old is None or moved else old.last_transition_at,
                last_heartbeat_at=now,
            )

    def _says(self, kind: str) -> tuple[Status, str, str]:
        """Tell a condition's status, reason and message; the only place that knows that True is bad."""
        faults = gravest_first(fault for fault in self._book.faults if fault.condition == kind)
        if faults:
            return Status.TRUE, faults[0].reason, condition_message(faults)
        if self.blind is not None:
            return Status.UNKNOWN, Reason.DETECTOR_BLIND, self.blind
        default = self._defaults.get(kind) or ConditionDefault(type=kind, reason=Reason.FAULT_CLEARED)
        return Status.FALSE, default.reason, default.message
