"""The API server that the other tests of this folder talk to is a real one, and obeys when told to stop."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import binaries
from tests.kubernetes.client import KubectlError
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.process import wait_until


@pytest.fixture(scope="module")
def account(apiserver: ControlPlane) -> str:
    apiserver.create_node("bound", provider_id="aws:///us-east-2b/i-0123456789abcdef0", labels={"kind": "none"})
    apiserver.create_node("other")
    apiserver.kubectl("create", "serviceaccount", "prober")
    apiserver.create_pod("prober", node="bound", service_account="prober")
    return "prober"


def _claims(apiserver: ControlPlane, token: str) -> dict[str, Any]:
    answer = apiserver.kubectl("auth", "whoami", "-o", "json", kubeconfig=apiserver.kubeconfig_for(token))
    found: dict[str, Any] = json.loads(answer)["status"]["userInfo"]
    return found


def test_a_node_has_the_provider_id_and_labels_it_was_given(apiserver: ControlPlane, account: str) -> None:
    node = apiserver.get("node", "bound")
    assert account
    assert node["spec"]["providerID"] == "aws:///us-east-2b/i-0123456789abcdef0"
    assert node["metadata"]["labels"]["kind"] == "none"


def test_a_token_bound_to_a_pod_names_the_pods_node(apiserver: ControlPlane, account: str) -> None:
    claims = _claims(apiserver, apiserver.token(account, pod="prober"))
    assert claims["username"] == "system:serviceaccount:default:prober"
    assert claims["extra"]["authentication.kubernetes.io/node-name"] == ["bound"]
    assert claims["extra"]["authentication.kubernetes.io/pod-name"] == ["prober"]


def test_a_token_bound_to_a_node_names_it(apiserver: ControlPlane, account: str) -> None:
    claims = _claims(apiserver, apiserver.token(account, node="bound"))
    assert claims["extra"]["authentication.kubernetes.io/node-name"] == ["bound"]


def test_an_unbound_token_names_no_node(apiserver: ControlPlane, account: str) -> None:
    assert "authentication.kubernetes.io/node-name" not in _claims(apiserver, apiserver.token(account))["extra"]


def test_a_token_ends_with_its_pod(apiserver: ControlPlane, account: str) -> None:
    apiserver.create_pod("short", node="bound", service_account=account)
    kubeconfig = apiserver.kubeconfig_for(apiserver.token(account, pod="short"))
    apiserver.kubectl("auth", "whoami", kubeconfig=kubeconfig)
    apiserver.kubectl("delete", "pod", "short", "--force", "--grace-period=0")

    def is_refused() -> bool:
        try:
            apiserver.kubectl("auth", "whoami", kubeconfig=kubeconfig)
        except KubectlError as error:
            return "Unauthorized" in str(error) or "must be logged in" in str(error)
        return False

    wait_until(is_refused, seconds=30, what="refused")


def test_an_account_without_a_role_is_refused(apiserver: ControlPlane, account: str) -> None:
    kubeconfig = apiserver.kubeconfig_for(apiserver.token(account))
    with pytest.raises(KubectlError, match="forbidden"):
        apiserver.kubectl("get", "nodes", kubeconfig=kubeconfig)


def test_a_kubelet_may_label_its_own_node_only(apiserver: ControlPlane, account: str) -> None:
    assert account
    kubelet = ("--as=system:node:bound", "--as-group=system:nodes")
    apiserver.kubectl("label", "node", "bound", "node.kubernetes.io/instance-type=trn2.48xlarge", *kubelet)
    with pytest.raises(KubectlError, match="only its own Node object"):
        apiserver.kubectl("label", "node", "other", "x=y", *kubelet)
    with pytest.raises(KubectlError, match="is not allowed to modify labels"):
        apiserver.kubectl("label", "node", "bound", "node-restriction.kubernetes.io/x=y", *kubelet)


def test_an_admission_policy_is_obeyed(apiserver: ControlPlane) -> None:
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    apiserver.apply(
        {
            **kind,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "no-refused"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": "!object.metadata.name.startsWith('refused')", "message": "as told"}],
            },
        },
        {
            **kind,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "no-refused"},
            "spec": {"policyName": "no-refused", "validationActions": ["Deny"]},
        },
    )

    def is_refused() -> bool:
        try:
            apiserver.kubectl("create", "configmap", "refused", "--dry-run=server")
        except KubectlError as error:
            return "as told" in str(error)
        return False

    wait_until(is_refused, seconds=30, what="refused")
    apiserver.kubectl("create", "configmap", "taken", "--dry-run=server")


def test_every_request_is_counted_once(apiserver: ControlPlane, account: str) -> None:
    kubeconfig = apiserver.kubeconfig_for(apiserver.token(account, node="bound"))
    user = f"system:serviceaccount:default:{account}"
    before = apiserver.audit_offset()
    for _ in range(3):
        with pytest.raises(KubectlError, match="forbidden"):
            apiserver.kubectl("get", "--raw", "/api/v1/nodes/bound", kubeconfig=kubeconfig)
    found = apiserver.requests(since=before, user=user)
    assert [(each.verb, each.uri, each.code) for each in found] == [("get", "/api/v1/nodes/bound", 403)] * 3
    assert apiserver.requests(since=before, user=user, verb="patch") == []


@pytest.mark.parametrize("abruptly", [False, True])
def test_objects_survive_a_restart_on_the_same_port(apiserver: ControlPlane, account: str, *, abruptly: bool) -> None:
    assert account
    uid = apiserver.get("node", "bound")["metadata"]["uid"]
    apiserver.stop_apiserver(abruptly=abruptly)
    with pytest.raises(KubectlError, match="refused"):
        apiserver.kubectl("get", "nodes")
    apiserver.start_apiserver()
    assert apiserver.get("node", "bound")["metadata"]["uid"] == uid


def test_an_open_watch_does_not_hold_up_a_stop(apiserver: ControlPlane) -> None:
    command = [binaries.program("kubectl"), f"--kubeconfig={apiserver.kubeconfig}", "get", "namespaces", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline()
        begun = time.monotonic()
        apiserver.stop_apiserver()
        assert time.monotonic() - begun < 15
        watch.kill()
    apiserver.start_apiserver()


def test_a_frozen_server_keeps_connections_open_and_answers_when_thawed(apiserver: ControlPlane) -> None:
    apiserver.freeze_apiserver()
    try:
        with pytest.raises(KubectlError, match="no answer in 2 s"):
            apiserver.kubectl("get", "nodes", timeout_seconds=2)
    finally:
        apiserver.thaw_apiserver()
    assert apiserver.kubectl("get", "--raw", "/readyz") == "ok"


def test_a_token_file_is_read_again(apiserver: ControlPlane, account: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    kubeconfig = apiserver.kubeconfig_for(file)
    for node in ("bound", "other"):
        file.write_text(apiserver.token(account, node=node))
        answer = apiserver.kubectl("auth", "whoami", "-o", "json", kubeconfig=kubeconfig)
        extra = json.loads(answer)["status"]["userInfo"]["extra"]
        assert extra["authentication.kubernetes.io/node-name"] == [node]


def test_a_missing_program_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(binaries.MissingError, match="has no kubelet: run `unset KUBEBUILDER_ASSETS` and `make kuber"):
        binaries.program("kubelet")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(binaries.MissingError, match=r"ctr, ip not found: run `apt-get install containerd iproute2`"):
        binaries.require_tools("ctr", "ip")
