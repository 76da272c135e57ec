"""The cluster of `make demo-cluster`: a real API server with the manifests applied, and Nodes with their detectors.

The demo plays kubelet, DaemonSet and cloud controller: it makes pod objects, starts what the pods would run, with the
accounts and rights of the manifests, and removes the Node of a machine that has gone. Must not stand in for anything
of the detector's or recovery's own.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from demo.parts import DemoError, Part
from tests.aws.surroundings import Aws
from tests.chain import aged
from tests.chain.place import APP, SHIPPED, Place
from tests.detector.process import REPOSITORY
from tests.kubernetes.binaries import MissingError, program
from tests.kubernetes.client import KubectlError
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.process import ProcessError, free_port

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    from demo.kernellog import KernelLog
    from demo.stage import Stage
    from tests.kubernetes.process import Process

GROUP: Final = "trn1-workers"
KIND: Final = "NeuronHasError"
_BASE: Final = REPOSITORY / "manifests" / "base"
_DETECTOR_ACCOUNT: Final = "chipwarden-detector"
_STARTS_SECONDS: Final = 60.0
_LAUNCH_SECONDS, _TERMINATE_SECONDS = 2.0, 1.0


class Server:
    """A program of the API server, as the stage looks after it."""

    def __init__(self, process: Process) -> None:
        self.name: Final = process.name
        self._process = process

    def check(self) -> None:
        """Make sure that it runs. Raises DemoError."""
        if not self._process.is_running():
            raise DemoError(f"the {self.name} ended by itself; the end of its log:\n{self.tail()}")

    def tail(self) -> str:
        """Give the last lines that it has written."""
        return self._process.tail(8)


class Node:
    """A Node, its machine and its detector.

    Args:
        cluster: where.
        name: of the Node.
        instance: whose machine it is.
    """

    def __init__(self, cluster: Cluster, name: str, instance: str) -> None:
        self.name = name
        self.instance = instance
        self._cluster = cluster
        folder = cluster.folder / name
        folder.mkdir()
        port = free_port()
        aged.plant(cluster.plane, [aged.node(name, instance)])
        pod = cluster.place.add_pod(name, port, more={"serviceAccountName": _DETECTOR_ACCOUNT})
        token = cluster.plane.token(_DETECTOR_ACCOUNT, namespace=SHIPPED, pod=pod)
        cluster.log.prepare(folder / "state", instance)
        own = ["--kubernetes", "on", "--node-name", name, "--instance-id", instance, "--log-format", "json"]
        own += ["--listen", f"127.0.0.1:{port}", "--state-dir", str(folder / "state"), "--enable-recovery", "true"]
        command = [sys.executable, "-m", "detector", "run", *own, *cluster.log.arguments()]
        env = {"KUBECONFIG": str(cluster.plane.kubeconfig_for(token))}
        self.detector = Part(f"detector of {name}", command, folder, env)

    def object(self) -> dict[str, Any]:
        """Read the Node; {} = there is none."""
        answer = self._cluster.place.admin.ask("GET", f"/api/v1/nodes/{self.name}")
        return dict(answer.body) if answer.code == 200 else {}  # noqa: PLR2004 - HTTP

    def condition(self) -> dict[str, str]:
        """Read its condition; {} = there is none."""
        found: list[dict[str, str]] = self.object().get("status", {}).get("conditions", [])
        return next((each for each in found if each["type"] == KIND), {})

    def is_ready(self) -> bool:
        """Tell whether its detector has published its condition."""
        return bool(self.detector.port()) and bool(self.detector.page("/readyz"))

    def foreign(self) -> int:
        """Tell how many lines its detector has left alone, for they name another machine."""
        return int(self.detector.metrics().get(("chipwarden_detector_foreign_lines_total", ()), 0))


class Cluster:
    """The cluster, empty.

    Args:
        stage: where it is waited for.
        log: the kernel log that all detectors read.
        folder: for all files.
        stack: ends what was started.

    Raises:
        DemoError: something that it needs is missing, or does not start.
    """

    def __init__(self, stage: Stage, log: KernelLog, folder: Path, stack: contextlib.ExitStack) -> None:
        self.log = log
        self.folder = folder
        self.nodes: list[Node] = []
        self._gone: deque[str] = deque()
        self._stage = stage
        self._stack = stack
        try:
            self.plane = ControlPlane(folder / "plane")
            stack.callback(self.plane.stop)
            self.plane.start()
            for process in (self.plane.etcd, self.plane.apiserver):
                stage.watch(Server(process))
            stage.check()
            self.kubectl = program("kubectl")
            self.plane.kubectl("apply", "-k", str(_BASE))
        except (MissingError, ProcessError, KubectlError) as error:
            raise DemoError(str(error)) from error
        self.aws = stack.enter_context(Aws())
        self.place = Place(self.plane, self.aws, folder, SHIPPED)
        self.aws.player.on_gone = self._gone.append  # in the player's thread
        stage.hear(self.bury)

    def add(self, name: str, instance: str) -> Node:
        """Add a Node, and start its detector."""
        node = Node(self, name, instance)
        self.start(node.detector)
        self.nodes.append(node)
        self.place.set_fleet(len(self.nodes))
        return node

    def start(self, part: Part) -> None:
        """Start a part, and look after it until the end."""
        self._stack.callback(part.stop)
        part.start()
        self._stage.watch(part)

    def wait_ready(self, *nodes: Node) -> None:
        """Wait until the detectors of Nodes have published their conditions."""
        for node in nodes:
            self._stage.until(node.is_ready, seconds=_STARTS_SECONDS, what=f"the detector of {node.name} is ready")

    def make_group(self, size: int) -> list[str]:
        """Make the Auto Scaling group; return its instances."""
        player = self.aws.player
        player.make_group(size, name=GROUP, launch_seconds=_LAUNCH_SECONDS, terminate_seconds=_TERMINATE_SECONDS)
        return player.instances(GROUP)

    def recovery(self, command: str, *more: str) -> Part:
        """Make recovery with its own account, or one of its commands with the administrator's."""
        is_run = command == "run"
        kubeconfig = self.place.kubeconfig if is_run else self.plane.kubeconfig
        own = ["--listen", "127.0.0.1:0", "--poll", "1s"] if is_run else []
        settings = self.place.arguments(policies={"default": {"confirmFor": "2s", "drainTimeout": "30s"}})
        arguments = [sys.executable, "-m", "recovery", command, *own, "--log-format", "json", *map(str, settings)]
        name = "recovery" if is_run else f"recovery {command}"
        env = self.place.env(kubeconfig) | {"HOME": "/nonexistent"}
        return Part(name, [*arguments, *more], self.folder, env)

    def run(self, part: Part) -> str:
        """Run a command to its end; return what it has written."""
        self._stack.callback(part.stop)
        part.start()
        self._stage.until(lambda: part.ended() is not None, seconds=_STARTS_SECONDS, what=part.name)
        if part.ended():
            raise DemoError(f"{part.name} failed:\n{part.tail()}")
        return part.output()

    def pods_of(self, node: Node, app: str) -> int:
        """Count the pods of an application on a Node."""
        path = f"/api/v1/namespaces/{SHIPPED}/pods?labelSelector=app={app}&fieldSelector=spec.nodeName={node.name}"
        return len(self.place.admin.ask("GET", path).body["items"])

    def bury(self) -> None:
        """Do as the cloud controller does, and a machine that goes: its Node is removed, its programs have ended."""
        while self._gone:
            instance = self._gone.popleft()
            for node in [each for each in self.nodes if each.instance == instance]:
                self.nodes.remove(node)
                self._stage.forget(node.detector)
                node.detector.kill()
                self.place.admin.ask("DELETE", f"/api/v1/nodes/{node.name}")
                pod = f"/api/v1/namespaces/{SHIPPED}/pods/{APP}-{node.name}"
                self.place.admin.ask("DELETE", pod, {"gracePeriodSeconds": 0})
