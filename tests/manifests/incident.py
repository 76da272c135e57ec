"""Two hours of a fleet with trouble in it, scraped: pages of the real programs, by a clock that a script turns.

Each node has a whole detector but its process (tests/detector/rig.py); recovery is its whole loop over the in-memory
world of tests/recovery/world.py. What is scripted is what happens to them, and what the API server and AWS answered. It
must not write a metric by hand.
"""

from __future__ import annotations

import errno
import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from detector.settings import Settings
from detector.web import Pages as DetectorPages
from recovery.board import Board as RecoveryBoard
from recovery.policy import Budget, Rules
from recovery.web import Pages as RecoveryPages
from tests.detector.kernel import Clock, record
from tests.detector.process import neuron_line
from tests.detector.rig import CATALOG, OURS, Rig
from tests.recovery.machines import DMA, HANG, SRAM, T0, SimNode
from tests.recovery.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

START = T0
SECONDS = 7200
EVERY_SECONDS = 30  # between two scrapes
NAMESPACE = "neuron-healthcheck-system"
DETECTORS = f"{NAMESPACE}/node-problem-detector"  # the jobs, as the Prometheus operator names them
RECOVERY = f"{NAMESPACE}/chipwarden-recovery"
STORY: Final = 5  # the one of the first nodes that has a bit of everything
_NUMBER_OF_RECORDS = 40  # of each node, between two scrapes
_CALLS = {"mark": "SetInstanceHealth", "group": "DescribeAutoScalingGroups", "group_of": "DescribeAutoScalingInstances"}


class Scrape(NamedTuple):
    """One scrape of all targets.

    Args:
        at: Unix seconds.
        pages: by the labels of each target; None = it did not answer.
    """

    at: float
    pages: dict[tuple[tuple[str, str], ...], str | None]


class Watched:
    """A node's detector.

    Args:
        folder: of its state file and its device.
        node: in the world.
        now: the time there.
    """

    def __init__(self, folder: Path, node: SimNode, now: datetime) -> None:
        folder.mkdir()
        self.device = folder / "kmsg"
        self.plug()
        self.node = node
        self.is_reachable = True
        self._folder = folder
        self._enabled: bool | None = None
        self.boots(now)

    def boots(self, now: datetime) -> None:
        """Start its detector anew, as after a reboot of its node: what a reboot ends is over."""
        self.rig = Rig(self._folder, path=self.device)
        self.rig.board.instance = self.node.instance
        self.rig.clock.seconds += (now - self.rig.clock.now()).total_seconds()
        self._sequence = 0
        self._pages: DetectorPages | None = None

    def plug(self) -> None:
        """Have the device there."""
        self.device.symlink_to("/dev/null")  # what is read from it, the rig answers

    def page(self) -> str:
        """Write its page."""
        if self._pages is None or self._enabled != self.node.enabled:
            self._enabled = self.node.enabled
            settings = Settings(recovery_enabled=self.node.enabled)
            self._pages = DetectorPages(self.rig.board, CATALOG, settings)
        return self._pages.metrics().body.decode()

    def lives(self, seconds: float) -> None:
        """Let time pass; the driver prints what a healthy one prints, if the log can be read."""
        if self.device.exists() and not self.rig.sight.is_up:
            self.rig.goes_on(seconds)  # it is opened again
        else:
            self.rig.clock.seconds += seconds
        if self.rig.sight.is_up and self.device.exists():
            self.reads(*(f"nd0: dma queue {number} is idle" for number in range(_NUMBER_OF_RECORDS)))
            if self.rig.clock.seconds % 300 < seconds:
                self.rig.board.count_request("PATCH", "200")  # a heartbeat
        else:
            self.rig.answers.left = [errno.EIO] * 4  # it tries more than once
            self.rig.agent.step()
            self.rig.answers.left.clear()
        self.node.blind = None if self.rig.sight.is_up else "the detector cannot read the kernel log"

    def reads(self, *texts: str, priority: int = 6) -> None:
        """Have the kernel print lines."""
        lines = []
        for text in texts:
            self._sequence += 1
            lines.append(record(self._sequence, text, priority=priority))
        self.rig.reads(*lines)

    def overruns(self, lost: int) -> None:
        """Have so many records overwritten before they were read."""
        self._sequence += lost
        self.rig.reads(errno.EPIPE)

    def fails(self, code: str, latency_seconds: float) -> None:
        """Have the driver print a fault, which reaches the API server after that time."""
        self.reads(neuron_line(code, OURS), priority=3)
        self.rig.board.count_request("PATCH", "200")
        self.rig.board.count_request("POST", "201")
        self.rig.board.latency.observe(latency_seconds)


