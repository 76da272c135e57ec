"""The archive itself: always the same bytes, whole or not there, and never in the place of something else."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from detector import archive
from detector.archive import ArchiveError

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 11, 30, 1, 2, 3, tzinfo=UTC)


def test_the_same_content_gives_the_same_bytes_in_any_order() -> None:
    assert archive.pack("x", {"a": b"1", "b/c": b"2"}, AT) == archive.pack("x", {"b/c": b"2", "a": b"1"}, AT)


def test_entries_are_sorted_and_say_nothing_about_who_packed_them() -> None:
    packed = archive.pack("x", {"b": b"2", "a/c": b"1"}, AT)
    with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
        entries = opened.getmembers()
    assert [entry.name for entry in entries] == ["x/a/c", "x/b"]
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {(0, 0, "", "")}
    assert {(entry.mode, entry.mtime) for entry in entries} == {(0o600, int(AT.timestamp()))}


def test_it_is_for_its_owner_only_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(archive.pack(f"{archive.FOLDER}x", {"a": b"old"}, AT))
    path.chmod(0o644)
    before = os.umask(0)
    try:
        archive.write(path, b"new")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_is_no_regular_file_stays_what_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/hostname")
    was = path.lstat()
    with pytest.raises(ArchiveError, match="is there already and is not a regular file"):
        archive.write(path, b"new")
    assert path.lstat() == was
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"my work", gzip.compress(b"my work"), archive.pack("mine", {"a": b"1"}, AT)])
def test_a_file_that_is_no_earlier_archive_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="is there already and is not an earlier archive"):
        archive.write(path, b"new")
    assert path.read_bytes() == content


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.touch()
    archive.write(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_missing_folder_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=f"{tmp_path}/none is no folder"):
        archive.check(tmp_path / "none" / "x")


@pytest.mark.real
def test_a_full_disk_keeps_the_older_one_and_leaves_nothing_behind(small_disk: Path) -> None:
    path = small_disk / "x.tar.gz"
    old = archive.pack(f"{archive.FOLDER}x", {"a": b"old"}, AT)
    archive.write(path, old)
    with pytest.raises(ArchiveError, match="cannot be written: No space left on device"):
        archive.write(path, b"n" * (1 << 17))
    assert path.read_bytes() == old
    assert list(small_disk.iterdir()) == [path]
