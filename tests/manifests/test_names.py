"""The manifests say the same names as the programs: what is written twice must not drift apart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from detector.kube import COMPONENT
from detector.rulefiles import load_all
from detector.settings import LAYERS, Settings
from runtime.vocabulary import CLEAR_ANNOTATION, DETECTOR_ANNOTATION, SHIPPED_RULE_SETS, VERSION

pytestmark = pytest.mark.pure

_MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
_COMPONENTS = sorted(path.parent.name for path in _MANIFESTS.glob("components/*/kustomization.yaml"))


def _documents() -> list[dict[str, Any]]:
    files = sorted(_MANIFESTS.glob("base/*.yaml"))
    found = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return [document for document in found if document["kind"] != "Kustomization"]


def _one(kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in _documents() if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def _pod() -> dict[str, Any]:
    found: dict[str, Any] = _one("DaemonSet", "node-problem-detector")["spec"]["template"]["spec"]
    return found


def _container() -> dict[str, Any]:
    found: dict[str, Any] = _pod()["containers"][0]
    return found


def _policy() -> dict[str, Any]:
    found: dict[str, Any] = _one("ValidatingAdmissionPolicy", "chipwarden-detector")["spec"]
    return found


def test_every_file_is_listed() -> None:
    listed = yaml.safe_load((_MANIFESTS / "base" / "kustomization.yaml").read_text())["resources"]
    assert {*listed, "kustomization.yaml"} == {path.name for path in (_MANIFESTS / "base").iterdir()}


def test_the_image_is_of_this_version() -> None:
    assert _container()["image"] == f"chipwarden:{VERSION}"


def test_aws_walkthrough_finds_what_it_edits() -> None:
    daemon_set = _one("DaemonSet", "node-problem-detector")
    assert daemon_set["metadata"]["namespace"] == "neuron-healthcheck-system"
    assert daemon_set["spec"]["selector"]["matchLabels"] == {"app": "node-problem-detector"}
    assert {"name": "ENABLE_RECOVERY", "value": "false"} in _container()["env"]


def test_every_variable_is_a_setting_or_used_by_one() -> None:
    known = {name for field in LAYERS.fields for name in field.env}
    variables = {each["name"]: each.get("value", "") for each in _container()["env"]}
    for component in _COMPONENTS:
        text = (_MANIFESTS / "components" / component / "kustomization.yaml").read_text()
        variables |= dict.fromkeys(re.findall(r"- name: ([A-Z_]+)\n", text), "")
    used = {name for value in variables.values() for name in re.findall(r"\$\(([A-Z_]+)\)", value)}
    assert set(variables) <= known | used
    assert used <= set(variables)


def test_ports_and_paths_are_the_defaults() -> None:
    defaults = Settings()
    container = _container()
    assert container["ports"] == [{"name": "metrics", "containerPort": int(defaults.listen.rpartition(":")[2])}]
    paths = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert (paths["kmsg"], paths["state"]) == (defaults.kmsg, defaults.state_dir)


def test_every_shipped_set_has_a_switch() -> None:
    switches = {each["name"] for each in _container()["env"] if each["name"].startswith("RULES_")}
    assert switches == {f"RULES_{name.upper()}" for name in SHIPPED_RULE_SETS} | {"RULES_OWN"}
    assert set(SHIPPED_RULE_SETS) - {"neuron"} <= set(_COMPONENTS)


def test_the_policy_knows_the_conditions_of_the_shipped_sets() -> None:
    (conditions,) = (each for each in _policy()["variables"] if each["name"] == "shippedConditions")
    shipped = {each.type for rule_set in load_all(SHIPPED_RULE_SETS).rule_sets for each in rule_set.conditions}
    assert set(json.loads(conditions["expression"].replace("'", '"'))) == shipped


def test_the_policy_knows_our_annotations() -> None:
    (rule,) = (each["expression"] for each in _policy()["validations"] if "annotation chipwarden" in each["message"])
    assert set(re.findall(r"'(chipwarden\.io/\w+)'", rule)) == {DETECTOR_ANNOTATION, CLEAR_ANNOTATION}


def test_policies_account_and_pod_name_one_account() -> None:
    namespace = _one("Namespace", "neuron-healthcheck-system")["metadata"]["name"]
    account = _pod()["serviceAccountName"]
    assert _one("ServiceAccount", account)["metadata"]["namespace"] == namespace
    policies = [each for each in _documents() if each["kind"] == "ValidatingAdmissionPolicy"]
    assert {each["metadata"]["name"] for each in policies} == {"chipwarden-detector", "chipwarden-detector-events"}
    for policy in policies:
        (condition,) = policy["spec"]["matchConditions"]
        user = f"system:serviceaccount:{namespace}:{account}"
        assert condition["expression"] == f"request.userInfo.username == '{user}'"
        assert policy["spec"]["failurePolicy"] == "Fail"


def test_events_are_told_in_the_name_that_the_policy_wants() -> None:
    policy = _one("ValidatingAdmissionPolicy", "chipwarden-detector-events")
    names = {
        name
        for each in policy["spec"]["validations"]
        for name in re.findall(r"omponent == '(.*?)'", each["expression"])
    }
    assert names == {COMPONENT}


def test_every_right_says_which_call_needs_it() -> None:
    lines = (_MANIFESTS / "base" / "detector-account.yaml").read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("- apiGroups")]
    assert len(rules) == 3
    assert all(re.match(r"# (GET|PATCH|POST) /api/v1/", lines[number - 1]) for number in rules)


def test_the_example_of_own_rules_is_a_good_one() -> None:
    folder = _MANIFESTS / "components" / "own-rules"
    (rule_set,) = load_all([str(folder / "example.yaml")]).rule_sets
    types = [each.type for each in rule_set.conditions]
    assert str(types) in (folder / "kustomization.yaml").read_text()