class Incident:
    """A fleet of two groups, its detectors and recovery's two replicas.

    Args:
        folder: for the detectors' files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self.world = World()
        self.names = [*self.world.add_group("trn1-a", 12), *self.world.add_group("trn1-b", 8)]
        for group in self.world.groups.values():
            group.terminate_seconds, group.launch_seconds = 90, 300
        self.process = self.world.process(Rules(budget=Budget(storm_nodes=2)))
        self._boards = {
            "chipwarden-recovery-0": RecoveryBoard(Clock()),
            "chipwarden-recovery-1": RecoveryBoard(Clock()),
        }
        self._leader = self._boards["chipwarden-recovery-0"]
        self._counted = 0
        self.watched: dict[str, Watched] = {}
        assert self.names == [node_name(index) for index in range(len(self.names))]
        self._meet()
        for name in self.names[16:]:
            self.world.nodes[name].enabled = False  # not switched on everywhere yet
        for name in self.names:
            self.world.nodes[name].pods = ["default/job"]

    @functools.cached_property
    def scrapes(self) -> list[Scrape]:
        """All scrapes; it is played when they are first asked for."""
        return list(self._play())

    def _play(self) -> Iterator[Scrape]:
        for second in range(0, SECONDS + 1, EVERY_SECONDS):
            if second in SCRIPT:
                SCRIPT[second](self)
            self._pass(EVERY_SECONDS)
            yield Scrape(self.world.now.timestamp(), dict(self._targets()))

    def _pass(self, seconds: float) -> None:
        self.world.run(self.process, seconds)
        self._meet()
        for name, watched in self.watched.items():
            if name in self.world.nodes:
                watched.lives(seconds)
        self._leader.end(self.process.controller.snapshot)
        for call, _ in self.world.calls[self._counted :]:
            if call in _CALLS:
                self._leader.count_cloud(_CALLS[call], "ok")
        self._counted = len(self.world.calls)
        if (self.world.now - START).total_seconds() % 60 < seconds:
            self._leader.count_cloud("PutMetricData", "ok")

    def _meet(self) -> None:
        """Start detectors on new nodes."""
        for name, node in self.world.nodes.items():
            if name not in self.watched:
                self.watched[name] = Watched(self._folder / name, node, self.world.now)
                self.watched[name].lives(0.5)

    def _targets(self) -> Iterator[tuple[tuple[tuple[str, str], ...], str | None]]:
        for number, (name, watched) in enumerate(sorted(self.watched.items()), 1):
            if name in self.world.nodes:
                labels = {"job": DETECTORS, "instance": f"10.0.0.{number}:20257", "node": name, "pod": f"npd-{number}"}
                yield _labels(labels), watched.page() if watched.is_reachable else None
        for number, (name, board) in enumerate(self._boards.items(), 1):
            labels = {"job": RECOVERY, "instance": f"10.0.1.{number}:20258", "pod": name}
            yield _labels(labels), RecoveryPages(board).metrics().body.decode()

    def fail(self, index: int, code: str, reason: str, latency_seconds: float = 0.008) -> None:
        """Have a node's device fail: its detector says so, and its condition with it."""
        name = self.names[index]
        self.watched[name].fails(code, latency_seconds)
        self.world.break_node(name, reason)

    def reboot(self, index: int) -> None:
        """Have an operator reboot a node."""
        self.at(index).boots(self.world.now)
        self.world.heal(self.names[index])

    def at(self, index: int) -> Watched:
        """Give the detector of one of the first nodes."""
        return self.watched[self.names[index]]

    def throttle(self) -> None:
        """Have AWS refuse some calls for their number."""
        for _ in range(9):
            self._leader.count_cloud("DescribeAutoScalingGroups", "throttled")


