"""An archive of a few small files: the same content gives the same bytes, and it is there whole or not at all.

An edge. Nothing of the machine that writes it gets in: no user, no host, no time but the one given. Must never put a
file in the place of something that is not an earlier archive: root could replace /dev/null, anybody their own work.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

FOLDER: Final = "chipwarden-bundle-"  # how the one folder in every archive is called, before the time
_BLOCK: Final = 512  # of a tar file; the first one begins with the first name
_MODE = 0o600  # redacted, but not for everybody on the machine


class ArchiveError(Exception):
    """The archive cannot be written there. Nothing was left behind, and what was there before is still there."""


def pack(folder: str, files: Mapping[str, bytes], at: datetime) -> bytes:
    """Make a .tar.gz of files.

    Args:
        folder: that all of them are in.
        files: content by name, `/` in it for folders.
        at: the time that all of them bear.
    """
    seconds = int(at.timestamp())
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(files[name]), seconds, _MODE
            archive.addfile(entry, io.BytesIO(files[name]))
    return packed.getvalue()


def check(path: Path) -> None:
    """Make sure that a file may be put there, before the work of filling it is done.

    Raises:
        ArchiveError: there is something else, or no folder for it.
    """
    try:
        if not path.parent.is_dir():
            raise ArchiveError(f"{path.parent} is no folder")
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise ArchiveError(f"{path} is there already and is not a regular file")
            if found.st_size and not _is_archive(path):
                raise ArchiveError(f"{path} is there already and is not an earlier archive")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be written: {error.strerror}") from error


def write(path: Path, content: bytes) -> None:
    """Put a file there, readable by its owner only.

    Raises:
        ArchiveError: it cannot be written.
    """
    fresh = path.with_name(f".chipwarden-{os.getpid()}.new")
    try:
        check(path)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(fd)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ArchiveError(f"{path} cannot be written: {error.strerror}") from error


def _is_archive(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(fd, "rb") as file, contextlib.suppress(zlib.error):
        unpacked = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(file.read(_BLOCK), _BLOCK)
        return unpacked.startswith(FOLDER.encode())
    return False
