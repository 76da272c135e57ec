"""The documentation as data: each page's commands, what they are said to print, files to write, links and anchors.

It reads and runs nothing. What a page looks like:

- A fenced block of kind `console` holds commands, each after `$ `; one goes on after a backslash or in open quotes.
  Lines without `$ ` are what the command prints; `...` stands for any lines, or within a line for any text.
- `# exits N` at the end of a command: it ends with that code, not with 0.
- `<!-- not run: why -->` on the line before a block: it is not run, and why.
- `<!-- file: PATH -->` on the line before a block of another kind: the reader saves it there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^( *)(`{3,})(\w*) *$")
_COMMENT = re.compile(r"^<!-- (not run|file): *(.*?) *-->$")
_EXITS = re.compile(r" +# exits (\d+)\b.*$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*?)\s*$")
_INLINE_CODE = re.compile(r"`[^`]*`")


class Command(NamedTuple):
    """One command of a page.

    Args:
        line: where it begins.
        text: what the shell gets.
        prints: the lines that it is said to print, `...` for any.
        exits: the code that it is said to end with.
    """

    line: int
    text: str
    prints: tuple[str, ...]
    exits: int


class Block(NamedTuple):
    """One fenced block.

    Args:
        line: of its fence.
        kind: console, yaml, ...
        text: what is in it, without the indentation of its fence.
        not_run: why its commands are not run; None = they are.
        file: where the reader saves it; None = nowhere.
    """

    line: int
    kind: str
    text: str
    not_run: str | None
    file: str | None

    @property
    def commands(self) -> tuple[Command, ...]:
        """Its commands; () if it is of another kind."""
        return tuple(_commands(self)) if self.kind == "console" else ()


class Page(NamedTuple):
    """One Markdown file.

    Args:
        path: of it.
        blocks: its fenced blocks, in order.
        prose: its other lines, with their numbers.
    """

    path: Path
    blocks: tuple[Block, ...]
    prose: tuple[tuple[int, str], ...]

    @property
    def name(self) -> str:
        """Its path from the root of the repository."""
        return str(self.path.relative_to(REPOSITORY))

    @property
    def links(self) -> list[tuple[int, str]]:
        """The targets of its links and pictures, with their lines."""
        found = []
        for number, line in self.prose:
            found += [(number, one or other) for one, other in _LINK.findall(_INLINE_CODE.sub("", line))]
        return found

    @property
    def anchors(self) -> set[str]:
        """What `#...` may name: its headings, as GitHub writes them."""
        found: dict[str, int] = {}
        anchors = set()
        for _, line in self.prose:
            if heading := _HEADING.match(line):
                slug = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
                anchors.add(f"{slug}-{found[slug]}" if slug in found else slug)
                found[slug] = found.get(slug, 0) + 1
        return anchors


def pages() -> list[Page]:
    """Read README.md, all of docs/ and the pages beside the manifests."""
    paths = [REPOSITORY / "README.md", *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("manifests/**/*.md")]
    return [read(path) for path in sorted(paths)]


def read(path: Path) -> Page:
    """Read one page."""
    blocks: list[Block] = []
    prose: list[tuple[int, str]] = []
    said: dict[str, str] = {}
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner.strip() == fence[2]:
                    break
                body.append(inner.removeprefix(fence[1]))
            blocks.append(Block(number, fence[3], "\n".join(body), said.get("not run"), said.get("file")))
            said = {}
        elif comment := _COMMENT.match(line.strip()):
            said[comment[1]] = comment[2]
        else:
            prose.append((number, line))
            said = {}
    return Page(path, tuple(blocks), tuple(prose))


def _commands(block: Block) -> list[Command]:
    found: list[Command] = []
    goes_on = False
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if goes_on:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{line}")
            goes_on = _goes_on(found[-1].text)
        elif line.startswith("$ "):
            found.append(Command(number, line.removeprefix("$ "), (), 0))
            goes_on = _goes_on(found[-1].text)
        elif found and line:
            found[-1] = found[-1]._replace(prints=(*found[-1].prints, line))
    return [_with_exit(command) for command in found]


def _goes_on(text: str) -> bool:
    return text.endswith("\\") or text.count("'") % 2 == 1


def _with_exit(command: Command) -> Command:
    exits = _EXITS.search(command.text)
    return command._replace(text=command.text[: exits.start()], exits=int(exits[1])) if exits else command
