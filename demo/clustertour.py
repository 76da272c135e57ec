"""`make demo-cluster`: three Nodes on a real API server, from a kernel line to a new Node."""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Final

from demo.cluster import GROUP, KIND, Cluster, Node
from demo.kernellog import fault_line
from demo.voices import AwsVoice, NodeVoice, RecoveryVoice
from tests.chain.place import SHIPPED

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    from demo.kernellog import KernelLog
    from demo.stage import Stage

HANG: Final = "NeuronHasError_HANG_ON_COLLECTIVES"
SRAM: Final = "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"
DMA: Final = "NeuronHasError_DMA_ERROR"
_NAMES: Final = ("trn1-node-1", "trn1-node-2", "trn1-node-3")
_WHY: Final = "driver update"
_STEP_SECONDS: Final = 60.0
_COLUMNS: Final = (
    "NODE:.metadata.name,"
    'NEURONHASERROR:.status.conditions[?(@.type=="NeuronHasError")].status,'
    'REASON:.status.conditions[?(@.type=="NeuronHasError")].reason,'
    "TAINT:.spec.taints[*].key"
)


class ClusterTour:
    """The scenes, in order.

    Args:
        stage: where they play.
        log: the kernel log of all machines.
        folder: for all files.
        stack: ends what was started.
    """

    def __init__(self, stage: Stage, log: KernelLog, folder: Path, stack: contextlib.ExitStack) -> None:
        self._stage = stage
        self._screen = stage.screen
        self._log = log
        self._folder = folder
        self._stack = stack
        self._joined = len(_NAMES)
        self._names: dict[str, str] = {}  # of Nodes, by instance

    def play(self) -> None:
        """Play all scenes, then stay until somebody stops it, if there is somebody."""
        self._open()
        for scene in (self._healthy, self._hang, self._paused, self._replaced, self._ledger):
            scene()
            self._stage.rest()
        self._close()

    def _open(self) -> None:
        screen = self._screen
        screen.title("Chipwarden on Kubernetes: three Nodes, from a line in a kernel log to a new Node")
        screen.pair("real", "kube-apiserver with etcd and manifests/base; detectors and recovery with their own rights")
        screen.pair("kernel log", self._log.name)
        screen.pair("played", "AWS (moto's server and an Auto Scaling group), kubelet, DaemonSet and cloud controller")
        screen.pair("shortened", "confirmFor 2 s (default 10 s), drainTimeout 30 s, so that you see the drain")
        cluster = self._cluster = Cluster(self._stage, self._log, self._folder, self._stack)
        instances = cluster.make_group(len(_NAMES))
        nodes = [cluster.add(name, instance) for name, instance in zip(_NAMES, instances, strict=True)]
        self._first, self._second, self._third = nodes
        self._names |= {node.instance: node.name for node in nodes}
        cluster.wait_ready(*nodes)
        self._recovery = cluster.recovery("run")
        cluster.start(self._recovery)
        self._stage.until(self._recovery.port, seconds=_STEP_SECONDS, what="recovery starts")
        leads = ("chipwarden_recovery_leader", ())
        sees = ("chipwarden_recovery_observations", ("healthy",))
        metrics = self._recovery.metrics
        self._stage.until(lambda: metrics().get(leads), seconds=_STEP_SECONDS, what="recovery takes the Lease")
        self._stage.until(
            lambda: metrics().get(sees) == len(_NAMES), seconds=_STEP_SECONDS, what="recovery sees all Nodes"
        )
        self._voice = RecoveryVoice(self._recovery, screen, has_cluster=True)
        self._aws_voice = AwsVoice(cluster.aws, GROUP, screen, self._names)
        for voice in (self._voice, self._aws_voice, self._join):
            self._stage.hear(voice)
        screen.began()
        screen.pair("KUBECONFIG", str(cluster.plane.kubeconfig))

    def _healthy(self) -> None:
        self._screen.scene(1, "Nothing is wrong")
        self._show_nodes()

    def _hang(self) -> None:
        node = self._first
        self._screen.scene(
            2,
            f"A hang in collectives on {node.name}",
            "All three detectors read one log here; only the one that the line names takes it for its own.",
        )
        self._break(node, HANG)
        key = ("chipwarden_recovery_decisions_total", ("none", HANG))
        self._stage.until(lambda: self._recovery.metrics().get(key), seconds=_STEP_SECONDS, what="recovery decides")
        others = [each for each in (self._second, self._third) if each.foreign()]
        names = " and ".join(each.name for each in others)
        self._screen.say("detector", f"{names}: another machine's line, counted and left alone", tone="good")
        text = "refuses: the action for this reason is none, whatever the line asks for"
        self._screen.say("recovery", text, tone="refused")

    def _paused(self) -> None:
        node = self._second
        self._screen.scene(
            3, f"A chip of {node.name} dies while recovery is paused", "Said at once; nothing is touched."
        )
        for number in (1, 2):
            self._cluster.place.add_pod(node.name, 1, app="job", name=f"job-{number}")
        self._node_voice = NodeVoice(node, functools.partial(self._cluster.pods_of, node, "job"), self._screen)
        self._command("pause", _WHY)
        self._break(node, DMA)
        self._stage.hear(self._node_voice)
        self._stage.until(lambda: "blocked" in self._voice.steps, seconds=_STEP_SECONDS, what="recovery decides")

    def _replaced(self) -> None:
        self._screen.scene(
            4, "Somebody lets it go on", "Fence, drain, SetInstanceHealth, follow: each step is in the ledger first."
        )
        self._command("resume")
        self._stage.until(lambda: self._aws_voice.in_service, seconds=_STEP_SECONDS, what="a new machine")
        node = self._cluster.nodes[-1]
        self._stage.until(lambda: "replaced" in self._voice.steps, seconds=_STEP_SECONDS, what="recovery follows")
        self._cluster.wait_ready(node)
        found = node.condition()
        self._screen.say("detector", f"{node.name}: {KIND}={found['status']} ({found['reason']})", tone="good")

    def _join(self) -> None:
        """Have each new machine join the cluster."""
        for instance in self._aws_voice.in_service.keys() - {node.instance for node in self._cluster.nodes}:
            if instance in self._aws_voice.serving():
                self._joined += 1
                node = self._cluster.add(f"trn1-node-{self._joined}", instance)
                self._names[instance] = node.name
                self._screen.say("Kubernetes", f"{node.name} joins, the Node of {instance}")

    def _ledger(self) -> None:
        self._screen.scene(5, "What is written down")
        self._command("ledger")
        self._show_nodes()

    def _close(self) -> None:
        screen, first = self._screen, self._first.name
        another = f"--instance-id {self._third.instance} --kmsg {self._log.path}"
        screen.title("")
        if not sys.stdin.isatty():
            screen.note("The cluster ends here; at a terminal it stays up, and you can look at it with kubectl.")
            return
        screen.title("Try it yourself, in a second terminal")
        for line in (
            f"export KUBECONFIG={self._cluster.plane.kubeconfig}",
            f"alias kubectl={self._cluster.kubectl}",
            f"kubectl describe node {first}",
            "kubectl get events --sort-by=.lastTimestamp",
            f"kubectl get configmap recovery-ledger -n {SHIPPED} -o jsonpath='{{.data.ledger\\.json}}'",
            f"kubectl annotate node {first} chipwarden.io/clear={HANG}",
            f"{sys.executable} -m detector inject {SRAM} {another}  # and look here",
        ):
            screen.command(line)
        screen.title("")
        screen.note("Ctrl-C ends the cluster and removes everything.")
        self._stage.stay("the cluster is up; Ctrl-C ends it")

    def _break(self, node: Node, reason: str) -> None:
        """Have a chip of a Node break, and wait until its condition says so."""
        line = fault_line(reason, {"instance-id": node.instance, "hostname": node.name, "nd-id": "11"})
        at = self._log.write(line)
        self._screen.say("kernel log", line, at=at)
        found = self._stage.until(
            lambda: [each for each in (node.condition(),) if each.get("status") == "True"],
            seconds=_STEP_SECONDS,
            what=f"the condition of {node.name}",
        )[0]
        after = (time.monotonic() - at) * 1000
        text = f"after {after:.0f} ms: {node.name} {KIND}={found['status']} ({found['reason']})"
        self._screen.say("detector", text, tone="bad")

    def _command(self, name: str, *words: str) -> None:
        """Show a command of recovery, and what it prints."""
        shown = " ".join([name, *(f'"{word}"' for word in words)])
        self._screen.say("you", f"$ chipwarden-recovery {shown}")
        self._screen.text(self._cluster.run(self._cluster.recovery(name, *words)))

    def _show_nodes(self) -> None:
        self._screen.say("you", "$ kubectl get nodes -o custom-columns=NODE:.metadata.name,NEURONHASERROR:...")
        self._screen.text(self._cluster.plane.kubectl("get", "nodes", "-o", f"custom-columns={_COLUMNS}"))
