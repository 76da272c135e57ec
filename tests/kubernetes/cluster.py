"""A real cluster of one node: control plane, controller manager, scheduler, kubelet, in one sandbox.

Why here: the end-to-end runs. Everything in it listens inside the sandbox; a forwarder on loopback lets pytest in.
It has neither kube-proxy nor DNS: the API server's Service address works because it is the server's own, others do not.
"""

import os
import sys
from pathlib import Path

from tests.kubernetes import node
from tests.kubernetes.binaries import program, require_node
from tests.kubernetes.client import KubectlError
from tests.kubernetes.controlplane import SERVICE_ADDRESS, ControlPlane
from tests.kubernetes.process import Process, free_port
from tests.kubernetes.sandbox import Sandbox

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_PORT = 443  # that of the Service "kubernetes"
_INSIDE = f"https://127.0.0.1:{_PORT}"


class Cluster(ControlPlane):
    """All that `ControlPlane` can do, and one Node on which pods run.

    Args:
        folder: Data, keys and logs; not under /run, /var/lib or /var/log.

    Raises:
        MissingError: What a node needs is not on this machine.
    """

    def __init__(self, folder: Path) -> None:
        require_node()
        self.sandbox = Sandbox(folder)
        port = free_port()
        super().__init__(
            folder / "controlplane",
            url=f"https://127.0.0.1:{port}",
            listen=("0.0.0.0", _PORT),  # noqa: S104  # of the sandbox, which has no other network
            node=node.NAME,
            enter=self.sandbox.enter,
        )
        self.node = node.Node(
            self.sandbox,
            kubeconfig=self.kubeconfig_for(self.tokens[f"system:node:{node.NAME}"], url=_INSIDE),
            authority=self.authority,
        )
        self.controller_manager = self._process("kube-controller-manager", self._controller_manager_command())
        self.scheduler = self._process("kube-scheduler", self._scheduler_command())
        self._forwarder = self._forwarder_process(port)

    def _controller_manager_command(self) -> list[str]:
        kubeconfig = self.kubeconfig_for(self.tokens["system:kube-controller-manager"], url=_INSIDE)
        return [
            program("kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--use-service-account-credentials",
            # At the default of 20 requests per second its controllers take 4 s longer to start.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            f"--service-account-private-key-file={self.service_account_key}",
            f"--root-ca-file={self.authority}",
        ]

    def _scheduler_command(self) -> list[str]:
        kubeconfig = self.kubeconfig_for(self.tokens["system:kube-scheduler"], url=_INSIDE)
        return [
            program("kube-scheduler"),
            f"--kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ]

    def start(self) -> None:
        """Start everything, and return when the Node is Ready and the default namespace takes pods.

        Raises:
            ProcessError: Something did not start; nothing is left running.
        """
        try:
            self.sandbox.start()
            for address in (SERVICE_ADDRESS, node.ADDRESS):
                self.sandbox.run("ip", "address", "add", f"{address}/32", "dev", "lo")
            self._forwarder.start()
            super().start()
            self.controller_manager.start()
            self.scheduler.start()
            self.node.start()
            self.node.kubelet.wait_ready(self._takes_pods, seconds=60)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill everything at once: what could be left behind is in the sandbox, and goes with it."""
        self.sandbox.stop()
        control = [self.etcd, self.apiserver, self.controller_manager, self.scheduler]
        for process in [*control, self.node.containerd, self.node.kubelet, self._forwarder]:
            process.stop(grace_seconds=0)

    def remove_data(self) -> None:
        """Remove all but the logs."""
        super().remove_data()
        self.sandbox.remove_files()

    def _forwarder_process(self, port: int) -> Process:
        module = [sys.executable, "-m", "tests.kubernetes.forwarder"]
        return Process(
            "forwarder",
            [*module, str(port), "127.0.0.1", str(_PORT)],
            log=self.sandbox.folder / "forwarder.log",
            environment={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
            enter=lambda command: [*command, str(self.sandbox.pid)],
        )

    def _takes_pods(self) -> bool:
        """Tell whether the Node is Ready and the controller manager has made the account that pods have by default."""
        try:
            found = self.get("node", node.NAME)
            self.get("serviceaccount", "default")
        except KubectlError:
            return False
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"]["conditions"])
