"""The documentation names no setting, flag, metric, reason, command or file that does not exist."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import msgspec
import pytest

from detector.rulefiles import load_all
from detector.settings import LAYERS as DETECTOR
from recovery.decision import Why
from recovery.policy import Budget, Policy
from recovery.settings import LAYERS as RECOVERY
from runtime.vocabulary import SHIPPED_RULE_SETS
from tests.docs.pages import REPOSITORY, Page, pages
from tools.reference import reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGES = pages()
IDS = [page.name for page in PAGES]
CODE = re.compile(r"`([^`\n]+)`")
VARIABLES = {name for layers in (DETECTOR, RECOVERY) for field in layers.fields for name in field.env}
KEYS = {field.key for layers in (DETECTOR, RECOVERY) for field in layers.fields}
RULES = load_all(list(SHIPPED_RULE_SETS)).rules
REASONS = {rule.reason for rule in RULES}
METRICS = set(re.findall(r"\| ((?:chipwarden|problem)_\w+) \|", reference()))
_SUFFIXES = ("_bucket", "_sum", "_count")
_REASON = re.compile(r"\b((?:Neuron|Nvidia|AmdGpu|Gaudi|Efa)HasError_\w+)")
_PATH = re.compile(r"^(?:docs|manifests|detector|recovery|runtime|tests|tools|bench|requirements)/[\w./-]+$")


def _texts(page: Page) -> Iterator[str]:
    """Yield all that a page says, blocks included."""
    yield from (line for _, line in page.prose)
    yield from (block.text for block in page.blocks)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_variable_is_a_setting(page: Page) -> None:
    named = {name for text in _texts(page) for name in re.findall(r"\b(?:CHIPWARDEN_\w+|ENABLE_RECOVERY)\b", text)}
    assert named - VARIABLES - {"CHIPWARDEN_CONFIG"} == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_metric_is_one(page: Page) -> None:
    pattern = r"(?<![\w/.-])((?:chipwarden_(?:detector|recovery|build)|problem)_[a-z_]+)"
    named = {name for text in _texts(page) for name in re.findall(pattern, text)}
    known = METRICS | {f"{metric}{suffix}" for metric in METRICS for suffix in _SUFFIXES}
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_shipped_reason_is_one(page: Page) -> None:
    assert {name for text in _texts(page) for name in _REASON.findall(text)} - REASONS == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_block_is_one(page: Page) -> None:
    named = {word for text in _texts(page) for word in re.findall(r"`Blocked: (\w+)`", text)}
    assert named - set(Why) == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_file_is_there(page: Page) -> None:
    named = {code for _, line in page.prose for code in CODE.findall(line)}
    missing = [each for each in named if _PATH.match(each) and not any(REPOSITORY.glob(each.rstrip("/")))]
    missing = [each for each in missing if "NAME" not in each]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_flag_of_ours_is_one(page: Page) -> None:
    """A flag in words stands alone in its code; those in commands are tried by running them."""
    codes = [code for _, line in page.prose for code in CODE.findall(line)]
    flags = {code.split("=")[0].split()[0] for code in codes if code.startswith("--")}
    assert flags - _flags() == set()


def _flags() -> set[str]:
    parser = ArgumentParser()
    for layers in (DETECTOR, RECOVERY):
        other = ArgumentParser()
        layers.add_flags(other)
        parser._option_string_actions.update(other._option_string_actions)
    commands = {"--output", "--group", "--condition", "--rules", "--device", "--core", "--serial", "--count", "--rate"}
    of_others = {"--set", "--name"}  # helm and eksctl, in words about AWS's guide
    return set(parser._option_string_actions) | commands | of_others


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("set `CHIPWARDEN_KMGS`", test_each_variable_is_a_setting),
        ("look at `chipwarden_detector_reader_is_up`", test_each_metric_is_one),
        ("inject `NeuronHasError_DMA`", test_each_shipped_reason_is_one),
        ("it says `Blocked: MaxPerGruop`", test_each_block_is_one),
        ("see `docs/instal-eks.md`", test_each_file_is_there),
        ("use `--kernel-onyl`", test_each_flag_of_ours_is_one),
    ],
)
def test_a_misspelt_name_is_noticed(line: str, check: Callable[[Page], None]) -> None:
    with pytest.raises(AssertionError):
        check(Page(REPOSITORY / "docs" / "x.md", (), ((1, line),)))


def test_each_word_of_the_plan_is_explained_where_people_look_for_it() -> None:
    """troubleshooting.md has what is no block; recovery.md, which it links to, has the blocks: together all of them."""
    rows = [
        code
        for page in PAGES
        if page.name in ("docs/troubleshooting.md", "docs/recovery.md")
        for _, line in page.prose
        if line.startswith("| `")
        for code in CODE.findall(line.split("|")[1])
    ]
    assert {str(word) for word in Why} - set(rows) == set()


def test_budget_and_policy_keys_in_words_exist() -> None:
    keys = {field.encode_name for struct in (Budget, Policy) for field in msgspec.structs.fields(struct)} | KEYS
    page = next(page for page in PAGES if page.name == "docs/recovery.md")
    pattern = r"`((?:max|storm|replacement|force|respect)[A-Z]\w+)`"
    named = {word for _, line in page.prose for word in re.findall(pattern, line)}
    assert named - keys == set()
