"""A cluster whose nodes come and go by Karpenter's will: control plane, Karpenter itself, kwok in place of kubelets.

Why here: pods get NodeClaims and nodes within seconds, budgets and evictions are real, and nothing runs on any node. It
must not do what Karpenter does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.karpenter import build
from tests.kubernetes.binaries import MissingError, program
from tests.kubernetes.client import KubectlError
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.overlay import MANIFESTS, NAMESPACE
from tests.kubernetes.process import Process, free_port, wait_until

if TYPE_CHECKING:
    from pathlib import Path

POOL = "trn"


class Fleet(ControlPlane):
    """All that `ControlPlane` can do, and nodes for all pods.

    Args:
        folder: Data, keys and logs.

    Raises:
        MissingError: Karpenter or kwok is not built.
    """

    def __init__(self, folder: Path) -> None:
        built = build.folder()
        if not build.is_complete(built):
            raise MissingError("karpenter and kwok are not built: run `python3 tests/karpenter/build.py`")
        super().__init__(folder)
        self._built = built
        self._stages = folder / "stages.yaml"
        self._controllers = [
            self._process("kube-controller-manager", self._controller_manager_command()),
            self._process("kube-scheduler", self._scheduler_command()),
        ]
        self.karpenter = Process(
            "karpenter", [str(built / "karpenter")], log=folder / "karpenter.log", environment=self._environment()
        )
        self.kwok = self._process("kwok", self._kwok_command())

    def start(self) -> None:
        """Start everything, and return when a NodePool is there and pods can be made.

        Raises:
            ProcessError: Something did not start; nothing is left running.
        """
        try:
            super().start()
            for process in self._controllers:
                process.start()
            crds = [f"--filename={self._built / name}" for name in ("crds", "kwok-crds")]
            self.kubectl("apply", *crds)
            self.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
            self._stages.write_text(self.kubectl("kustomize", str(self._built / "stage" / "fast")))
            self.kwok.start()
            self.karpenter.start()
            self.apply(*_pool())
            wait_until(self._takes_pods, seconds=60, what="ready for pods")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything."""
        for process in (self.karpenter, self.kwok, *self._controllers):
            process.stop(grace_seconds=0)
        super().stop()

    def _takes_pods(self) -> bool:
        try:
            self.get("serviceaccount", "default")
            pool = self.get("nodepool", POOL)
        except KubectlError:
            return False
        conditions = pool.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _controller_manager_command(self) -> list[str]:
        return [
            program("kube-controller-manager"),
            f"--kubeconfig={self.kubeconfig_for(self.tokens['system:kube-controller-manager'])}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            f"--service-account-private-key-file={self.service_account_key}",
            f"--root-ca-file={self.authority}",
        ]

    def _scheduler_command(self) -> list[str]:
        return [
            program("kube-scheduler"),
            f"--kubeconfig={self.kubeconfig_for(self.tokens['system:kube-scheduler'])}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            "--leader-elect=false",
        ]

    def _kwok_command(self) -> list[str]:
        return [
            str(self._built / "kwok"),
            f"--kubeconfig={self.kubeconfig}",
            f"--config={self._stages}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
        ]

    def _environment(self) -> dict[str, str]:
        """Return what Karpenter is told; all but the batch window as its own chart sets it for kwok."""
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBERNETES_MIN_VERSION": "1.19.0-0",
            "SYSTEM_NAMESPACE": "kube-system",
            "DISABLE_LEADER_ELECTION": "true",
            "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(free_port()),
            "BATCH_IDLE_DURATION": "300ms",
            "BATCH_MAX_DURATION": "2s",
        }


def account(fleet: Fleet) -> Path:
    """Return a kubeconfig of recovery's account, with the rights of the manifests and no others."""
    for name in ("namespace", "recovery-rbac"):
        fleet.kubectl("apply", "-f", str(MANIFESTS / "base" / f"{name}.yaml"))
    return fleet.kubeconfig_for(fleet.token("node-problem-detector", namespace=NAMESPACE))


def _pool() -> list[dict[str, Any]]:
    """Describe a NodePool whose nodes are only ended when somebody asks for it."""
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    node_class = {"name": "default", "kind": "KWOKNodeClass", "group": "karpenter.kwok.sh"}
    template = {"spec": {"requirements": requirements, "nodeClassRef": node_class, "expireAfter": "Never"}}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    return [
        {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}},
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": POOL},
            "spec": {"template": template, "disruption": disruption},
        },
    ]
