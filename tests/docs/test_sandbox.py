"""The shell that the documentation's commands are typed in notices what is not as the page says."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.machine import aws_url
from tests.docs.pages import REPOSITORY, Block, pages, read
from tests.docs.sandbox import Sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aws.surroundings import Aws


# Capitals that are names; and what only those fill in who use that file.
KNOWN = {"WORKSPACE_ID", "AWS_REGION", "ENABLE_RECOVERY", "CHIPWARDEN_KUBERNETES", "CHIPWARDEN_LISTEN"}
TASK = REPOSITORY / "manifests" / "ecs" / "task-definition.json"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    made = Sandbox(tmp_path)
    made.words["NODE"] = "node-7"
    return made


def _block(text: str) -> Block:
    return Block(1, "console", text, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "$ echo NODE\nnode-7",
        "$ echo one; echo two; echo three\n...\nthree",
        "$ echo a long line\na ... line",
        "$ false    # exits 1",
        "$ cd docs\n$ ls README.md\nREADME.md",
        "$ echo one \\\n    two\none two",
        "$ echo '{\n  }'\n{",
        "$ echo NODES x-NODE\nNODES x-NODE",
    ],
)
def test_what_is_as_the_page_says_passes(sandbox: Sandbox, text: str) -> None:
    sandbox.type(_block(text))


@pytest.mark.parametrize(
    "text",
    [
        "$ echo one\ntwo",
        "$ echo one; echo two\ntwo\none",
        "$ false",
        "$ true    # exits 1",
        "$ no-such-program",
        "$ echo a long line\na ... page",
        "$ kubectl no-such-verb",
    ],
)
def test_what_is_not_fails(sandbox: Sandbox, text: str) -> None:
    with pytest.raises(AssertionError, match="line 2"):
        sandbox.type(_block(text))


def test_a_file_is_saved_where_the_page_says_and_nowhere_else(sandbox: Sandbox) -> None:
    sandbox.save(Block(1, "yaml", "node: NODE", None, "../fleet/x.yaml"))
    assert (sandbox.folder.parent / "fleet" / "x.yaml").read_text() == "node: node-7\n"
    with pytest.raises(AssertionError):
        sandbox.save(Block(1, "yaml", "x", None, "../../../x.yaml"))


def test_what_a_page_changes_is_a_copy(sandbox: Sandbox) -> None:
    sandbox.type(_block("$ sed -i s/chipwarden/x/ manifests/ecs/task-definition.json"))
    assert (sandbox.folder / "manifests/ecs/task-definition.json").read_text() != TASK.read_text()
    assert not (sandbox.folder / "manifests").is_symlink()


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("docs/install-ecs.md", "ecs"),
        ("docs/install-recovery.md", "iam/pod-identity"),
        ("docs/install-recovery.md", "iam/irsa"),
    ],
)
def test_a_page_fills_in_all_that_there_is_to_fill_in(sandbox: Sandbox, name: str, folder: str) -> None:
    (page,) = (page for page in pages() if page.name == name)
    fills = [each.text for block in page.blocks for each in block.commands if each.text.startswith("sed ")]
    sandbox.type(_block("\n".join(f"$ {text}" for text in fills)))
    for path in (sandbox.folder / "manifests" / folder).glob("*.json"):
        assert set(re.findall(r"\b(?:[A-Z]+_[A-Z]+|REGION)\b", path.read_text())) <= KNOWN, path
        assert json.loads(path.read_text())


@pytest.mark.parametrize(
    "command",
    [
        "aws iam create-rolle --role-name a --assume-role-policy-document {}",
        "aws iam create-role --role-name a",
        "aws iam create-role --role-nam a --assume-role-policy-document {}",
        "aws autoscaling create-or-update-tags --tags Kee=a,Value=b",
        "aws eks update-nodegroup-config --cluster-name a --nodegroup-name b --node-repair-config enable=true",
    ],
)
def test_a_call_that_aws_does_not_know_is_noticed(sandbox: Sandbox, aws: Aws, command: str) -> None:
    sandbox.env |= aws.env() | {"DOCS_AWS_URL": aws_url()}
    sandbox.type(_block(f"$ {command}    # exits 252"))


def test_a_page_is_read_as_its_author_meant(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "# A page\n\n- An item\n\n  ```console\n  $ ls [x](y.md)\n  out\n  ```\n\n<!-- not run: it must not be -->\n"
        "```console\n$ rm x\n```\n\n[link](z.md#a-page) and `[no](link.md)`\n"
    )
    page = read(path)
    assert [(command.text, command.prints) for command in page.blocks[0].commands] == [("ls [x](y.md)", ("out",))]
    assert [block.not_run for block in page.blocks] == [None, "it must not be"]
    assert (page.links, page.anchors) == ([(15, "z.md#a-page")], {"a-page"})
