"""The ledger as a pass holds it: each step is written before it is taken, by compare-and-swap.

What is only remembered (a fence lifted, a call accepted) is written with the next step or at the end of the pass: if it
is lost, the world is looked at again. Must never go on after a write that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery import entries

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.model import Entry, LedgerBody
    from recovery.ports import Ledger


class Book:
    """The ledger during one pass.

    Args:
        ledger: where it is kept.
        body: as it was loaded.
        is_dry: write nothing: it is only asked what would be done.
    """

    def __init__(self, ledger: Ledger, body: LedgerBody, *, is_dry: bool) -> None:
        self.body = body
        self._ledger = ledger
        self._is_dry = is_dry
        self._is_dirty = False
        self._open: dict[str, Entry] | None = None

    def open_of(self, node: str) -> Entry | None:
        """Find a node's open entry."""
        if self._open is None:
            self._open = {entry.node: entry for entry in self.body.entries if entries.is_open(entry)}
        return self._open.get(node)

    def write(self, body: LedgerBody) -> None:
        """Write the ledger.

        Raises:
            PortError: it may not have been written; nothing may be done that depends on it.
        """
        if not self._is_dry:
            self._ledger.save(body)
        self._take(body)
        self._is_dirty = False

    def put(self, entry: Entry) -> None:
        """Write an entry. Raises PortError as `write`."""
        self.write(entries.put(self.body, entry))

    def remember(self, entry: Entry) -> None:
        """Change an entry with the next write."""
        body = entries.put(self.body, entry)
        if body != self.body:
            self._take(body)
            self._is_dirty = True

    def take_back(self, body: LedgerBody) -> None:
        """Have a step unwritten with the next write: it was certainly not taken.

        Args:
            body: as it was before that step.
        """
        self._take(body)
        self._is_dirty = True

    def paused(self) -> str | None:
        """Tell why recovery is paused now; None = it is not."""
        return self._ledger.paused()

    def now(self) -> datetime:
        """Tell the time, as the ledger is dated."""
        return self._ledger.now()

    def flush(self) -> None:
        """Write what is only remembered so far. Raises PortError as `write`."""
        if self._is_dirty:
            self.write(self.body)

    def _take(self, body: LedgerBody) -> None:
        self.body = body
        self._open = None
