"""What an earlier run kept, held against what the Node says: a state file can be old or missing. Pure.

Must never take a fault for healed because the disk did not hear of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from detector.book import key_of, key_published
from runtime.vocabulary import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from detector.model import Condition, Fault, State


class Kept:
    """What the state file knew when the program started.

    Args:
        state: what an earlier run left; None = nothing.
        instance: our own id; None = unknown. A state of another instance tells nothing about this one.
    """

    def __init__(self, state: State | None, instance: str | None) -> None:
        self.is_ours = state is not None and (None in (state.instance, instance) or state.instance == instance)
        known = state if self.is_ours else None
        self.awaits_node = known is None or known.awaits_node  # what the Node says has never been taken in
        self.keys = frozenset(map(key_published, known.faults)) if known else frozenset()
        times = [condition.last_heartbeat_at for condition in known.conditions] if known else []
        self._newest = max(times, default=None)

    def lacks(self, condition: Condition, named: Iterable[Fault]) -> bool:
        """Tell whether a condition that this instance published says what the state does not know.

        Every change of a condition moves its heartbeat and is kept at once. So a state whose newest heartbeat is older
        than the Node's could not be written for a while, and what it does not name may still be broken. In the same
        second nobody can tell; then the fault stays.

        Args:
            condition: as the Node has it.
            named: the faults that it names.
        """
        if self.awaits_node:
            return True
        if condition.status is not Status.TRUE or all(key_of(fault) in self.keys for fault in named):
            return False
        return self._newest is None or condition.last_heartbeat_at >= self._newest
