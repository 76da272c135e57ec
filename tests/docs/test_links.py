"""Each link of the documentation leads somewhere: to a file of the repository, and there to a heading."""

from __future__ import annotations

import pytest

from tests.docs.pages import REPOSITORY, Page, pages, read

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_each_relative_link_leads_somewhere(page: Page) -> None:
    assert [f"line {line}: {target}" for line, target in page.links if not _leads_somewhere(page, target)] == []


def _leads_somewhere(page: Page, target: str) -> bool:
    if "://" in target or target.startswith("mailto:"):
        return True
    name, _, anchor = target.partition("#")
    path = (page.path.parent / name).resolve() if name else page.path
    if not path.exists() or not path.is_relative_to(REPOSITORY):
        return False
    return not anchor or (path.suffix == ".md" and anchor in read(path).anchors)


@pytest.mark.parametrize("target", ["no-such-page.md", "README.md#no-such-heading", "../../outside.md"])
def test_a_dead_link_is_noticed(target: str) -> None:
    assert not _leads_somewhere(read(REPOSITORY / "docs" / "README.md"), target)


def test_each_page_can_be_reached_from_the_index() -> None:
    """A page that nothing links to is a page that nobody reads."""
    reached: set[str] = set()
    ahead = [REPOSITORY / "docs" / "README.md"]
    while ahead:
        page = read(ahead.pop())
        if page.name in reached:
            continue
        reached.add(page.name)
        targets = [target.partition("#")[0] for _, target in page.links if "://" not in target]
        paths = [(page.path.parent / target).resolve() for target in targets]
        ahead += [path for path in paths if path.suffix == ".md" and path.exists()]
    assert {page.name for page in PAGES} - reached == set()
