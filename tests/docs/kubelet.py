"""Plays kubelet and controllers for the documentation's commands: what the manifests say runs, as processes here.

The API server is real, and there is one Node. When the DaemonSet or the Deployment changes, its process is started anew
with the environment of its pod template and a token of its own account, and the status says that it has rolled out. It
must be called from the main thread: the kernel ends a process with the thread that started it.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tests.detector.process import Detector
from tests.kubernetes.asks import holder
from tests.recovery.program import Recovery

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aws.surroundings import Aws
    from tests.docs.sandbox import Sandbox
    from tests.kubernetes.controlplane import ControlPlane

NAMESPACE = "neuron-healthcheck-system"
DETECTOR_POD = "node-problem-detector-x7k2p"
_APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
_PORT = 20257
_CORE = f"/api/v1/namespaces/{NAMESPACE}"


class Kubelet:
    """One Node's pods, and recovery's.

    Args:
        plane: the API server.
        aws: with the Node's group.
        folder: for all files.
        sandbox: where commands are typed.
        node: name of the Node.
        instance: of the Node.
    """

    def __init__(
        self, plane: ControlPlane, aws: Aws, folder: Path, sandbox: Sandbox, *, node: str, instance: str
    ) -> None:
        self.detector = Detector(folder, instance=instance)
        self.kmsg = folder / "kmsg"
        self.kmsg.touch()
        self.recovery: Recovery | None = None
        self._plane, self._aws, self._folder, self._sandbox = plane, aws, folder, sandbox
        self._node = node
        self._admin = holder(plane, plane.admin_token)
        self._running: dict[str, int] = {}
        # The API server proxies to no loopback address; this one is for documentation, RFC 5737, and the machine's own.
        self._address = f"198.51.100.{secrets.randbelow(200) + 20}"
        subprocess.run(["ip", "address", "add", f"{self._address}/32", "dev", "lo"], check=True)
        sandbox.env["DOCS_PODS"] = str(folder)
        sandbox.env |= self._machine()
        sandbox.words["127.0.0.1:20257"] = f"{self._address}:{_PORT}"

    def _machine(self) -> dict[str, str]:
        """Tell what is the machine's own: its kernel log is a file here, so that nobody else's detector sees it."""
        return {
            "CHIPWARDEN_KMSG": str(self.kmsg),
            "CHIPWARDEN_KMSG_FOLLOW": "true",
            "CHIPWARDEN_INSTANCE_ID": self.detector.instance,
            "CHIPWARDEN_STATE_DIR": str(self.detector.state_dir),
            "CHIPWARDEN_BOOT_ID_FILE": str(self.detector.boot_id_file),
        }

    def step(self) -> None:
        """Bring what runs into line with what the API server says."""
        daemons = "daemonsets/node-problem-detector"
        if self._running.get(daemons) and self._admin.ask("GET", f"{_CORE}/pods/{DETECTOR_POD}").code != HTTPStatus.OK:
            self._running[daemons] = 0  # somebody deleted the pod: there will be another
        self._bring(daemons, self._start_detector, self.detector.kill)
        self._bring("deployments/chipwarden-recovery", self._start_recovery, self._stop_recovery)

    def close(self) -> None:
        """End both."""
        self.detector.kill()
        self._stop_recovery()
        subprocess.run(["ip", "address", "del", f"{self._address}/32", "dev", "lo"], check=True)

    def _bring(self, path: str, start: Any, stop: Any) -> None:
        found = self._admin.ask("GET", f"{_APPS}/{path}")
        is_ours = found.code == HTTPStatus.OK and len(found.body["spec"]["template"]["spec"]["containers"]) == 1
        wanted = found.body["metadata"]["generation"] if is_ours else 0
        if wanted and found.body["spec"].get("replicas") == 0:
            wanted = -wanted
        if self._running.get(path, 0) == wanted:
            return
        stop()
        if wanted > 0:
            start(found.body["spec"]["template"]["spec"])
        if wanted:
            self._say_rolled_out(path, abs(wanted), 1 if wanted > 0 else 0)
        self._running[path] = wanted

    def _say_rolled_out(self, path: str, generation: int, count: int) -> None:
        if path.startswith("daemonsets"):
            names = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady", "numberAvailable")
            status: dict[str, Any] = dict.fromkeys((*names, "updatedNumberScheduled"), count) | {
                "numberMisscheduled": 0
            }
        else:
            names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
            status = dict.fromkeys(names, count * 2)
        done = self._admin.patch(f"{_APPS}/{path}/status", {"status": status | {"observedGeneration": generation}})
        assert done.code == 200, done.text

    def _start_detector(self, spec: dict[str, Any]) -> None:
        env = self._environment(spec)
        self._make_pod(spec["serviceAccountName"])
        token = self._plane.token(spec["serviceAccountName"], namespace=NAMESPACE, pod=DETECTOR_POD)
        env |= {"NODE_NAME": self._node, "KUBECONFIG": str(self._plane.kubeconfig_for(token))}
        env |= self._machine() | {"CHIPWARDEN_LISTEN": f"{self._address}:{_PORT}"}
        self.detector.launch("run", env=env)
        self._write_down("detector", env, self._folder / "log")

    def _make_pod(self, account: str) -> None:
        """Have the pod that the token is bound to, and that recovery finds the page by."""
        path = f"{_CORE}/pods"
        self._admin.ask("DELETE", f"{path}/{DETECTOR_POD}", {"gracePeriodSeconds": 0})
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "node-problem-detector", "uid": "u"}
        metadata = {
            "name": DETECTOR_POD,
            "labels": {"app": "node-problem-detector"},
            "ownerReferences": [owner | {"controller": True}],
        }
        ports = [{"name": "metrics", "containerPort": _PORT}]
        spec = {
            "nodeName": self._node,
            "serviceAccountName": account,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "detector", "image": "none.invalid/none", "ports": ports}],
        }
        done = self._admin.ask("POST", path, {"metadata": metadata, "spec": spec})
        assert done.code == 201, done.text
        status = {
            "phase": "Running",
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {"name": "detector", "ready": True, "restartCount": 0, "image": "i", "imageID": "", "started": True}
            ],
        }
        done = self._admin.patch(f"{path}/{DETECTOR_POD}/status", {"status": status})
        assert done.code == 200, done.text

    def _start_recovery(self, spec: dict[str, Any]) -> None:
        env = self._environment(spec) | self._aws.env()
        token = self._plane.token(spec["serviceAccountName"], namespace=NAMESPACE)
        env |= {"NODE_NAME": self._node, "POD_NAMESPACE": NAMESPACE, "CHIPWARDEN_POLL": "1s"}
        kubeconfig = {"KUBECONFIG": str(self._plane.kubeconfig_for(token))}
        self.recovery = Recovery(self._folder, env=env | kubeconfig).start()
        host, _, port = self._plane.url.removeprefix("https://").partition(":")
        env |= {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        self._write_down("recovery", env, self._folder / "recovery.log", account=self._account(token))

    def _stop_recovery(self) -> None:
        if self.recovery is not None:
            self.recovery.stop()
            self.recovery = None

    def _account(self, token: str) -> Path:
        """Write the files in which a pod finds its account."""
        folder = self._folder / "account"
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_bytes(self._plane.authority.read_bytes())
        (folder / "namespace").write_text(NAMESPACE)
        return folder

    def _write_down(self, role: str, env: dict[str, str], log: Path, **more: Path) -> None:
        """Tell `pod.py` what is inside a pod."""
        inside = {"env": env, "log": str(log)} | {name: str(path) for name, path in more.items()}
        (self._folder / f"{role}.json").write_text(json.dumps(inside))

    def _environment(self, spec: dict[str, Any]) -> dict[str, str]:
        """Read a template's literal environment; paths below a ConfigMap's mount are those of files made here."""
        (container,) = spec["containers"]
        env: dict[str, str] = {}
        for each in container["env"]:
            if "value" in each:
                env[each["name"]] = re.sub(r"\$\((\w+)\)", lambda name: env.get(name[1], ""), each["value"])
        volumes = {each["name"]: each["configMap"] for each in spec.get("volumes") or () if "configMap" in each}
        for mount in container.get("volumeMounts") or ():
            if mount["name"] in volumes:
                made = self._config_map(volumes[mount["name"]]["name"])
                env = {name: value.replace(mount["mountPath"], str(made)) for name, value in env.items()}
        return env

    def _config_map(self, name: str) -> Path:
        folder = self._folder / "configmaps" / name
        folder.mkdir(parents=True, exist_ok=True)
        found = self._admin.ask("GET", f"{_CORE}/configmaps/{name}")
        for key, text in (found.body.get("data") or {}).items() if found.code == 200 else ():
            (folder / key).write_text(text)
        return folder
