"""Where the loop's truth goes: the pages, the log, the state file, and the API server if there is one.

Nothing here waits: whatever is slow has a thread of its own behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from runtime import logs

if TYPE_CHECKING:
    from detector.board import Board
    from detector.keeper import Keeper
    from detector.model import Announcement, ClearRequest, State, View
    from detector.requests import Requests

_LOG = logs.get(__name__)


class Publisher(Protocol):
    """The way to an API server; returns at once."""

    def publish(self, view: View, read_at: float) -> None:
        """Have conditions published."""

    def announce(self, announcements: list[Announcement]) -> None:
        """Have Events written."""

    def close(self) -> None:
        """Finish what can be finished quickly."""


class AllOutlets:
    """All places that a node's health is told to.

    Args:
        board: the pages' source.
        keeper: the state file's writer.
        requests: requests to clear, left in the state directory.
    """

    def __init__(self, *, board: Board, keeper: Keeper, requests: Requests) -> None:
        self.publisher: Publisher | None = None  # None = stand-alone
        self._board = board
        self._keeper = keeper
        self._requests = requests

    def show(self, view: View, read_at: float) -> None:
        """Show a view on the pages and to the API server.

        Args:
            view: what to show.
            read_at: when the line that changed it was read, monotonic seconds.
        """
        self._board.view = view
        if self.publisher is not None:
            self.publisher.publish(view, read_at)

    def tell(self, announcements: list[Announcement]) -> None:
        """Log announcements and have Events written."""
        for announcement in announcements:
            write = _LOG.warning if announcement.warning else _LOG.info
            write("problem" if announcement.warning else "notice", **_fields(announcement))
        if self.publisher is not None:
            self.publisher.announce(announcements)

    def keep(self, state: State) -> None:
        """Have the state written to disk."""
        self._keeper.keep(state)

    def close(self) -> None:
        """Bring what is outstanding to the API server and to disk, as far as that goes quickly."""
        if self.publisher is not None:
            self.publisher.close()
        self._requests.close()
        self._keeper.close()

    def clear_requests(self) -> list[ClearRequest]:
        """Take the requests to clear that have been found by now."""
        return self._requests.take()


def _fields(announcement: Announcement) -> dict[str, object]:
    return {"reason": announcement.reason, "message": announcement.message, "count": announcement.count}
