"""A real kubelet on containerd and runc, in a sandbox.

Why here: whether a pod may read /dev/kmsg, keeps its state across an update and is drained is only known on a node.
It must not reach beyond its sandbox.
"""

import json
from pathlib import Path
from typing import Any

from tests.kubernetes import image
from tests.kubernetes.binaries import CNI_FOLDER, program
from tests.kubernetes.process import Process
from tests.kubernetes.sandbox import Sandbox

NAME = "node-1"
ADDRESS = "10.99.0.1"  # of the kubelet: it refuses 127.0.0.1
PROVIDER_ID = "aws:///us-east-2b/i-0c0ffee0c0ffee0c0"
_POD_RANGE = "10.98.0.0/24"
_PAUSE_IMAGE = "localhost/pause:test"
_SOCKET = "/run/containerd/containerd.sock"

# Source: https://github.com/containerd/containerd/blob/v1.6.20/docs/cri/config.md (read 2026-11-29).
_CONTAINERD = """
version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true  # a sandboxed root may not lower its own
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{cni}"
  conf_dir = "{network}"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"  # needs no kernel module, works on top of any file system
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
"""
_NETWORK: dict[str, Any] = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni",
                "ranges": [[{"subnet": _POD_RANGE}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
# Source: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/ (read 2026-11-29).
_KUBELET: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": ADDRESS,
    "containerRuntimeEndpoint": f"unix://{_SOCKET}",
    "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    "providerID": PROVIDER_ID,
    "resolvConf": "",
    # The machine may have cgroups of version 1, no systemd, swap, and a nearly full disk that is not ours to clean.
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failSwapOn": False,
    "evictionHard": {"memory.available": "50Mi"},
    "imageGCHighThresholdPercent": 100,
}


class Node:
    """containerd and kubelet of one Node.

    Args:
        sandbox: Started before the node is.
        kubeconfig: Of user ``system:node:node-1``, for a server as seen from inside.
        authority: File with the authority of the API server's client certificate.
    """

    def __init__(self, sandbox: Sandbox, *, kubeconfig: Path, authority: Path) -> None:
        self._sandbox = sandbox
        self._folder = sandbox.folder / "node"
        network = self._folder / "network"
        network.mkdir(parents=True)
        fill = {"pause": _PAUSE_IMAGE, "cni": CNI_FOLDER, "network": network}
        (self._folder / "containerd.toml").write_text(_CONTAINERD.format_map(fill))
        (network / "pods.conflist").write_text(json.dumps(_NETWORK))
        authentication = {"x509": {"clientCAFile": str(authority)}}
        kubelet = {**_KUBELET, "authentication": authentication}
        (self._folder / "kubelet.json").write_text(json.dumps(kubelet))
        self.containerd = self._process("containerd", "containerd", f"--config={self._folder / 'containerd.toml'}")
        self.kubelet = self._process(
            "kubelet",
            program("kubelet"),
            f"--config={self._folder / 'kubelet.json'}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NAME}",
            f"--node-ip={ADDRESS}",
            "--v=1",
        )

    def start(self) -> None:
        """Start containerd with the pause image, then the kubelet; the Node is not Ready yet when this returns.

        Raises:
            ProcessError: One of them did not start; the sandbox's owner ends what did.
        """
        self.containerd.start()
        pause = image.build(
            self._folder / "pause.tar", _PAUSE_IMAGE, {"/pause": program("pause")}, entrypoint=["/pause"]
        )
        self.containerd.wait_ready(self._sandbox.path(_SOCKET).exists, seconds=30)
        self.import_image(pause)
        self.kubelet.start()

    def import_image(self, archive: Path) -> None:
        """Import a docker archive; its name is what the archive says, with ``docker.io/library/`` before a bare name.

        A pod uses it with imagePullPolicy Never or IfNotPresent.
        """
        self._sandbox.run("ctr", "--namespace=k8s.io", "images", "import", "--snapshotter=native", str(archive))

    def path(self, inside: str) -> Path:
        """Return where a file of the node, such as a hostPath volume's, is found from outside."""
        return self._sandbox.path(inside)

    def _process(self, name: str, *command: str) -> Process:
        return Process(name, command, log=self._sandbox.folder / f"{name}.log", enter=self._sandbox.enter)
