"""What an operator may change in the ledger while recovery runs: end a group's block, reset a breaker.

Each is one compare-and-swap, repeated when the leader wrote in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from recovery import entries
from recovery.ports import PortError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from recovery.model import LedgerBody
    from recovery.ports import Ledger

ALL: Final = "all"
_ATTEMPTS: Final = 10


class NotDoneError(Exception):
    """What was asked for was not done; the message says why."""


def resume_group(ledger: Ledger, group: str) -> None:
    """Let recovery act on a group again.

    Raises:
        NotDoneError: it is not blocked.
        PortError: the ledger cannot be read or written.
    """

    def change(body: LedgerBody) -> LedgerBody:
        if group not in body.blocked_groups:
            raise NotDoneError(f"{group}: no such group is blocked ({_named('blocked', body.blocked_groups)})")
        return entries.resume_group(body, group)

    _change(ledger, change)


def reset_breaker(ledger: Ledger, reason: str) -> list[str]:
    """Let recovery act on a reason again.

    Args:
        ledger: where it is written down.
        reason: or `all`.

    Returns:
        The reasons.

    Raises:
        NotDoneError: its breaker is not tripped.
        PortError: the ledger cannot be read or written.
    """
    reset: list[str] = []

    def change(body: LedgerBody) -> LedgerBody:
        reset[:] = sorted(body.tripped) if reason == ALL else [reason]
        if not reset or not set(reset) <= body.tripped.keys():
            raise NotDoneError(f"{reason}: no such breaker is tripped ({_named('tripped', body.tripped)})")
        for name in reset:
            body = entries.reset_breaker(body, name, ledger.now())
        return body

    _change(ledger, change)
    return reset


def _change(ledger: Ledger, change: Callable[[LedgerBody], LedgerBody]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        body = ledger.load()
        if body is None:
            raise NotDoneError("there is no ledger yet: nothing was ever done")
        try:
            ledger.save(change(body))
        except PortError as error:
            if not error.conflict or attempt == _ATTEMPTS:
                raise
        else:
            return


def _named(what: str, names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return f"{what}: {listed}" if listed else f"nothing is {what}"
