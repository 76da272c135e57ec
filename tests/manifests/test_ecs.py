"""The task definition for machines without Kubernetes: the API takes it, and it fits the programs."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator

from detector.settings import LAYERS as DETECTOR
from recovery.settings import LAYERS as RECOVERY
from recovery.settings import Settings

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
TASK: dict[str, Any] = json.loads((MANIFESTS / "ecs" / "task-definition.json").read_text())
CONTAINERS: dict[str, dict[str, Any]] = {each["name"]: each for each in TASK["containerDefinitions"]}


def test_the_api_takes_the_task_definition() -> None:
    shape = get_session().get_service_model("ecs").operation_model("RegisterTaskDefinition").input_shape
    assert shape is not None
    report = ParamValidator().validate(TASK, shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize(("name", "layers"), [("detector", DETECTOR), ("recovery", RECOVERY)])
def test_every_variable_is_one_of_the_program_and_has_a_value_that_it_takes(name: str, layers: Any) -> None:
    environ = {each["name"]: each["value"].replace("REGION", "us-east-2") for each in CONTAINERS[name]["environment"]}
    known = {variable for field in layers.fields for variable in field.env}
    assert set(environ) <= known
    parser = ArgumentParser()
    layers.add_flags(parser)
    settings = layers.resolve(parser.parse_args([]), environ)
    assert settings.kubernetes == "off"
    assert settings.listen.startswith("127.0.0.1:")


def test_recovery_finds_the_detector_and_both_keep_their_state() -> None:
    detector, recovery = CONTAINERS["detector"], CONTAINERS["recovery"]
    listen = {each["name"]: each["value"] for each in detector["environment"]}["CHIPWARDEN_LISTEN"]
    assert f"http://{listen}/metrics" == Settings().detector_url
    assert detector["mountPoints"] == recovery["mountPoints"]
    assert detector["mountPoints"][0]["containerPath"] == "/var/lib/chipwarden"
    assert TASK["networkMode"] == "host"


def test_recovery_is_off_until_somebody_says_otherwise() -> None:
    assert {"name": "ENABLE_RECOVERY", "value": "false"} in CONTAINERS["detector"]["environment"]
    assert not any(each["name"] == "ENABLE_RECOVERY" for each in CONTAINERS["recovery"]["environment"])


def test_nothing_is_privileged() -> None:
    for container in CONTAINERS.values():
        assert "privileged" not in container
        assert container["linuxParameters"]["capabilities"]["drop"] == ["ALL"]
        assert container["readonlyRootFilesystem"] is True
    assert CONTAINERS["detector"]["linuxParameters"]["capabilities"]["add"] == ["SYSLOG"]


def test_its_role_may_do_what_recovery_may_do_elsewhere() -> None:
    allowed = [_actions(MANIFESTS / path) for path in ("ecs/task-role-policy.json", "iam/pod-identity/policy.json")]
    assert allowed[0] == allowed[1]


def _actions(path: Path) -> set[str]:
    found: set[str] = set()
    for statement in json.loads(path.read_text())["Statement"]:
        action = statement["Action"]
        found |= {action} if isinstance(action, str) else set(action)
    return found


def test_its_role_may_mark_instances_of_one_group_only() -> None:
    policy = json.loads((MANIFESTS / "ecs" / "task-role-policy.json").read_text())
    (marks,) = [each for each in policy["Statement"] if each["Action"] == "autoscaling:SetInstanceHealth"]
    assert marks["Resource"].endswith(":autoScalingGroupName/GROUP_NAME")


def test_terraform_uses_the_same_policy_trust_and_alarms() -> None:
    text = "".join(path.read_text() for path in (MANIFESTS / "terraform").glob("*.tf"))
    for used in ("../iam/pod-identity", "trust.json", "policy.json", "../cloudwatch/alarms.yaml"):
        assert used in text
    for path in ("iam/pod-identity/trust.json", "iam/pod-identity/policy.json", "cloudwatch/alarms.yaml"):
        assert (MANIFESTS / path).is_file()
    assert 'service_account = "node-problem-detector"' in text
    assert 'namespace       = "neuron-healthcheck-system"' in text
