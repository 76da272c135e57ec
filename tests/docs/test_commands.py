"""Every command of the documentation is run, in a world like the reader's, or the page says why not.

A page is read from its first block to its last, as a reader does: what one command leaves behind, the next one finds.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import pages
from tests.docs.reasons import NOT_RUN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.pages import Command, Page
    from tests.docs.sandbox import Sandbox

PAGES = {page.name: page for page in pages()}
ON_A_MACHINE = (
    "docs/develop.md",
    "docs/install-ecs.md",
    "docs/install-standalone.md",
    "docs/rules.md",
    "docs/security.md",
)
ON_AN_EMPTY_CLUSTER = ("docs/install-eks.md",)
ON_A_CLUSTER_OF_OLD = ("docs/migrate-from-aws-npd.md",)
RUNBOOKS = tuple(name for name in PAGES if name.startswith("docs/runbooks/"))
ON_A_CLUSTER = tuple(
    name for name in PAGES if name not in ON_A_MACHINE + ON_AN_EMPTY_CLUSTER + ON_A_CLUSTER_OF_OLD + RUNBOOKS
)


def _with_commands(names: tuple[str, ...]) -> list[str]:
    """Leave out pages without a command that is run: they need no world."""
    return [name for name in names if any(_is_run(command.text) for command in _typed(PAGES[name]))]


def _typed(page: Page) -> list[Command]:
    return [command for block in page.blocks if block.not_run is None for command in block.commands]


def _is_run(text: str) -> bool:
    return not text.startswith(tuple(NOT_RUN))


def _read(page: Page, sandbox: Sandbox) -> None:
    for block in page.blocks:
        if block.file is not None:
            sandbox.save(block)
        elif block.not_run is None:
            sandbox.type(block, only=NOT_RUN)


@pytest.mark.parametrize("name", _with_commands(ON_A_MACHINE))
def test_commands_for_a_machine_do_what_the_page_says(machine: Sandbox, name: str) -> None:
    _read(PAGES[name], machine)


@pytest.mark.parametrize("name", _with_commands(ON_AN_EMPTY_CLUSTER))
def test_commands_that_install_do_what_the_page_says(empty_cluster: Sandbox, name: str) -> None:
    _read(PAGES[name], empty_cluster)


@pytest.mark.parametrize("name", _with_commands(ON_A_CLUSTER_OF_OLD))
def test_commands_that_migrate_do_what_the_page_says(cluster_with_aws_npd: Sandbox, name: str) -> None:
    _read(PAGES[name], cluster_with_aws_npd)


@pytest.mark.parametrize("name", _with_commands(ON_A_CLUSTER))
def test_commands_for_a_cluster_do_what_the_page_says(cluster_with_chipwarden: Sandbox, name: str) -> None:
    _read(PAGES[name], cluster_with_chipwarden)


def test_commands_of_the_runbooks_do_what_the_page_says(cluster_with_chipwarden: Sandbox) -> None:
    """All in one cluster: they look, and change little."""
    for name in RUNBOOKS:
        with _naming(name):
            _read(PAGES[name], cluster_with_chipwarden)


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Have a failure name its page."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from error


def test_what_is_not_run_has_a_reason() -> None:
    """Nothing is left out by accident: an empty reason counts as none, and an old one is noticed."""
    blocks = [block for page in PAGES.values() for block in page.blocks]
    assert [block for block in blocks if block.not_run is not None and len(block.not_run) < 10] == []
    assert [block for block in blocks if block.not_run is not None and not block.commands] == []
    typed = [command.text for page in PAGES.values() for command in _typed(page)]
    assert [prefix for prefix in NOT_RUN if not any(text.startswith(prefix) for text in typed)] == []


def test_commands_are_in_blocks_of_kind_console() -> None:
    """A block of another kind would not be looked at."""
    stray = [
        f"{page.name}:{block.line}"
        for page in PAGES.values()
        for block in page.blocks
        if block.kind in ("", "bash", "sh", "shell") or (block.kind == "console" and not block.commands)
    ]
    assert stray == []


@pytest.mark.parametrize("names", [ON_A_MACHINE, ON_AN_EMPTY_CLUSTER, ON_A_CLUSTER_OF_OLD])
def test_each_page_that_has_a_world_is_there(names: tuple[str, ...]) -> None:
    assert set(names) <= set(PAGES)
