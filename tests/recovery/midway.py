"""Changes the in-memory world in the middle of a pass, and tells what was done after that all the same.

Between the last look and the call it allows there is a moment in which nobody can know: a change that comes then is no
fault of whoever calls.
"""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING, Final

from recovery.model import State
from runtime.vocabulary import RECOVERY_DISABLED, RECOVERY_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recovery.world import Process, World

ACTS: Final = ("fence", "drain", "set_unhealthy", "terminate", "reboot", "claim")


class Change(enum.Enum):
    """What may come in between."""

    PAUSE = "pause"
    CLEAR = "clear"
    OPT_OUT = "opt out"
    LOSE_LEAD = "lose the lead"


# The last looks before an act, after which a change can no longer be seen.
_LAST_LOOKS: Final = {
    Change.PAUSE: ("after paused",),
    Change.CLEAR: ("after read", "before paused", "after paused"),
    Change.OPT_OUT: ("after read", "before paused", "after paused"),
    Change.LOSE_LEAD: (),
}


class Midway:
    """One change.

    Args:
        world: changed at one call; its hook is used, what was there before goes on.
        change: what happens.
        name: of the node that it befalls; a pause and a lost lead befall all.
        process: loses the lead.
        is_now: told the number of a call and `before CALL` or `after CALL`; tells whether it happens there.
    """

    def __init__(
        self, world: World, change: Change, name: str, process: Process, is_now: Callable[[int, str], bool]
    ) -> None:
        self.log: list[str] = []
        self.late: list[str] = []
        self._world, self._change, self._name, self._process = world, change, name, process
        self._is_now = is_now
        self._changed: int | None = None
        self._node_of: dict[str, str] = {node.instance or "": node.name for node in world.nodes.values()}
        self._before = world.hook
        world.hook = self._hook

    @property
    def has_happened(self) -> bool:
        return self._changed is not None

    def end(self) -> None:
        self._world.hook = self._before

    def _hook(self, call: str, when: str) -> None:
        moment = f"{when} {call}"
        self.log.append(moment)
        if self._changed is not None and moment == "after save" and self._admits():
            self._note(self._last("before save"), "admitted")
        if self._changed is None and self._is_now(len(self.log) - 1, moment):
            self._changed = len(self.log) - 1
            self._happen()
        if self._changed is not None and when == "after" and call in ACTS and self._is_meant():
            self._note(self._last(f"before {call}"), call)
        self._before(call, when)

    def _happen(self) -> None:
        node = self._world.nodes.get(self._name)
        if self._change is Change.PAUSE:
            self._world.pause = "stop"
        elif self._change is Change.LOSE_LEAD:
            self._process.lead.held = False
        elif node is not None and self._change is Change.CLEAR:
            self._world.heal(node.name)
        elif node is not None:
            node.labels[RECOVERY_LABEL] = RECOVERY_DISABLED
            node.version += 1

    def _admits(self) -> bool:
        """Tell whether the ledger has just admitted somebody whom the change befell."""
        last, before = self._world.history[-1], self._world.history[-2:-1]
        known = {entry.id: entry.state for body in before for entry in body.entries}
        return any(
            entry.state is State.ADMITTED and known.get(entry.id) is not State.ADMITTED and self._befell(entry.node)
            for entry in last.entries
            if entry.outcome is None and not entry.would
        )

    def _is_meant(self) -> bool:
        _, target = self._world.calls[-1]
        return self._befell(self._node_of.get(target, target))

    def _befell(self, name: str) -> bool:
        return self._change in (Change.PAUSE, Change.LOSE_LEAD) or name == self._name

    def _last(self, moment: str) -> int:
        return len(self.log) - 1 - self.log[::-1].index(moment)

    def _note(self, at: int, what: str) -> None:
        """Take an act that began at this call for late, unless it was looked as late as can be."""
        assert self._changed is not None
        between = self.log[self._changed : at]
        if at > self._changed and not _ends_with(_LAST_LOOKS[self._change], between):
            self.late.append(f"{what} after {self._change.name}: {between}")


def nth(moment: str, skip: int) -> Callable[[int, str], bool]:
    """Tell when a moment comes that has come so many times before."""
    times = itertools.count()
    return lambda _, now: now == moment and next(times) == skip


def _ends_with(looks: tuple[str, ...], between: list[str]) -> bool:
    return bool(between) and tuple(between) == looks[len(looks) - len(between) :]
