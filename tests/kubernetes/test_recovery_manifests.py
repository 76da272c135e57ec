"""Recovery's manifests are taken by a real API server, and its pods by the strictest pod security."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.kubernetes.asks import holder
from tests.kubernetes.overlay import MANIFESTS, NAMESPACE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_STRICT = ("--dry-run=server", "--validate=strict", "-o", "json")
_NAMES = ("recovery-rbac", "recovery-deployment", "recovery-pdb")


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> ControlPlane:
    apiserver.kubectl("apply", "-f", str(MANIFESTS / "base" / "namespace.yaml"))
    return apiserver


def _taken(plane: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.kubectl("apply", "-f", str(MANIFESTS / "base" / f"{name}.yaml"), *_STRICT))
    return found


def _environment(deployment: dict[str, Any]) -> dict[str, str]:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


@pytest.mark.parametrize("name", _NAMES)
def test_each_file_is_taken_as_it_is(plane: ControlPlane, name: str) -> None:
    assert _taken(plane, name)


def test_its_pods_keep_the_restricted_pod_security_standard(plane: ControlPlane) -> None:
    deployment = _taken(plane, "recovery-deployment")
    admin = holder(plane, plane.admin_token)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "restricted", "labels": labels}})
    admin.ask("POST", "/api/v1/namespaces/restricted/serviceaccounts", {"metadata": {"name": "node-problem-detector"}})
    spec = deployment["spec"]["template"]["spec"]
    pod = {"metadata": {"name": "recovery"}, "spec": spec}
    path = "/api/v1/namespaces/restricted/pods?dryRun=All"
    assert admin.ask("POST", path, pod).code == 201
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    loose = {**container, "securityContext": {}}
    assert "violates PodSecurity" in admin.ask("POST", path, {**pod, "spec": {**spec, "containers": [loose]}}).text


def test_prometheus_is_asked_if_the_component_is_chosen(plane: ControlPlane, tmp_path: Path) -> None:
    shutil.copy(MANIFESTS / "base" / "recovery-deployment.yaml", tmp_path)
    shutil.copytree(MANIFESTS / "components" / "prometheus", tmp_path / "prometheus")
    body: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["recovery-deployment.yaml"],
    }

    def built(**more: Any) -> dict[str, str]:
        (tmp_path / "kustomization.yaml").write_text(json.dumps({**body, **more}))
        return _environment(json.loads(plane.kubectl("apply", "-k", str(tmp_path), *_STRICT)))

    assert "CHIPWARDEN_PROMETHEUS_URL" not in built()
    chosen = built(components=["prometheus"])
    assert chosen["CHIPWARDEN_PROMETHEUS_URL"] == "http://prometheus-operated.monitoring.svc:9090"
    container = {"name": "recovery", "env": [{"name": "CHIPWARDEN_PROMETHEUS_URL", "value": "http://own:9090"}]}
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chipwarden-recovery", "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    own = built(components=["prometheus"], patches=[{"patch": json.dumps(patch)}])
    assert own["CHIPWARDEN_PROMETHEUS_URL"] == "http://own:9090"
    assert set(own) == set(chosen)
