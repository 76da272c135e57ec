"""Recovery's manifests say the same names as the program: what is written twice must not drift apart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from recovery import events, lease, ledger, pods
from recovery.settings import LAYERS, Settings
from runtime.vocabulary import VERSION

pytestmark = pytest.mark.pure

_MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"


def _documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((_MANIFESTS / "base" / f"{name}.yaml").read_text()))


def _deployment() -> dict[str, Any]:
    (found,) = _documents("recovery-deployment")
    return found


def _pod() -> dict[str, Any]:
    found: dict[str, Any] = _deployment()["spec"]["template"]["spec"]
    return found


def _container() -> dict[str, Any]:
    (found,) = _pod()["containers"]
    assert isinstance(found, dict)
    return found


def _rules(resource: str) -> list[dict[str, Any]]:
    roles = (each for each in _documents("recovery-rbac") if "rules" in each)
    return [rule for role in roles for rule in role["rules"] if resource in rule["resources"]]


def _names(resource: str) -> set[str]:
    return {name for rule in _rules(resource) for name in rule.get("resourceNames", [])}


def test_it_runs_this_version_twice_under_the_name_of_aws_guide() -> None:
    assert _container()["image"] == f"chipwarden:{VERSION}"
    assert (_container()["command"], _container()["args"]) == (["chipwarden-recovery"], ["run"])
    assert _deployment()["spec"]["replicas"] == 2
    (account,) = (each for each in _documents("recovery-rbac") if each["kind"] == "ServiceAccount")
    assert account["metadata"]["name"] == _pod()["serviceAccountName"] == "node-problem-detector"
    subjects = [each["subjects"] for each in _documents("recovery-rbac") if "subjects" in each]
    wanted = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": Settings().namespace}
    assert subjects == [[wanted]] * 3


def test_all_is_in_the_namespace_that_recovery_looks_in() -> None:
    documents = [each for name in ("recovery-deployment", "recovery-pdb", "recovery-rbac") for each in _documents(name)]
    namespaces = {each["metadata"].get("namespace") for each in documents}
    assert namespaces == {Settings().namespace, "default", None}
    assert all(each["kind"].startswith("Cluster") for each in documents if "namespace" not in each["metadata"])
    assert f"/namespaces/{_documents('recovery-rbac')[5]['metadata']['namespace']}/" in events.EVENTS


def test_the_rights_are_for_the_objects_that_the_program_names() -> None:
    assert _names("configmaps") == {ledger.LEDGER, ledger.CONTROL}
    assert _names("leases") == {lease.NAME}
    assert _names("daemonsets") == {pods.DETECTOR_APP}


def test_every_variable_is_a_setting_and_none_decides_for_all_nodes() -> None:
    known = {name for field in LAYERS.fields for name in field.env}
    component = (_MANIFESTS / "components" / "prometheus" / "kustomization.yaml").read_text()
    used = {each["name"] for each in _container()["env"]} | set(re.findall(r"name: (CHIPWARDEN_[A-Z0-9_]+)", component))
    assert used <= known
    assert "ENABLE_RECOVERY" not in used


def test_ports_and_probes_are_those_of_the_pages() -> None:
    container = _container()
    assert container["ports"] == [{"name": "metrics", "containerPort": int(Settings().listen.rpartition(":")[2])}]
    probes = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert probes == {name: {"path": path, "port": "metrics"} for name, path in paths.items()}


def test_it_keeps_off_the_detectors_nodes_and_from_itself() -> None:
    labels = _deployment()["spec"]["template"]["metadata"]["labels"]
    terms = _pod()["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    apps = [each["podAffinityTerm"]["labelSelector"]["matchLabels"]["app"] for each in terms]
    assert apps == [pods.DETECTOR_APP, labels["app"]]
    assert terms[0]["weight"] > terms[1]["weight"]
    (budget,) = _documents("recovery-pdb")
    assert budget["spec"]["selector"] == _deployment()["spec"]["selector"] == {"matchLabels": {"app": labels["app"]}}
