"""`bundle`: one redacted archive of everything that helps to understand what the detector did, or did not do.

Made to work when nothing else does: what cannot be got is listed as missing, and the detector need not be alive. It
only reads, but for the archive itself.
"""

from __future__ import annotations

import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from detector import archive
from detector.archive import ArchiveError
from detector.collection import Collection
from detector.looks import Looks
from detector.redact import HOST, USER, Redactor

if TYPE_CHECKING:
    from detector.settings import Settings

STDOUT: Final = "-"


class BundleError(Exception):
    """No archive was written; the message says why. It says nothing about the detector."""


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """What was collected.

    Args:
        content: the archive.
        files: how many are in it.
        missing: what could not be got, and why.
        redacted: how many different values of each kind.
    """

    content: bytes
    files: int
    missing: list[dict[str, str]]
    redacted: dict[str, int]


def bundle(settings: Settings, output: str | None, *, keep_names: bool) -> str:
    """Collect everything, write it, and say in a few lines what was written.

    Args:
        settings: of the detector that it is about.
        output: a file, or `-` for standard output; None = a file in the working directory.
        keep_names: leave host names, and user names in home paths, as they are.

    Raises:
        BundleError: nothing was written.
    """
    at = datetime.now(UTC)
    folder = f"{archive.FOLDER}{at:%Y%m%dT%H%M%SZ}"  # says nothing about the machine
    path = Path(output or f"{folder}.tar.gz").absolute()
    try:
        if output != STDOUT:
            archive.check(path)
        elif sys.stdout is None or sys.stdout.isatty():
            raise BundleError("standard output takes no archive here; name a file with --output")
        made = collect(settings, folder, at, keep_names=keep_names)
        if output == STDOUT:
            _write_out(made.content)
        else:
            archive.write(path, made.content)
    except ArchiveError as error:
        raise BundleError(f"{error} (--output takes another place, or - for standard output)") from error
    return _told("standard output" if output == STDOUT else str(path), made)


def collect(settings: Settings, folder: str, at: datetime, *, keep_names: bool) -> Bundle:
    """Collect everything and pack it.

    Args:
        settings: of the detector that it is about.
        folder: the one folder in the archive.
        at: the time that its files bear.
        keep_names: leave host names, and user names in home paths, as they are.
    """
    names = (settings.node_name, socket.gethostname(), os.uname().nodename)
    collection = Collection(Redactor(names, keep=(HOST, USER) if keep_names else ()))
    for what, look in Looks(settings, collection):
        _show(f"looking at: {what}")
        try:
            look()
        except Exception as error:  # noqa: BLE001 - whatever is broken here, the rest is wanted all the more
            collection.miss(what, str(error) or type(error).__name__)
    _show("")
    redacted = collection.finish(at)
    return Bundle(
        content=archive.pack(folder, collection.files, at),
        files=len(collection.files),
        missing=collection.missing,
        redacted=redacted,
    )


def _write_out(content: bytes) -> None:
    """Write to standard output; past its own buffer, which would be written once more at the end of the program.

    Raises:
        BundleError: not all of it could be written.
        BrokenPipeError: the reader left.
    """
    try:
        with open(sys.stdout.fileno(), "wb", closefd=False) as out:
            out.write(content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BundleError(f"standard output cannot be written: {error.strerror}") from error


def _told(place: str, made: Bundle) -> str:
    lines = [f"{place}: {-(-len(made.content) // 1024)} KiB, {made.files} files"]
    lines += [f"missing: {entry['what']}: {entry['why']}" for entry in made.missing]
    counts = ", ".join(f"{count} {kind}" for kind, count in made.redacted.items())
    lines.append(f"redacted: {counts or 'nothing'} (different values; manifest.json says more)")
    lines.append("Look through it before you send it to anybody: no rule knows every secret.")
    return "\n".join(lines)


def _show(text: str) -> None:
    """Show on a terminal what is being done; an empty text wipes it away."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
