"""A cluster in which recovery runs as a user installs it: its namespace, its account with its rights, its detectors.

Each test has a namespace of its own, and with it a ledger and a Lease. A pod is only an object that says where a
detector's page is: a process of this machine. It must not stand in for anything of recovery's own.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import yaml

from tests.chain import aged
from tests.detector.kernel import record
from tests.detector.process import REPOSITORY, neuron_line, until
from tests.kubernetes.asks import holder
from tests.kubernetes.ownnode import OwnNode
from tests.kubernetes.process import free_port
from tests.recovery.program import Recovery, recovery

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.aws.proxy import Call
    from tests.aws.surroundings import Aws
    from tests.kubernetes.audit import Request
    from tests.kubernetes.controlplane import ControlPlane

APP = "node-problem-detector"
ACCOUNT = "node-problem-detector"
MARK = "autoscaling:SetInstanceHealth"
POINTS = "cloudwatch:PutMetricData"
DMA = "NeuronHasError_DMA_ERROR"
SRAM = "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"
HANG = "NeuronHasError_HANG_ON_COLLECTIVES"
_RIGHTS = REPOSITORY / "manifests" / "base" / "recovery-rbac.yaml"
SHIPPED = "neuron-healthcheck-system"
_numbers = itertools.count()


class Machine(OwnNode):
    """A Node that has been there since yesterday, and its detector.

    Args:
        place: where it is.
        instance: of the Auto Scaling group.
    """

    def __init__(self, place: Place, instance: str) -> None:
        super().__init__(place.plane, place.folder, exists=False, instance=instance)
        self.place = place
        self.instance = instance
        self._records = 0
        self.kmsg = self.detector.state_dir.parent / "kmsg"
        place.plant([aged.node(self.name, instance)])
        until(lambda: self.ask("GET", self.path)[0] == 200, what="the API server sees the Node")

    def announce(self) -> None:
        """Have its detector's page found."""
        self.place.add_pod(self.name, int(self.detector.url.rpartition(":")[2]))

    def launch(self, *arguments: str) -> None:
        """Start its detector on a kernel log of its own, a file that it follows, and return at once."""
        self.kmsg.touch()
        port = free_port()
        own = ["run", "--listen", f"127.0.0.1:{port}", "--instance-id", self.instance, "--node-name", self.name]
        own += ["--state-dir", str(self.detector.state_dir), "--boot-id-file", str(self.detector.boot_id_file)]
        own += ["--kmsg", str(self.kmsg), "--kmsg-follow", "--enable-recovery", "true"]
        self.detector.launch(*own, *arguments, env={"KUBECONFIG": str(self.kubeconfig)})
        self.detector._port = port

    def wait_ready(self) -> None:
        """Wait until its detector can be relied on."""
        until(self._is_ready, seconds=60, what=f"the detector of {self.name} is ready")

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return self.detector.page("/readyz")[0] == 200
        return False

    def break_down(self, code: str) -> None:
        """Have its driver print a line, into the file."""
        self._records += 1
        with self.kmsg.open("ab") as file:
            file.write(record(self._records, neuron_line(code, self.instance)))

    def entries(self) -> list[dict[str, Any]]:
        """Read its ledger entries."""
        return [entry for entry in self.place.entries() if entry["node"] == self.name]

    def entry(self) -> dict[str, Any]:
        """Read its only ledger entry; {} = there is none."""
        found: list[dict[str, Any]] = self.entries()
        assert len(found) < 2, found
        return found[0] if found else {}

    def is_fenced(self) -> bool:
        """Tell whether it is cordoned and has our taint."""
        spec = self.get()["spec"]
        taints = [taint["key"] for taint in spec.get("taints") or ()]
        assert bool(spec.get("unschedulable")) == ("chipwarden.io/unhealthy" in taints)
        return bool(taints)


