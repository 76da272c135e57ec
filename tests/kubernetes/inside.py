"""A detector inside pytest's own process: real loop, rules, state file and publisher, and a clock that can be moved.

For tests of waiting (20 s, 5 min) that would otherwise wait. Its kernel log is a file.
"""

from __future__ import annotations

import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from detector.agent import Agent
from detector.board import Board
from detector.follow import FileReader
from detector.health import NodeHealth
from detector.keeper import Keeper
from detector.kube import NodeClient
from detector.matcher import Matcher
from detector.model import KernelMessage
from detector.outlets import AllOutlets
from detector.parse import to_record
from detector.publisher import Publisher
from detector.requests import Requests
from detector.rulefiles import load_all
from detector.sight import Sight
from detector.statefile import StateFile
from runtime.rest import Rest
from tests.detector.process import neuron_line, until

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from tests.kubernetes.ownnode import OwnNode

_CATALOG = load_all(["neuron"])


class MovableClock:
    """The machine's clocks, moved forward on request."""

    def __init__(self) -> None:
        self._ahead_seconds = 0.0

    def advance(self, seconds: float) -> None:
        self._ahead_seconds += seconds

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._ahead_seconds)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead_seconds


class Inside:
    """A detector of one Node.

    Args:
        node: the Node.
        folder: for state and kernel log; what lies there already is found, as after a restart.
        instance: its id; None = the node's detector's; "" = it does not know.
        kubeconfig: of another way to the API server.
        says_ready: publish AcceleratedHardwareReady too.
        heartbeat_seconds: between two heartbeats.
    """

    def __init__(
        self,
        node: OwnNode,
        folder: Path,
        *,
        instance: str | None = None,
        kubeconfig: Path | None = None,
        says_ready: bool = False,
        heartbeat_seconds: float = 300.0,
    ) -> None:
        self.node = node
        self.clock = MovableClock()
        self.instance = node.detector.instance if instance is None else instance
        self._kmsg = folder / "kmsg"
        self._kmsg.touch()
        self._numbers = itertools.count(len(self._kmsg.read_bytes().splitlines()))
        file = StateFile(str(folder / "state"))
        state = file.load()
        self.health = NodeHealth(
            _CATALOG, boot="boot-1", instance=self.instance or None, now=self.clock.now(), state=state
        )
        source = FileReader(str(self._kmsg), after=state.seq if state else None)
        sight, self._keeper = Sight(source, self.clock), Keeper(file)
        self.board = Board(
            source=source,
            sight=sight,
            keeper=self._keeper,
            boot="boot-1",
            instance=self.health.instance,
            published=False,
            node_read=False,
            platform_repair=says_ready,
        )
        outlets = AllOutlets(board=self.board, keeper=self._keeper, requests=Requests(file))
        self.agent = Agent(
            source=source,
            sight=sight,
            matcher=Matcher(_CATALOG.rule_sets, started_us=int(self.clock.monotonic() * 1e6)),
            health=self.health,
            outlets=outlets,
            clock=self.clock,
            heartbeat_seconds=lambda: heartbeat_seconds,
        )
        environ = {"KUBECONFIG": str(kubeconfig or node.kubeconfig)}
        self.publisher = outlets.publisher = Publisher(
            client=NodeClient(Rest(counted=self.board.count_request, environ=environ), node.name),
            health=self.health,
            post=self.agent.post,
            board=self.board,
            boot="boot-1",
            says_ready=says_ready,
            clock=self.clock,
        )
        self._loop = threading.Thread(target=self.agent.run, daemon=True)

    def __enter__(self) -> Self:
        self.agent.open()
        self.publisher.start()
        self._loop.start()
        self.advance(1)  # a fleet that starts at once is spread over this; a test need not wait for it
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.stop()
        self._loop.join(5)
        self.publisher.close()
        self._keeper.close()

    def write(self, code: str, *, instance: str | None = None, times: int = 1, device: int = 0, core: int = 0) -> None:
        """Have the kernel print a Neuron line, about this instance unless another is named."""
        about = self.instance if instance is None else instance
        text = neuron_line(code, about, device=device, core=core).encode()
        records = [
            to_record(
                KernelMessage(
                    facility=0,
                    level=3,
                    sequence=next(self._numbers),
                    timestamp_us=int(time.monotonic() * 1e6),
                    text=text,
                )
            )
            for _ in range(times)
        ]
        with self._kmsg.open("ab") as file:
            file.writelines(records)

    def say(self, code: str, **how: Any) -> None:
        """Write a line and wait until the loop has read it."""
        self.write(code, **how)
        written = len(self._kmsg.read_bytes().splitlines()) - 1
        until(lambda: self.board.source.last == written and not self.is_busy(), what="read")

    def is_busy(self) -> bool:
        """Tell whether the loop does anything but wait."""
        return self.agent.sight.busy_since is not None

    def count(self, code: str) -> int:
        """Tell how many lines of a code count by now."""
        return sum(fault.count for fault in self.health.faults if fault.reason.endswith(code))

    def advance(self, seconds: float) -> None:
        """Move the clock forward, have the loop go round once, and let the publisher notice."""
        self.clock.advance(seconds)
        gone_round = threading.Event()
        self.agent.post(lambda _: gone_round.set())
        assert gone_round.wait(5)
        until(lambda: not self.is_busy(), what="the loop has gone round")
        with self.publisher._changed:
            self.publisher._changed.notify()

    def settle(self) -> Self:
        """Wait until everything known has reached the API server, Events too."""
        until(self._is_settled, what="settled")
        return self

    def _is_settled(self) -> bool:
        shown = self.agent._shown == self.health.revision and not self.health.has_news
        return shown and not self.is_busy() and self.publisher.is_settled()
