"""Every manifest is taken by a real API server, each component alone and all of them together."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

import pytest

from detector.settings import LAYERS
from runtime.vocabulary import (
    ACCELERATED_HARDWARE_READY,
    RECOVERY_ANNOTATION,
    SCALE_DOWN_ANNOTATION,
    UNHEALTHY_TAINT,
)
from tests.kubernetes import overlay
from tests.kubernetes.client import KubectlError
from tests.kubernetes.overlay import ACCOUNT, COMPONENTS, DAEMON_SET, MANIFESTS, NAMESPACE, RECOVERY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_STRICT = ("--dry-run=server", "--validate=strict")


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> ControlPlane:
    """An API server with the base installed by one command, and a stand-in for the Prometheus operator's CRD."""
    apiserver.kubectl("apply", "-k", str(MANIFESTS / "base"), "--validate=strict")
    apiserver.kubectl("apply", "-f", str(overlay.MINIMAL_POD_MONITOR_CRD))
    apiserver.kubectl("wait", "crd/podmonitors.monitoring.coreos.com", "--for=condition=Established", "--timeout=30s")
    return apiserver


def _types(found: dict[str, Any]) -> list[set[str]]:
    """Return the instance types of each term of the affinity."""
    affinity = found["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    expressions = [each for term in terms for each in term["matchExpressions"]]
    assert {(each["key"], each["operator"]) for each in expressions} == {("node.kubernetes.io/instance-type", "In")}
    return [set(each["values"]) for each in expressions]


def _settings(found: dict[str, Any]) -> Any:
    """Return what the detector would make of its environment."""
    parser = argparse.ArgumentParser()
    LAYERS.add_flags(parser)
    return LAYERS.resolve(parser.parse_args([]), overlay.environment(found))


def test_one_command_brings_both_programs(plane: ControlPlane) -> None:
    for name, account in ((f"daemonset/{DAEMON_SET}", ACCOUNT), (f"deployment/{RECOVERY}", "node-problem-detector")):
        found = plane.get(name, "-n", NAMESPACE)
        assert found["spec"]["template"]["spec"]["serviceAccountName"] == account
        assert plane.get("serviceaccount", account, "-n", NAMESPACE)
    assert plane.get("poddisruptionbudget", RECOVERY, "-n", NAMESPACE)["spec"]["minAvailable"] == 1


def test_the_policies_do_not_keep_recovery_from_its_work(plane: ControlPlane) -> None:
    plane.create_node("manifests-fenced")
    user = f"--as=system:serviceaccount:{NAMESPACE}:node-problem-detector"
    annotations = {SCALE_DOWN_ANNOTATION: "true", RECOVERY_ANNOTATION: "{}"}
    taint = {"key": UNHEALTHY_TAINT, "value": "dead", "effect": "NoSchedule"}
    fence = {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True, "taints": [taint]}}
    plane.kubectl("patch", "node", "manifests-fenced", user, "-p", json.dumps(fence))
    assert plane.get("node", "manifests-fenced")["spec"]["unschedulable"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "manifests-fenced", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "manifests-fenced"},
        "reason": "Fenced",
    }
    plane.kubectl("create", "-f", "-", user, stdin=json.dumps(event))
    with pytest.raises(KubectlError, match="cannot delete"):
        plane.kubectl("delete", "node", "manifests-fenced", user)


def test_a_second_apply_changes_nothing(plane: ControlPlane) -> None:
    assert plane.kubectl("diff", "-k", str(MANIFESTS / "base")) == ""


@pytest.mark.parametrize("components", [["podmonitor"], COMPONENTS, COMPONENTS[::-1]], ids="+".join)
def test_components_are_taken_together_in_any_order(plane: ControlPlane, tmp_path: Path, components: list[str]) -> None:
    plane.kubectl("apply", "-k", str(overlay.write(tmp_path, components)), *_STRICT)


def test_a_misspelt_field_is_refused(plane: ControlPlane, tmp_path: Path) -> None:
    wrong = {"patch": "[{op: add, path: /spec/minReadySecond, value: 5}]", "target": {"kind": "DaemonSet"}}
    with pytest.raises(KubectlError, match="minReadySecond"):
        plane.kubectl("apply", "-k", str(overlay.write(tmp_path, patches=[wrong])), *_STRICT)
    wrong = {"patch": "[{op: add, path: /spec/podMetricsEndpoint, value: []}]", "target": {"kind": "PodMonitor"}}
    with pytest.raises(KubectlError, match="podMetricsEndpoint"):
        plane.kubectl("apply", "-k", str(overlay.write(tmp_path, ["podmonitor"], patches=[wrong])), *_STRICT)