class Place:
    """A cluster of Nodes whose instances are a group's, and recovery in it.

    Args:
        plane: the API server.
        aws: with the groups.
        folder: for all files.
        namespace: with recovery's account and a DaemonSet; None = a new one, in which they are made.
    """

    def __init__(self, plane: ControlPlane, aws: Aws, folder: Path, namespace: str | None = None) -> None:
        self.plane, self.aws, self.folder = plane, aws, folder
        self.namespace = namespace or f"chain-{next(_numbers)}"
        self.admin = holder(plane, plane.admin_token)
        self.user = f"system:serviceaccount:{self.namespace}:{ACCOUNT}"
        self.since = plane.audit_offset()
        self.replicas: list[Recovery] = []
        self.machines: list[Machine] = []
        self._planted: list[str] = []
        self._configs = 0
        if namespace is None:
            self._make_account()
        self.set_fleet(0)
        self.kubeconfig = self.kubeconfig_at(None)
        aws.player.on_gone = self._remove_node

    def _make_account(self) -> None:
        done = self.admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        assert done.code == 201, done.text
        documents = list(yaml.safe_load_all(_RIGHTS.read_text().replace(SHIPPED, self.namespace)))
        for each in documents:  # the names of what is not in the namespace are made the test's own
            if each["kind"].startswith("Cluster") or each["metadata"].get("namespace") == "default":
                each["metadata"]["name"] += f"-{self.namespace}"
                if "roleRef" in each:
                    each["roleRef"]["name"] += f"-{self.namespace}"
        for each in documents:
            done = self.admin.ask("POST", self._collection(each), each)
            assert done.code == 201, done.text

    @staticmethod
    def _collection(document: dict[str, Any]) -> str:
        """Tell where objects of a document's kind are made."""
        version, kind = document["apiVersion"], document["kind"].lower() + "s"
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        namespace = document["metadata"].get("namespace")
        return f"{root}/namespaces/{namespace}/{kind}" if namespace else f"{root}/{kind}"

    def kubeconfig_at(self, url: str | None) -> Path:
        """Write a kubeconfig of recovery's account.

        Args:
            url: of a proxy before the API server; None = the server itself.
        """
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{ACCOUNT}/token"
        done = self.admin.ask("POST", path, {"spec": {}})
        assert done.code == 201, done.text
        return self.plane.kubeconfig_for(done.body["status"]["token"], url=url)

    def set_fleet(self, count: int) -> None:
        """Say on how many nodes there should be a detector, as the DaemonSet's controller does."""
        labels = {"app": APP}
        container = {"name": "detector", "image": "none.invalid/none"}
        spec = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        }
        path = f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets"
        self.admin.ask("POST", path, {"metadata": {"name": APP}, "spec": spec})  # 409 = there already
        counts = {"currentNumberScheduled": count, "numberMisscheduled": 0, "numberReady": count}
        status = {"status": counts | {"desiredNumberScheduled": count}}
        done = self.admin.patch(f"{path}/{APP}/status", status)
        assert done.code == 200, done.text

    def plant(self, documents: Iterable[dict[str, Any]]) -> None:
        """Have Nodes there until the test ends: the next one must not find their fences."""
        listed = list(documents)
        self._planted += [each["metadata"]["name"] for each in listed]
        aged.plant(self.plane, listed)

    def machine(self, instance: str) -> Machine:
        """Add a Node; its detector is still to be started."""
        made = Machine(self, instance)
        self.machines.append(made)
        return made

    def machines_of(self, group: str, count: int) -> list[Machine]:
        """Add Nodes of a group's first instances, their detectors ready."""
        made = [self.machine(instance) for instance in self.aws.player.instances(group)[:count]]
        for machine in made:
            machine.launch()
        for machine in made:
            machine.wait_ready()
            machine.announce()
        self.set_fleet(len(self.machines))
        return made

    def add_pod(
        self, node: str, port: int, *, app: str = APP, name: str | None = None, more: dict[str, Any] | None = None
    ) -> str:
        """Have a running pod on a Node.

        Args:
            node: where.
            port: of its pages, on loopback.
            app: its label; that of the detectors has its page found.
            name: None = after the Node.
            more: of its spec.
        """
        name = name or f"{app}-{node}"
        ports = [{"name": "metrics", "containerPort": port}]
        spec = {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none.invalid/none", "ports": ports}],
            **(more or {}),
        }
        metadata: dict[str, Any] = {"name": name, "labels": {"app": app}}
        if app == APP:
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": APP, "uid": "u", "controller": True}
            metadata["ownerReferences"] = [owner]
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        self._make_default_account()
        done = self.admin.ask("POST", path, {"metadata": metadata, "spec": spec})
        assert done.code == 201, done.text
        status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        done = self.admin.patch(f"{path}/{name}/status", {"status": status})
        assert done.code == 200, done.text
        return name

    def _make_default_account(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.admin.ask("POST", path, {"metadata": {"name": "default"}})  # 409 = there already

    def pods(self) -> set[str]:
        """List the names of the pods that are there."""
        listed = self.admin.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods").body["items"]
        return {each["metadata"]["name"] for each in listed}

    def config(self, **settings: Any) -> Path:
        """Write recovery's settings file."""
        self._configs += 1
        path = self.folder / f"recovery-{self._configs}.yaml"
        path.write_text(json.dumps(settings))
        return path

    def arguments(self, *more: str | Path, **settings: Any) -> list[str | Path]:
        """Write the command line of recovery, whatever the command."""
        return ["--namespace", self.namespace, "--config", self.config(**settings), *more]

    def env(self, kubeconfig: Path | None = None) -> dict[str, str]:
        """Tell the environment of recovery."""
        return self.aws.env() | {"KUBECONFIG": str(kubeconfig or self.kubeconfig)}

    def recovery(
        self,
        *more: str | Path,
        kubeconfig: Path | None = None,
        env: dict[str, str | None] | None = None,
        **settings: Any,
    ) -> Recovery:
        """Start a replica of recovery.

        Args:
            more: of its command line.
            kubeconfig: None = of its own account.
            env: changes of its environment; None = a variable is not set.
            settings: of its settings file.
        """
        own = self.folder / f"replica-{len(self.replicas)}"
        own.mkdir()
        arguments = self.arguments("--poll", "1s", *more, **settings)
        given = self.env(kubeconfig) | (env or {})
        made = Recovery(own, *arguments, env={name: value for name, value in given.items() if value is not None})
        self.replicas.append(made)
        return made.start()

    def command(
        self, name: str, *words: str, kubeconfig: Path | None = None, **settings: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of recovery, as its administrator."""
        arguments = self.arguments(*words, **settings)
        return recovery(name, *arguments, env=self.env(kubeconfig or self.plane.kubeconfig))

    def ledger(self) -> dict[str, Any]:
        """Read the ledger; {} = there is none."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/recovery-ledger"
        done = self.admin.ask("GET", path)
        body: dict[str, Any] = json.loads(done.body["data"]["ledger.json"]) if done.code == 200 else {}
        return body

    def entries(self) -> list[dict[str, Any]]:
        """Read the ledger's entries."""
        return list(self.ledger().get("entries") or ())

    def leader(self, *, but: Recovery | None = None) -> Recovery:
        """Wait for a replica that leads, and return it.

        Args:
            but: not this one, which may be stopped.
        """
        return until(
            lambda: next((each for each in self.replicas if each is not but and _leads(each)), None),
            seconds=40,
            what="a replica leads",
        )

    def marks(self) -> list[Call]:
        """List the calls that gave an instance away; what the SDK itself sent again, on a slow machine, is one call."""
        return [call for call in self.aws.proxy.of(MARK) if call.attempt == 1]

    def marked(self) -> list[str]:
        """List the instances that were given away, a repeated call again."""
        return [str(call.parameters["InstanceId"]) for call in self.marks()]

    def asked(self, verb: str | None = None, part: str = "") -> list[Request]:
        """List what recovery's account has asked the API server."""
        found = self.plane.requests(since=self.since, user=self.user, verb=verb)
        return [each for each in found if part in each.uri]

    def events(self, reason: str) -> list[dict[str, Any]]:
        """List the Events about Nodes of this test with a reason."""
        path = f"/api/v1/namespaces/default/events?fieldSelector=reason={reason}"
        mine = {machine.name for machine in self.machines}
        found = self.admin.ask("GET", path).body["items"]
        return [each for each in found if not mine or each["involvedObject"]["name"] in mine]

    def _remove_node(self, instance: str) -> None:
        """Remove the Node of a machine that has gone, as a cloud controller does."""
        for machine in self.machines:
            if machine.instance == instance:
                self.admin.ask("DELETE", machine.path)

    def close(self) -> None:
        """End all processes."""
        self.aws.player.on_gone = lambda _: None
        for replica in self.replicas:
            replica.kill()
        for machine in self.machines:
            machine.detector.kill()
        aged.uproot(self.plane, self._planted)
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.admin.ask("DELETE", path, {"gracePeriodSeconds": 0})


def points(aws: Aws, name: str) -> Iterator[tuple[float, float, float]]:
    """List the points of a metric that CloudWatch was sent: when, value, count."""
    for call in aws.proxy.of(POINTS):
        for datum in call.parameters["MetricData"]:
            if datum["MetricName"] == name:
                yield call.at, datum["Values"][0], datum["Counts"][0]


def wall(monotonic: float) -> datetime:
    """Tell what the wall clock showed."""
    return datetime.now(UTC) - timedelta(seconds=time.monotonic() - monotonic)


def at(text: str) -> datetime:
    """Read a time as the API server and the ledger write it."""
    return datetime.fromisoformat(text)


def _leads(replica: Recovery) -> bool:
    return replica.process.poll() is None and replica.metric("leader") == 1