def node_name(index: int) -> str:
    """Name one of the first nodes, as the world does."""
    return f"node-{index + 1:04x}"


def _labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((labels | {"cluster": "train", "namespace": NAMESPACE}).items())


def one_chip_dies_and_the_others_hang(incident: Incident) -> None:
    incident.fail(3, "DMA_ERROR", DMA)
    for index in _HANGING:
        incident.fail(index, "HANG_ON_COLLECTIVES", HANG, 0.012)


def the_nodes_are_rebooted(incident: Incident) -> None:
    for index in _HANGING:
        incident.reboot(index)


def two_of_a_group_fail(incident: Incident) -> None:
    incident.fail(12, "SRAM_UNCORRECTABLE_ERROR", SRAM)
    incident.fail(13, "SRAM_UNCORRECTABLE_ERROR", SRAM, 0.03)


def a_node_fails_where_recovery_is_off(incident: Incident) -> None:
    incident.fail(17, "DMA_ERROR", DMA)


def capacity(words: str | None) -> Callable[[Incident], None]:
    return lambda incident: setattr(incident.world.groups["trn1-b"], "failed", words)


def the_log_is_flooded(incident: Incident) -> None:
    incident.at(STORY).overruns(412)
    incident.at(STORY).reads("the flood is over")
    incident.at(STORY).rig.reads(b"not a record\n")


def a_detector_is_reachable(answer: bool) -> Callable[[Incident], None]:
    return lambda incident: setattr(incident.at(8), "is_reachable", answer)


def a_request_is_refused(incident: Incident) -> None:
    incident.at(STORY).rig.board.count_request("PATCH", "403")


def recovery_is_paused(why: str | None) -> Callable[[Incident], None]:
    return lambda incident: setattr(incident.world, "pause", why)


def a_core_fails(incident: Incident) -> None:
    incident.fail(0, "SRAM_UNCORRECTABLE_ERROR", SRAM)


def a_storm_begins(incident: Incident) -> None:
    for index in (1, 2, STORY):
        incident.fail(index, "DMA_ERROR", DMA)


_HANGING = (*range(3), *range(4, 12))
SCRIPT: dict[int, Callable[[Incident], object]] = {  # by second
    600: one_chip_dies_and_the_others_hang,
    1200: the_nodes_are_rebooted,
    1500: capacity("We currently do not have sufficient trn1.32xlarge capacity"),
    1530: two_of_a_group_fail,
    **dict.fromkeys(range(1800, 2100, EVERY_SECONDS), Incident.throttle),
    2400: the_log_is_flooded,
    2700: a_node_fails_where_recovery_is_off,
    3000: lambda incident: incident.at(STORY).device.unlink(),
    3300: a_detector_is_reachable(answer=False),
    3600: lambda incident: incident.at(STORY).plug(),
    3900: a_detector_is_reachable(answer=True),
    4200: capacity(None),
    **dict.fromkeys(range(4320, 4620, EVERY_SECONDS), a_request_is_refused),
    4800: recovery_is_paused("driver update"),
    4830: a_core_fails,
    5400: recovery_is_paused(None),
    6600: a_storm_begins,
}
END = (START + timedelta(seconds=SECONDS + EVERY_SECONDS)).timestamp()  # of the last scrape
