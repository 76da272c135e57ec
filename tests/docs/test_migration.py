"""What docs/migrate-from-aws-npd.md claims about the old objects is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.kubelet import NAMESPACE
from tests.docs.pages import REPOSITORY
from tests.kubernetes.client import KubectlError

if TYPE_CHECKING:
    from tests.docs.sandbox import Sandbox
    from tests.kubernetes.controlplane import ControlPlane

BASE = str(REPOSITORY / "manifests" / "base")
RECOVERY = f"--as=system:serviceaccount:{NAMESPACE}:node-problem-detector"


@pytest.mark.usefixtures("cluster_with_aws_npd")
def test_the_old_daemonset_has_to_go_first(apiserver: ControlPlane) -> None:
    with pytest.raises(KubectlError, match="field is immutable"):
        apiserver.kubectl("apply", "-k", BASE)
    apiserver.kubectl("delete", "ds", "node-problem-detector", "-n", NAMESPACE)
    apiserver.kubectl("apply", "-k", BASE)


def test_the_old_binding_would_let_recovery_write_any_status(
    cluster_with_aws_npd: Sandbox, apiserver: ControlPlane
) -> None:
    assert cluster_with_aws_npd
    apiserver.kubectl("delete", "ds", "node-problem-detector", "-n", NAMESPACE)
    apiserver.kubectl("apply", "-k", BASE)
    asked = ("auth", "can-i", "patch", "nodes", "--subresource=status", RECOVERY)
    assert apiserver.kubectl(*asked).strip() == "yes"
    apiserver.kubectl("delete", "clusterrolebinding", "npd-binding")
    with pytest.raises(KubectlError):  # it says no, and exits 1
        apiserver.kubectl(*asked)


def test_the_old_condition_stays_until_somebody_removes_it(
    cluster_with_aws_npd: Sandbox, apiserver: ControlPlane
) -> None:
    node = cluster_with_aws_npd.words["NODE"]
    apiserver.kubectl("delete", "ds", "node-problem-detector", "-n", NAMESPACE)
    types = {each["type"] for each in apiserver.get("node", node)["status"]["conditions"]}
    assert "NeuronHealth" in types
