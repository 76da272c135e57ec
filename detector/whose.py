"""Which instance this node is, and which lines and faults are another's. Pure.

Must never take a line for another's on a guess: that would hide a fault of this node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detector.book import key_of
from detector.details import INSTANCE_ID, is_foreign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from detector.book import Key
    from detector.model import Fault

_MOST_NAMES = 8  # instances remembered of one fault; one with more stays ours


class Whose:
    """Tells own lines from another instance's.

    Args:
        instance: our own id; None = unknown.
        kept: the id in the state file; None = none there. It says whose the conditions are, but makes no line
            another's: an image may have brought the file.
    """

    def __init__(self, instance: str | None, kept: str | None) -> None:
        self.instance = instance or kept
        self._certain = instance
        self._named: dict[Key, set[str | None]] = {}  # instances that lines named while our own id was unknown

    @property
    def is_certain(self) -> bool:
        """Whether more than the state file tells which instance this is."""
        return self._certain is not None

    def learn(self, instance: str) -> bool:
        """Take in which instance this is, and tell whether that is believed.

        An id other than the state file's is not: a Node's name, and its providerID with it, can be an older machine's.
        """
        if self.instance not in (None, instance):
            return False
        self.instance = self._certain = instance
        return True

    def speaks_of_another(self, details: Mapping[str, str]) -> bool:
        """Tell whether a line is about another instance."""
        return is_foreign(details, self._certain)

    def remember(self, key: Key, details: Mapping[str, str]) -> None:
        """Remember, while our own id is unknown, which instance a line of a fault named."""
        if not self.is_certain and len(names := self._named.setdefault(key, set())) <= _MOST_NAMES:
            names.add(details.get(INSTANCE_ID) if len(names) < _MOST_NAMES else None)

    def forget(self, key: Key) -> None:
        """Forget a fault that has ended."""
        self._named.pop(key, None)

    def is_anothers(self, fault: Fault) -> bool:
        """Tell whether every line of a fault named another instance."""
        names = {fault.details.get(INSTANCE_ID), *self._named.get(key_of(fault), ())}
        return all(name is not None and self.speaks_of_another({INSTANCE_ID: name}) for name in names)
