"""The worlds that the documentation's commands are typed in."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest

from tests.aws.player import REGION
from tests.aws.surroundings import Aws
from tests.chain import aged
from tests.docs import awsnpd
from tests.docs.kubelet import DETECTOR_POD, NAMESPACE, Kubelet
from tests.docs.machine import Machine, aws_url
from tests.docs.pages import REPOSITORY
from tests.docs.sandbox import Sandbox
from tests.kubernetes.client import KubectlError
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.lending import lent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real etcd and kube-apiserver of this folder's own: commands install and remove things for the whole cluster."""
    yield from lent(lambda: ControlPlane(tmp_path_factory.mktemp("docs")))


@pytest.fixture
def aws() -> Iterator[Aws]:
    """AWS, with the ECS cluster that a page speaks of."""
    with Aws() as played:
        session = botocore.session.get_session()
        session.set_credentials("AKIAIOSFODNN7EXAMPLE", "example")
        ecs: Any = session.create_client("ecs", REGION, endpoint_url=aws_url())
        ecs.create_cluster(clusterName="train")
        yield played


@pytest.fixture
def machine(aws: Aws, tmp_path: Path) -> Iterator[Sandbox]:
    """One machine without Kubernetes: both programs run on it, and a group has it."""
    made = Machine(tmp_path, aws)
    try:
        yield made.sandbox
    finally:
        made.close()


@pytest.fixture
def empty_cluster(apiserver: ControlPlane, aws: Aws, tmp_path: Path) -> Iterator[Sandbox]:
    """A cluster of one accelerator node, with nothing of Chipwarden's in it."""
    group = aws.player.make_group(2, launch_seconds=0.3, terminate_seconds=0.3)
    instance = aws.player.instances(group)[0]
    node = f"ip-10-0-12-{secrets.token_hex(3)}"
    labels = {"node.kubernetes.io/instance-type": "trn1.32xlarge", "topology.kubernetes.io/region": "us-east-1"}
    sandbox = Sandbox(tmp_path)
    sandbox.env |= aws.env() | {"KUBECONFIG": str(apiserver.kubeconfig), "DOCS_AWS_URL": aws_url()}
    sandbox.words |= {"NODE": node, "POD_ON_THAT_NODE": DETECTOR_POD, "GROUP": group}
    kubelet = Kubelet(apiserver, aws, tmp_path, sandbox, node=node, instance=instance)
    sandbox.tick = kubelet.step
    aged.plant(apiserver, [aged.node(node, instance, labels=labels)])
    aws.player.on_gone = lambda gone: aged.uproot(apiserver, [node]) if gone == instance else None
    try:
        yield sandbox
    finally:
        aws.player.on_gone = lambda _: None
        kubelet.close()
        aged.uproot(apiserver, [node])
        _remove_all(apiserver)


@pytest.fixture
def cluster_with_chipwarden(empty_cluster: Sandbox, apiserver: ControlPlane) -> Sandbox:
    """The same, after `kubectl apply -k manifests/base`."""
    apiserver.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "base"))
    return empty_cluster


@pytest.fixture
def cluster_with_aws_npd(empty_cluster: Sandbox, apiserver: ControlPlane) -> Sandbox:
    """The same, with AWS's own detector in place of Chipwarden."""
    awsnpd.install(apiserver, empty_cluster.words["NODE"])
    return empty_cluster


def _remove_all(plane: ControlPlane) -> None:
    """Leave the cluster as it was: nothing here ends a namespace, so that all in it is removed one by one."""
    if not plane.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found"):
        return
    everything = "daemonsets,deployments,poddisruptionbudgets,configmaps,leases,pods,serviceaccounts,roles,rolebindings"
    plane.kubectl("delete", everything, "--all", "-n", NAMESPACE, "--force", "--grace-period=0", "--ignore-not-found")
    plane.kubectl("delete", "-k", str(REPOSITORY / "manifests" / "base"), "--wait=false", "--ignore-not-found")
    plane.kubectl("delete", "events", "--all", "-n", "default")
    finish = f"/api/v1/namespaces/{NAMESPACE}/finalize"
    body = f'{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}},"spec":{{"finalizers":[]}}}}'
    with contextlib.suppress(KubectlError):  # it went with its last object
        plane.kubectl("replace", "--raw", finish, "-f", "-", stdin=body)
