"""The component that gives recovery a settings file: what kustomize makes of it, and what the program makes of that."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from recovery.settings import Settings
from tests.chain.place import DMA, SHIPPED
from tests.detector.process import until
from tests.kubernetes.binaries import program
from tests.kubernetes.overlay import RECOVERY, write
from tests.recovery.program import Recovery, recovery

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chain.place import Place

NAME = "recovery-settings"
FILE = "recovery.yaml"


def _built(place: Place, folder: Path, *components: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the Deployment's pod and the ConfigMap of an overlay."""
    folder.mkdir()
    documents = list(yaml.safe_load_all(place.plane.kubectl("kustomize", str(write(folder, components, **more)))))
    (deployment,) = [each for each in documents if (each["kind"], each["metadata"]["name"]) == ("Deployment", RECOVERY)]
    (config,) = [each for each in documents if each["kind"] == "ConfigMap" and each["metadata"]["name"] == NAME]
    return deployment["spec"]["template"]["spec"], config


@pytest.fixture
def mounted(place: Place, tmp_path: Path) -> Path:
    """What the pod finds under the path that CHIPWARDEN_CONFIG names, with the ConfigMap in the cluster."""
    pod, config = _built(place, tmp_path / "overlay", NAME)
    assert config["metadata"]["namespace"] == SHIPPED
    (container,) = pod["containers"]
    env = {each["name"]: each.get("value", "") for each in container["env"]}
    (mount,) = container["volumeMounts"]
    (volume,) = pod["volumes"]
    assert mount["name"] == volume["name"]
    assert mount["readOnly"]
    assert volume["configMap"]["name"] == NAME
    assert env["CHIPWARDEN_CONFIG"] == f"{mount['mountPath']}/{FILE}"
    path = f"/api/v1/namespaces/{place.namespace}/configmaps"
    config["metadata"]["namespace"] = place.namespace
    assert place.admin.ask("POST", path, config).code == 201
    folder = tmp_path / "mounted"
    folder.mkdir()
    _mount(place, folder)
    return folder / FILE


def _mount(place: Place, folder: Path) -> None:
    """Write the ConfigMap as the kubelet does."""
    found = place.admin.ask("GET", f"/api/v1/namespaces/{place.namespace}/configmaps/{NAME}").body
    for name, text in found["data"].items():
        (folder / name).write_text(text)


def _edit(place: Place, folder: Path, old: str, new: str) -> None:
    """Run `kubectl edit`, with an editor that does what a person would."""
    editor = folder / "editor"
    editor.write_text(f"#!/bin/sh\nexec sed -i 's/{old}/{new}/' \"$1\"\n")
    editor.chmod(0o755)
    subprocess.run(
        [program("kubectl"), "edit", "-n", place.namespace, f"cm/{NAME}"],
        env=os.environ | {"KUBECONFIG": str(place.plane.kubeconfig), "EDITOR": str(editor)},
        check=True,
        timeout=30,
        capture_output=True,
    )


def _shown(place: Place, file: Path) -> dict[str, Any]:
    done = recovery("run", "--print-settings", env=place.env() | {"CHIPWARDEN_CONFIG": str(file)})
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = yaml.safe_load(done.stdout)
    return shown


def test_as_it_comes_it_changes_nothing(place: Place, mounted: Path) -> None:
    shown = _shown(place, mounted)
    assert (shown["policies"], shown["budget"]["maxConcurrent"]) == ({}, Settings().budget.max_concurrent)
    without = {name: value for name, value in shown.items() if name != "kubernetes"}
    plain = yaml.safe_load(recovery("run", "--print-settings", env=place.env()).stdout)
    assert without == {name: value for name, value in plain.items() if name != "kubernetes"}


def test_what_is_suggested_in_it_is_taken(place: Place, mounted: Path) -> None:
    suggested = mounted.read_text().replace("# ", "").replace("budget: {}\n", "").replace("policies: {}\n", "")
    mounted.write_text(suggested)
    shown = _shown(place, mounted)
    assert shown["policies"][DMA]["confirmFor"] == "10s"
    assert shown["budget"] == yaml.safe_load(recovery("run", "--print-settings", env=place.env()).stdout)["budget"]


def test_an_edit_of_the_config_map_is_what_recovery_does(place: Place, mounted: Path, tmp_path: Path) -> None:
    _edit(place, tmp_path, "policies: {}", f"policies: {{{DMA}: {{action: none}}, default: {{confirmFor: 1s}}}}")
    _mount(place, mounted.parent)
    (machine,) = place.machines_of(place.aws.player.make_group(10), 1)
    machine.break_down("DMA_ERROR")
    env = place.env() | {"CHIPWARDEN_CONFIG": str(mounted)}
    running = Recovery(tmp_path, "--poll", "1s", "--namespace", place.namespace, env=env)
    place.replicas.append(running)
    running.start()
    until(lambda: running.metric("decisions_total", "none", DMA), seconds=30, what="it is left to people")
    passes = len(place.asked("get", "configmaps/recovery-control"))
    until(lambda: len(place.asked("get", "configmaps/recovery-control")) > passes + 3, seconds=30, what="3 passes")
    assert place.entries() == []
    assert not machine.is_fenced()
    shown = _shown(place, mounted)["policies"]
    assert (shown[DMA]["action"], shown["default"]["confirmFor"]) == ("none", "1s")


def test_a_mistake_names_the_file_and_the_key(place: Place, mounted: Path, tmp_path: Path) -> None:
    _edit(place, tmp_path, "budget: {}", "budget: {maxConcurent: 5}")
    _mount(place, mounted.parent)
    done = recovery("run", env=place.env() | {"CHIPWARDEN_CONFIG": str(mounted)})
    assert done.returncode == 2
    assert str(mounted) in done.stderr
    assert "maxConcurent" in done.stderr


def test_an_overlay_may_bring_its_own_text(place: Place, tmp_path: Path) -> None:
    patch = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": SHIPPED},
        "data": {FILE: "budget: {maxConcurrent: 5}\n"},
    }
    _, config = _built(place, tmp_path / "own", NAME, patches=[{"patch": json.dumps(patch)}])
    assert config["data"] == {FILE: "budget: {maxConcurrent: 5}\n"}