def test_the_base_is_for_neuron_and_does_not_recover(plane: ControlPlane, tmp_path: Path) -> None:
    found = overlay.daemon_set(plane, overlay.write(tmp_path))
    settings = _settings(found)
    assert settings.rules == ("neuron",)
    assert not settings.recovery_enabled
    assert not settings.kernel_only
    assert not settings.accelerated_hardware_ready
    (types,) = _types(found)
    assert types >= {
        "inf1.xlarge",
        "inf2.48xlarge",
        "trn1.2xlarge",
        "trn1n.32xlarge",
        "trn2.48xlarge",
        "trn2u.48xlarge",
    }
    assert all(each.startswith(("inf", "trn")) for each in types)


@pytest.mark.parametrize(
    ("vendor", "prefixes", "example"),
    [
        ("nvidia", ("p", "g"), "p5.48xlarge"),
        ("amd", ("g4ad.",), "g4ad.xlarge"),
        ("gaudi", ("dl1.",), "dl1.24xlarge"),
        ("efa", ("p", "g", "trn", "inf1."), "trn1.32xlarge"),
    ],
)
def test_a_vendor_adds_its_rules_and_its_nodes(
    plane: ControlPlane, tmp_path: Path, vendor: str, prefixes: tuple[str, ...], example: str
) -> None:
    found = overlay.daemon_set(plane, overlay.write(tmp_path, [vendor]))
    assert _settings(found).rules == ("neuron", vendor)
    neuron, types = _types(found)
    assert "trn2.48xlarge" in neuron
    assert example in types
    assert all(each.startswith(prefixes) for each in types)


@pytest.mark.parametrize("components", [["without-neuron", "nvidia", "efa"], ["efa", "nvidia", "without-neuron"]])
def test_neuron_can_be_left_out_in_any_order(plane: ControlPlane, tmp_path: Path, components: list[str]) -> None:
    found = overlay.daemon_set(plane, overlay.write(tmp_path, components))
    assert _settings(found).rules == ("nvidia", "efa")
    assert len(_types(found)) == 2
    assert any("p5.48xlarge" in types for types in _types(found))


def test_switches_come_as_components(plane: ControlPlane, tmp_path: Path) -> None:
    settings = _settings(overlay.daemon_set(plane, overlay.write(tmp_path, ["kernel-only"])))
    assert (settings.kernel_only, settings.accelerated_hardware_ready) == (True, False)
    settings = _settings(overlay.daemon_set(plane, overlay.write(tmp_path, ["accelerated-hardware-ready"])))
    assert (settings.kernel_only, settings.accelerated_hardware_ready) == (False, True)


def test_own_rules_are_mounted_where_the_detector_is_told_to_look(plane: ControlPlane, tmp_path: Path) -> None:
    found = overlay.daemon_set(plane, overlay.write(tmp_path, ["own-rules"]))
    pod = found["spec"]["template"]["spec"]
    (volume,) = (each for each in pod["volumes"] if each["name"] == "rules")
    (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "rules")
    assert _settings(found).rules == ("neuron", f"{mount['mountPath']}/example.yaml")
    assert volume["configMap"]["name"].startswith("chipwarden-rules-")


def test_another_registry_is_one_entry_of_images(plane: ControlPlane, tmp_path: Path) -> None:
    images = [{"name": "chipwarden", "newName": "registry.example/team/chipwarden", "newTag": "0.1.0-a"}]
    found = overlay.daemon_set(plane, overlay.write(tmp_path, images=images))
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/team/chipwarden:0.1.0-a"


@pytest.mark.parametrize(
    ("components", "condition"),
    [(["accelerated-hardware-ready"], ACCELERATED_HARDWARE_READY), (["own-rules"], "ExampleHasError")],
)
def test_the_policy_takes_a_further_condition_only_through_its_component(
    plane: ControlPlane, tmp_path: Path, components: list[str], condition: str
) -> None:
    def policy(*names: str) -> str:
        return plane.kubectl("kustomize", str(overlay.write(tmp_path, names)))

    assert f"['{condition}']" not in policy().replace("''", "'")
    assert f"['{condition}']" in policy(*components).replace("''", "'")


def test_nothing_but_privilege_is_taken(plane: ControlPlane) -> None:
    pod = plane.get("daemonset", DAEMON_SET, "-n", NAMESPACE)["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    host_paths = {each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    assert host_paths == {"/dev/kmsg", "/var/lib/chipwarden"}
