"""`make demo`: one machine of an Auto Scaling group, from a quiet kernel log to its replacement.

Detector, recovery and all that they write are real; the kernel log may be a recorded one, AWS is played.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Final

from demo.kernellog import fault_line, noise
from demo.machine import KIND, Machine
from demo.summary import Facts, summary
from demo.voices import MARK, AwsVoice, RecoveryVoice
from tests.aws.surroundings import Aws

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    from demo.kernellog import KernelLog
    from demo.parts import Part
    from demo.stage import Stage

GROUP: Final = "trn1-workers"
SIZE: Final = 4
HANG: Final = "NeuronHasError_HANG_ON_COLLECTIVES"
DMA: Final = "NeuronHasError_DMA_ERROR"
_CORRECTED: Final = "NeuronHasError_OTHER"
_LAUNCH_SECONDS, _TERMINATE_SECONDS = 2.0, 1.0
_HOUR_SECONDS: Final = 3600.0
_FLOOD_SECONDS: Final = 60.0
_COMMAND_SECONDS: Final = 20.0
_REPLACED_SECONDS: Final = 40.0
_SHOWN: Final = ("C2", "N16", "N21")  # of the ordinary lines
_CODE: Final = "NEURON_HW_ERR"
_FAULT_LINES: Final = 3  # besides the flood


class Tour:
    """The scenes, in order.

    Args:
        stage: where they play.
        log: the kernel log.
        folder: for all files.
        stack: ends what was started.
    """

    def __init__(self, stage: Stage, log: KernelLog, folder: Path, stack: contextlib.ExitStack) -> None:
        self._stage = stage
        self._screen = stage.screen
        self._log = log
        self._folder = folder
        self._stack = stack
        self.facts = Facts()

    def play(self) -> None:
        """Play all scenes."""
        self._open()
        for scene in (self._quiet, self._corrected, self._hang, self._flood, self._broken, self._successor):
            scene()
            self._stage.rest()
        summary(self._screen, self.facts)

    def _open(self) -> None:
        """Start everything."""
        screen = self._screen
        screen.title("Chipwarden: one machine, from a line in its kernel log to its replacement")
        screen.pair("real", "the detector and recovery, as programs of their own, and all that they write")
        screen.pair("kernel log", self._log.name)
        screen.pair("played", f"AWS (moto's server), with an Auto Scaling group of {SIZE} trn1.32xlarge")
        screen.pair("shortened", "confirmFor 2 s (default 10 s), standaloneWait 0 s (30 s), so that you need not wait")
        self._aws = self._stack.enter_context(Aws())
        player = self._aws.player
        player.make_group(SIZE, name=GROUP, launch_seconds=_LAUNCH_SECONDS, terminate_seconds=_TERMINATE_SECONDS)
        self._stage.check()
        self._machine = Machine(self._stage, self._log, self._folder / "machine", player.instances(GROUP)[1])
        self._start(self._machine.detector)
        self._machine.wait_ready()
        self._recovery = self._machine.recovery("run", self._aws.env())
        self._start(self._recovery)
        self._stage.until(self._recovery.port, seconds=_COMMAND_SECONDS, what="recovery starts")
        self._stage.until(lambda: self._recovery.page("/readyz"), seconds=_COMMAND_SECONDS, what="recovery looks")
        self._recovery_voice = RecoveryVoice(self._recovery, screen)
        self._aws_voice = AwsVoice(self._aws, GROUP, screen, {self._machine.instance: "this machine"})
        self._stage.hear(self._recovery_voice)
        self._stage.hear(self._aws_voice)
        self._fields = {"instance-id": self._machine.instance, "hostname": "trn1-node"}
        screen.began()
        screen.pair("machine", f"{self._machine.instance}, of group {GROUP}; detector {self._machine.detector.url}")

    def _start(self, part: Part) -> None:
        self._stack.callback(part.stop)
        part.start()
        self._stage.watch(part)

    def _quiet(self) -> None:
        """Ordinary lines."""
        lines, before = noise(), self._machine.records()
        traps = sum(_CODE in line.text for line in lines)
        self._screen.scene(
            1,
            "An ordinary day",
            f"{traps} of these lines hold {_CODE}, and none is a fault: log daemons, process names, command lines.",
        )
        for line in lines:
            self._log.write(line.text, line.priority)
            if line.name in _SHOWN:
                self._screen.quote("kernel log", line.text)
        self._screen.say("kernel log", f"... and {len(lines) - len(_SHOWN)} more", tone="dim")
        self._wait_read(before + len(lines))
        status = self._machine.condition()
        self._screen.say(
            "detector",
            f"read {self._machine.records() - before} lines, lost {self._machine.lost()}: {_told(status)}",
            tone="good",
        )
        self.facts.traps = traps

    def _corrected(self) -> None:
        """A code that must not condemn."""
        self._screen.scene(
            2,
            "A memory error that can be repaired",
            "Not one of the five codes that condemn: said and counted, the node stays.",
        )
        before = self._machine.count("problem_counter", _CORRECTED)
        at = self._write(fault_line(_CORRECTED, self._fields | {"nd-id": "2"}))
        counted = self._machine.count
        self._stage.until(
            lambda: counted("problem_counter", _CORRECTED) > before, seconds=_COMMAND_SECONDS, what="it is counted"
        )
        text = f"{_after(at)}: an Event, {_CORRECTED}; {KIND}={self._machine.condition()['status']}"
        self._screen.say("detector", text, tone="good")

    def _hang(self) -> None:
        """What recovery refuses for good."""
        self._screen.scene(
            3,
            "A hang in collectives",
            "When one chip dies, all other workers of its job print this line. Replacing them would end the job.",
        )
        at = self._write(fault_line(HANG, self._fields))
        self.facts.hang_seconds = self._machine.wait_for_gauge(HANG) - at
        fault = self._machine.faults()[HANG]
        self._screen.say("detector", f"{_after(at)}: {KIND}=True, {HANG} ({fault['faultClass']})", tone="bad")
        key = ("chipwarden_recovery_decisions_total", ("none", HANG))
        self._stage.until(lambda: self._recovery.metrics().get(key), seconds=_COMMAND_SECONDS, what="recovery decides")
        self._screen.say(
            "recovery",
            f"refuses: the action for this reason is {fault['action']}, whatever the line asks for",
            tone="refused",
        )
        self.facts.refused = "to replace a machine for a hang in collectives: a person has to look at the job"

    def _flood(self) -> None:
        """The same line again and again."""
        count = self._log.flood
        memory = self._machine.detector.resident_megabytes()
        self._screen.scene(
            4, f"The same line {count:,} times more", "One condition, one line in its log, an exact count."
        )
        began = time.monotonic()
        self._log.inject(HANG, self._fields, count)
        self._screen.say("kernel log", f"{count:,} lines in {time.monotonic() - began:.1f} s")
        counted = self._counted
        self._stage.until(lambda: counted() > count, seconds=_FLOOD_SECONDS, what="the detector reads them")
        grown = max(0.0, self._machine.detector.resident_megabytes() - memory)
        total, lost = self._machine.faults()[HANG]["count"], self._machine.lost()
        said = self._machine.detector.output().count(f'"reason":"{HANG}"')
        self._screen.say(
            "detector", f"seen {total:,} times in all, lost {lost}, logged {said} time{'s' * (said != 1)}", tone="good"
        )
        self._screen.say("detector", f"{_told(self._machine.condition())}, {grown:.1f} MB more memory", tone="good")

    def _counted(self) -> int:
        """Tell how many lines of the flood are accounted for."""
        return int(self._machine.faults().get(HANG, {}).get("count", 0)) + self._machine.lost()

    def _broken(self) -> None:
        """A chip dies while another machine of the group is out already."""
        voice, aws, facts = self._recovery_voice, self._aws_voice, self.facts
        self._screen.scene(
            5,
            "A chip dies, while another machine of the group is out already",
            f"At most a fifth of a group may be out: one of {SIZE}. So recovery has to wait, and says why.",
        )
        other = self._aws.player.instances(GROUP)[2]
        with self._aws.player.lock:
            self._aws.player.manner(GROUP).launch_seconds = _HOUR_SECONDS  # until recovery has looked
            self._aws.player.set_state(other, "Terminating")
        self._stage.rest(0.2)
        at = self._write(fault_line(DMA, self._fields | {"nd-id": "11", "nc-id": "1"}))
        facts.metric_seconds = self._machine.wait_for_gauge(DMA) - at
        fault = self._machine.faults()[DMA]
        text = f"{_after(at)}: {KIND}=True, {DMA} ({fault['faultClass']}: {fault['action']})"
        self._screen.say("detector", text, tone="bad")
        for step, what in (
            ("fenced", "recovery: has it lasted for 2 s?"),
            ("blocked", "recovery asks Auto Scaling about the group"),
            ("admitted", "recovery: until the other machine is replaced"),
            ("replaced", "recovery follows until a new machine is in service"),
        ):
            self._stage.until(functools.partial(voice.steps.get, step), seconds=_REPLACED_SECONDS, what=what)
            if step == "blocked":
                self._stage.rest(_LAUNCH_SECONDS)
                self._aws.player.manner(GROUP).launch_seconds = _LAUNCH_SECONDS
        facts.waits = voice.refusals
        facts.confirmed_seconds = voice.steps["fenced"] - at
        facts.held_seconds = voice.steps["admitted"] - voice.steps["blocked"]
        facts.marked_seconds = (aws.marked_at or at) - at
        facts.replaced_seconds = max(aws.in_service.values()) - at
        facts.calls, facts.marks = len(self._aws.proxy.calls), len(self._aws.proxy.of(MARK))
        facts.read, facts.lost = self._machine.records(), self._machine.lost()
        self._show_ledger()

    def _show_ledger(self) -> None:
        ledger = self._machine.recovery("ledger", self._aws.env())
        self._stack.callback(ledger.stop)
        ledger.start()
        self._stage.until(lambda: ledger.ended() is not None, seconds=_COMMAND_SECONDS, what="recovery ledger")
        self._screen.say("you", "$ chipwarden-recovery ledger")
        self._screen.text(ledger.output())

    def _successor(self) -> None:
        """The new machine."""
        (new,) = [each for each in self._aws_voice.serving() if each == self._newest()]
        self._screen.scene(
            6, "The new machine", "It is given the old machine's kernel log: a verdict belongs to an instance."
        )
        self._stage.forget(self._machine.detector)
        self._stage.forget(self._recovery)
        self._machine.detector.kill()
        self._recovery.kill()
        self._screen.say(
            "AWS",
            f"{self._machine.instance} ends, and its programs with it (the demo kept them until now)",
            tone="dim",
        )
        successor = Machine(self._stage, self._log, self._folder / "successor", new, "new machine's detector")
        self._start(successor.detector)
        successor.wait_ready()
        expected = self._log.flood + _FAULT_LINES
        foreign = "chipwarden_detector_foreign_lines_total"
        self._stage.until(
            lambda: successor.count(foreign) >= expected, seconds=_COMMAND_SECONDS, what="it reads the old lines"
        )
        status, count = successor.condition(), successor.count(foreign)
        text = f"{count:,} lines name another machine: {_told(status)}"
        self._screen.say("detector", text, tone="good")

    def _newest(self) -> str:
        return max(self._aws_voice.in_service, key=lambda each: self._aws_voice.in_service[each])

    def _write(self, line: str) -> float:
        at = self._log.write(line)
        self._screen.say("kernel log", line, at=at)
        return at

    def _wait_read(self, count: int) -> None:
        self._stage.until(
            lambda: self._machine.records() >= count, seconds=_COMMAND_SECONDS, what="the detector reads them"
        )


def _after(at: float) -> str:
    """Tell how long ago the line was written."""
    return f"after {(time.monotonic() - at) * 1000:.0f} ms"


def _told(condition: dict[str, str]) -> str:
    """Write a condition."""
    return f"{KIND}={condition['status']} ({condition['reason']})"
