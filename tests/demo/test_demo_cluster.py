"""`make demo-cluster`, once: a visitor plays it at a terminal, and tries what it offers."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.demo.visitor import Visitor
from tests.detector.process import environment

if TYPE_CHECKING:
    from pathlib import Path

DMA, HANG = "NeuronHasError_DMA_ERROR", "NeuronHasError_HANG_ON_COLLECTIVES"
SRAM = "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"
ID = "i-[0-9a-f]{17}"
INVITATION = "Ctrl-C ends the cluster"
STORY = (
    "^Chipwarden on Kubernetes",
    r"^   trn1-node-1 +False +NeuronHasNoError +<none>",
    r"^   trn1-node-3 +False +NeuronHasNoError +<none>",
    rf"detector +after \d+ ms: trn1-node-1 NeuronHasError=True \({HANG}\)",
    "detector +trn1-node-2 and trn1-node-3: another machine's line",
    "recovery +refuses: the action for this reason is none",
    'you +\\$ chipwarden-recovery pause "driver update"',
    rf"detector +after \d+ ms: trn1-node-2 NeuronHasError=True \({DMA}\)",
    "recovery +Blocked, Paused: driver update",
    r"you +\$ chipwarden-recovery resume",
    "recovery +fenced: dead",
    f"AWS +is asked: SetInstanceHealth {ID} Unhealthy",
    rf"AWS +{ID} \(trn1-node-2\) is being terminated",
    "Kubernetes +trn1-node-2 is removed",
    f"Kubernetes +trn1-node-4 joins, the Node of {ID}",
    f"recovery +replaced: {ID} is in service",
    r"detector +trn1-node-4: NeuronHasError=False \(NeuronHasNoError\)",
    f"trn1-node-2 +{ID} +trn1-workers +{DMA} +replaced +replaced",
    f"^   trn1-node-1 +True +{HANG}",
    "^   trn1-node-4 +False",
    "^Try it yourself",
)


@pytest.mark.real
def test_a_visitor_sees_nodes_fenced_and_replaced_and_tries_the_commands(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with Visitor(tmp_path, "--cluster", "--recorded", stdin=theirs) as visitor:
        visitor.wait_for(INVITATION, seconds=120)
        visitor.assert_told(*STORY)
        visitor.assert_told("Kubernetes +trn1-node-2 is cordoned, with the taint chipwarden.io/unhealthy=dead")
        visitor.assert_told("Kubernetes +pods of the job left on trn1-node-2: 0")
        said = [line.strip() for line in visitor.out.partition("Try it yourself")[2].splitlines()[1:]]
        commands = [line for line in said if line and INVITATION not in line]
        shown = _typed(commands)
        assert f"{HANG}" in shown
        assert '"outcome":"replaced"' in shown.replace(" ", "")
        visitor.wait_for("trn1-node-5 joins", seconds=60)  # the last command broke a chip of another Node
        visitor.send(signal.SIGINT)
        assert visitor.end(30) == 0, visitor.err
        visitor.assert_nothing_left()
    os.close(theirs)
    os.close(ours)


def _typed(commands: list[str]) -> str:
    """Type commands at a shell, one after the other; return what they print."""
    script = "\n".join(["set -e", "shopt -s expand_aliases", *commands])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment(), timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.real
def test_programs_that_are_missing_are_said_in_one_sentence(tmp_path: Path) -> None:
    with Visitor(tmp_path, "--cluster", "--recorded", env={"KUBEBUILDER_ASSETS": str(tmp_path)}) as visitor:
        assert visitor.end(30) == 1
        assert visitor.err.startswith(f"demo: KUBEBUILDER_ASSETS={tmp_path} has no etcd: run ")
        assert visitor.err.count("\n") == 1
        visitor.assert_nothing_left()
