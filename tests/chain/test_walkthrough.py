"""AWS's walkthrough of its node problem detector, command by command, as its users know it.

Not run are `eksctl`, whose ServiceAccount is made here as it would make it, and the kubelet: the test starts what the
DaemonSet's pods would run, with their environment and a token of their own. The injected line names the instance, for
the kernel log is shared by all detectors of this machine.

Source: AWS Machine Learning Blog, 2024-07-25, "Node problem detection and recovery for AWS Neuron nodes within Amazon
EKS clusters".
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.chain.place import ACCOUNT, APP, DMA, POINTS, SHIPPED, Place
from tests.detector.process import REPOSITORY, until
from tests.kubernetes import kernellog
from tests.kubernetes.binaries import program
from tests.kubernetes.process import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.aws.surroundings import Aws
    from tests.chain.place import Machine
    from tests.kubernetes.controlplane import ControlPlane

ROLE = "eks.amazonaws.com/role-arn"
ARN = "arn:aws:iam::111122223333:role/neuron-npd"
QUERY = "SELECT AVG(NeuronHasError_DMA_ERROR) FROM NeuronHealthCheck"


@pytest.fixture
def installed(apiserver: ControlPlane, aws: Aws, tmp_path: Path) -> Iterator[Place]:
    """The manifests applied, after eksctl has made the ServiceAccount."""
    apiserver.kubectl("create", "namespace", SHIPPED)
    apiserver.kubectl("create", "serviceaccount", ACCOUNT, "-n", SHIPPED)
    apiserver.kubectl("annotate", "serviceaccount", ACCOUNT, "-n", SHIPPED, f"{ROLE}={ARN}")
    apiserver.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "base"))
    made = Place(apiserver, aws, tmp_path, SHIPPED)
    yield made
    made.close()
    apiserver.kubectl("delete", "-k", str(REPOSITORY / "manifests" / "base"), "--wait=false")


def _edit(plane: ControlPlane, folder: Path, old: str, new: str) -> None:
    """Run `kubectl edit`, with an editor that does what a person would."""
    editor = folder / "editor"
    editor.write_text(f"#!/bin/sh\nexec sed -i '/name: ENABLE_RECOVERY/{{n;s/{old}/{new}/}}' \"$1\"\n")
    editor.chmod(0o755)
    subprocess.run(
        [program("kubectl"), "edit", "-n", SHIPPED, f"ds/{APP}"],
        env=os.environ | {"KUBECONFIG": str(plane.kubeconfig), "EDITOR": str(editor)},
        check=True,
        timeout=30,
        capture_output=True,
    )


def _start_pod(place: Place, machine: Machine, kubeconfig: Path, port: int) -> None:
    """Start the detector as a pod of the DaemonSet would, with its literal environment."""
    template = place.plane.get(f"ds/{APP}", "-n", SHIPPED)["spec"]["template"]["spec"]
    (container,) = template["containers"]
    env = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    env["CHIPWARDEN_RULES"] = re.sub(r"\$\((\w+)\)", lambda name: env.get(name[1], ""), env["CHIPWARDEN_RULES"])
    assert container["args"] == ["run"]
    machine.start("--listen", f"127.0.0.1:{port}", env=env, kubeconfig=kubeconfig)


def _points(aws: Aws) -> list[dict[str, Any]]:
    """List the points that the walkthrough's query takes."""
    calls = [call.parameters for call in aws.proxy.of(POINTS) if call.parameters["Namespace"] in QUERY.split()]
    data = [datum for call in calls for datum in call["MetricData"]]
    return [datum for datum in data if f"({datum['MetricName']})" in QUERY and not datum["Dimensions"]]


def test_the_walkthrough_of_aws_ends_with_a_new_node(installed: Place, tmp_path: Path) -> None:
    place, plane, aws = installed, installed.plane, installed.aws
    account = plane.get("serviceaccount", ACCOUNT, "-n", SHIPPED)
    assert account["metadata"]["annotations"][ROLE] == ARN, "apply has kept what eksctl wrote"
    trust = (REPOSITORY / "manifests" / "iam" / "irsa" / "trust.json").read_text()
    assert f"system:serviceaccount:{SHIPPED}:{ACCOUNT}" in trust

    group = aws.player.make_group(2, launch_seconds=0.3, terminate_seconds=0.3)
    machine = place.machine(aws.player.instances(group)[0])
    pod = {"serviceAccountName": "chipwarden-detector"}
    port = free_port()
    name = place.add_pod(machine.name, port, name="node-problem-detector-x7k2p", more=pod)
    kubeconfig = plane.kubeconfig_for(plane.token("chipwarden-detector", namespace=SHIPPED, pod=name))
    _start_pod(place, machine, kubeconfig, port)
    assert machine.detector.metric("recovery_enabled") == 0
    assert machine.condition()["reason"] == "NeuronHasNoError"

    _edit(plane, tmp_path, "false", "true")  # kubectl edit -n neuron-healthcheck-system ds/node-problem-detector
    assert machine.detector.stop() == 0  # the DaemonSet replaces its pods
    _start_pod(place, machine, kubeconfig, port)
    assert machine.detector.metric("recovery_enabled") == 1
    place.set_fleet(1)
    replica = place.recovery()
    until(lambda: replica.metric("observations", "healthy") == 1, seconds=30, what="the node is seen")

    kernellog.write(f"test NEURON_HW_ERR=DMA_ERROR instance-id={machine.instance} test")
    machine.wait_for("True")
    described = plane.kubectl("describe", "node", machine.name)
    assert re.search(rf"^\s*NeuronHasError +True .* {DMA} ", described, re.MULTILINE), described
    until(lambda: any(datum["Values"] == [1.0] for datum in _points(aws)), seconds=10, what="the metric is 1")
    until(lambda: machine.entry().get("outcome") == "replaced", seconds=40, what="the node is replaced")
    assert place.marked() == [machine.instance]
    new = set(aws.player.instances(group)) - {machine.instance}
    assert (len(new), machine.entry()["replacement"] in new) == (2, True)
