"""Each example file of the documentation is one that the programs take."""

from __future__ import annotations

import subprocess
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from detector.rules import load
from recovery.settings import LAYERS
from tests.docs.pages import REPOSITORY, Block, pages
from tests.kubernetes import overlay
from tests.kubernetes.binaries import program

if TYPE_CHECKING:
    from pathlib import Path

    from _pytest.mark import ParameterSet

EXAMPLES = [(page.name, block) for page in pages() for block in page.blocks if block.kind in ("yaml", "json")]


def _of(kind: str) -> list[ParameterSet]:
    return [pytest.param(block, id=f"{name}:{block.line}") for name, block in EXAMPLES if _kind(block) == kind]


def _kind(block: Block) -> str:
    """Tell what an example is, by its first keys."""
    document = yaml.safe_load(block.text)
    if isinstance(document, list):
        return "patches"
    if document.get("kind") == "RuleSet" or "plugin" in document:
        return "rules"
    if document.keys() == {"components"}:
        return "components"
    return "overlay" if document.get("kind") == "Kustomization" else "settings"


@pytest.mark.parametrize("block", _of("rules"))
def test_a_rule_file_loads_and_its_examples_hold(block: Block) -> None:
    assert load(block.text.encode(), block.file or "example.yaml").rules


@pytest.mark.parametrize("block", _of("settings"))
def test_recovery_takes_its_settings(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "recovery.yaml"
    path.write_text(block.text)
    parser = ArgumentParser()
    LAYERS.add_flags(parser)
    assert LAYERS.resolve(parser.parse_args(["--config", str(path)]), {})


@pytest.mark.parametrize("block", _of("overlay"))
def test_an_overlay_is_saved_where_commands_apply_it(block: Block) -> None:
    """tests/docs/test_commands.py applies it; one that is not saved would never be tried."""
    assert block.file is not None
    assert block.file.endswith("kustomization.yaml")


@pytest.mark.parametrize("block", _of("components"))
def test_components_to_paste_are_there(block: Block) -> None:
    for path in yaml.safe_load(block.text)["components"]:
        assert (REPOSITORY / path.removeprefix("../chipwarden/") / "kustomization.yaml").is_file()


@pytest.mark.real
@pytest.mark.parametrize("block", _of("patches"))
def test_a_patch_to_paste_does_what_it_says(block: Block, tmp_path: Path) -> None:
    patches = yaml.safe_load(block.text)
    (wanted,) = (yaml.safe_load(each["patch"]) for each in patches)
    folder = overlay.write(tmp_path, patches=patches)
    built = subprocess.run([program("kubectl"), "kustomize", str(folder)], check=True, capture_output=True, timeout=60)
    (made,) = (each for each in yaml.safe_load_all(built.stdout) if _is_same(each, wanted))
    (container,) = made["spec"]["template"]["spec"]["containers"]
    for variable in wanted["spec"]["template"]["spec"]["containers"][0]["env"]:
        assert variable in container["env"]


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (one["kind"], one["metadata"]["name"]) == (other["kind"], other["metadata"]["name"])


def test_there_is_an_example_of_each() -> None:
    assert {_kind(block) for _, block in EXAMPLES} == {"rules", "settings", "overlay", "components", "patches"}
