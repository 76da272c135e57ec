"""A whole detector but its process: the tests move its clock, write what its kernel log answers and drive its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from detector.agent import Agent
from detector.board import Board
from detector.health import NodeHealth
from detector.keeper import Keeper
from detector.matcher import Matcher
from detector.model import ClearRequest, State
from detector.outlets import AllOutlets
from detector.requests import Requests
from detector.rulefiles import load_all
from detector.sight import Sight
from detector.statefile import StateFile
from tests.detector.kernel import Answers, Clock, CountingReader
from tests.detector.process import neuron_line, until

if TYPE_CHECKING:
    from pathlib import Path

    from detector.model import Condition, Fault

OURS = "i-0123456789abcdef0"
CATALOG = load_all(["neuron"])
DMA = neuron_line("DMA_ERROR", OURS)
HANG = neuron_line("HANG_ON_COLLECTIVES", OURS)


class Rig:
    """All parts of a detector, wired as `run` wires them.

    Args:
        folder: of the state file.
        answers: what read() answers at first.
        path: the device; None = one that can always be opened.
        heartbeat_seconds: between two heartbeats.
        after: sequence number up to which all has been read before.
    """

    def __init__(
        self,
        folder: Path,
        *answers: bytes | int,
        path: Path | None = None,
        heartbeat_seconds: float = 300.0,
        after: int | None = None,
    ) -> None:
        self.clock = Clock()
        self.answers = Answers(*answers)
        self.source = CountingReader(str(path or "/dev/null"), after=after, read=self.answers)
        self.file = StateFile(str(folder))
        self.keeper = Keeper(self.file)
        self.sight = Sight(self.source, self.clock)
        self.board = Board(source=self.source, sight=self.sight, keeper=self.keeper, boot="boot-1", instance=OURS)
        self.health = NodeHealth(CATALOG, boot="boot-1", instance=OURS, now=self.clock.now())
        self.agent = Agent(
            source=self.source,
            sight=self.sight,
            matcher=Matcher(CATALOG.rule_sets),
            health=self.health,
            outlets=AllOutlets(board=self.board, keeper=self.keeper, requests=Requests(self.file)),
            clock=self.clock,
            heartbeat_seconds=lambda: heartbeat_seconds,
        )

    def reads(self, *answers: bytes | int) -> None:
        """Have the kernel log answer so, and the loop come round."""
        self.answers.left += answers
        while self.answers.left:
            self.agent.step()
        self.agent.step()

    def goes_on(self, seconds: float) -> None:
        """Let time pass; the loop comes round a hundred times a second."""
        for _ in range(round(seconds * 100)):
            self.clock.seconds += 0.01
            self.agent.step()

    def ask_to_clear(self, reason: str) -> None:
        """Leave a request as `clear` does, made of what the state file knows; it is written by a thread of its own."""
        until(lambda: (self.kept() or State(boot="", instance=None, seq=0)).faults == self.health.faults, what="kept")
        self.file.leave_clear_request(ClearRequest(reason=reason, faults=self.health.faults))

    @property
    def condition(self) -> Condition:
        """What the pages show."""
        assert self.board.view is not None
        (condition,) = self.board.view.conditions
        return condition

    @property
    def faults(self) -> tuple[Fault, ...]:
        return self.board.view.faults if self.board.view else ()

    def kept(self) -> State | None:
        """Read the state file as a restart would."""
        return msgspec.json.decode(self.file.path.read_bytes(), type=State) if self.file.path.exists() else None
