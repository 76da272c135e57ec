"""The board that the pages are read from: the loop hangs up the newest view, the page thread reads it.

Views are frozen and replaced whole, so that reading needs no lock and the loop never waits for a scrape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.exposition import Histogram
from runtime.vocabulary import Status

if TYPE_CHECKING:
    from detector.keeper import Keeper
    from detector.model import Condition, View
    from detector.sight import Sight
    from detector.source import Source

# From a millisecond to a minute: an API server that is away makes it long.
_LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 60.0)


class Board:
    """What the pages show.

    Args:
        source: the kernel log, for its counts.
        sight: whether it can be read.
        keeper: the state file's writer.
        boot: id of this boot.
        instance: id of this instance; None = unknown.
        published: False while a first condition has yet to reach the API server.
        node_read: False while it is not known yet what this instance has published before.
        platform_repair: whether AcceleratedHardwareReady is published, so that the platform repairs.
    """

    def __init__(
        self,
        *,
        source: Source,
        sight: Sight,
        keeper: Keeper,
        boot: str,
        instance: str | None,
        published: bool = True,
        node_read: bool = True,
        platform_repair: bool = False,
    ) -> None:
        self.source = source
        self.sight = sight
        self.keeper = keeper
        self.boot = boot
        self.instance = instance
        self.published = published
        self.node_read = node_read
        self.platform_repair = platform_repair
        self.view: View | None = None
        self.latency = Histogram(_LATENCY_BOUNDS)
        self.requests: dict[tuple[str, str], int] = {}  # by verb and code

    def count_request(self, verb: str, code: str) -> None:
        """Count a request to the API server."""
        self.requests[verb, code] = self.requests.get((verb, code), 0) + 1

    def note_node_read(self, view: View) -> None:
        """Take in that it is known what this instance has published before.

        Args:
            view: with that in it; it takes the place of one that is shown already.
        """
        if self.view is not None:
            self.view = view
        self.node_read = True

    def conditions(self) -> tuple[Condition, ...]:
        """Give what may be said of the conditions by now: no False before it is known that the Node says no True."""
        conditions = self.view.conditions if self.view is not None else ()
        if self.node_read:
            return conditions
        return tuple(condition for condition in conditions if condition.status is not Status.FALSE)

    def why_not_ready(self) -> str | None:
        """Say what is missing before anybody may rely on this node's conditions; None = nothing."""
        if not self.sight.is_up:
            return f"the kernel log is not read: {self.sight.why_not or 'not yet opened'}"
        if self.view is None:
            return "the kernel log is still read for the first time"
        if not self.published:
            return "no condition has reached the API server yet"
        return None
