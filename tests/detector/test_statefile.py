"""The state file: what was written is read, and what is there instead is set aside and never ends the program."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.model import ClearRequest, Condition, Fault, Pending, State
from detector.statefile import InUseError, StateFile, StateFileError
from runtime.vocabulary import Action, ClearsOn, FaultClass, Status

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 11, 29, 10, 15, 30, 123_456, tzinfo=UTC)
STATE = State(
    boot="a2f0c1d4",
    instance="i-0a1b2c3d4e5f60718",
    seq=2**64 - 1,
    conditions=(
        Condition(
            type="NeuronHasError",
            status=Status.TRUE,
            reason="NeuronHasError_DMA_ERROR",
            message='quotes ", newline \n and é',
            last_transition_at=AT.replace(microsecond=0),
            last_heartbeat_at=AT.replace(microsecond=0) + timedelta(minutes=5),
        ),
    ),
    faults=(
        Fault(
            reason="NeuronHasError_DMA_ERROR",
            condition="NeuronHasError",
            fault_class=FaultClass.DEAD,
            action=Action.REPLACE,
            clears_on=ClearsOn.REPLACEMENT,
            count=50_000,
            first_at=AT,
            last_at=AT,
            details={"nd-id": "11"},
        ),
    ),
    pending=(Pending(reason="X", details={}, stamps_us=(1, 2)),),
)


def content(**keys: Any) -> bytes:
    """Write a good state with some keys replaced."""
    return json.dumps(msgspec.to_builtins(STATE) | keys).encode()


def with_fault(**keys: Any) -> bytes:
    """Write a good state with some keys of its fault replaced."""
    return content(faults=[msgspec.to_builtins(STATE.faults[0]) | keys])


BAD = {
    "empty": b"",
    "torn": content()[:200],
    "zeros": b"\0" * 4096,
    "not text": b"\xff\xfe\x00",
    "another program's": b'{"version": 3, "entries": []}',
    "a list": b"[]",
    "null": b"null",
    "a future version": content(v=2),
    "an old version": content(v=0),
    "a number for a name": content(boot=7),
    "an unknown class": with_fault(faultClass="ded"),
    "a count in words": with_fault(count="many"),
    "a time without a zone": with_fault(first_at="2026-11-29T10:15:30"),
    "no time": with_fault(last_at="soon"),
    "endless nesting": b'{"more": ' + b"[" * 200_000,
    "a very large file": b'{"more": "' + b"x" * (9 << 20) + b'"}',
}


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile(str(tmp_path / "state"))


def put(file: StateFile, text: bytes) -> None:
    file.path.parent.mkdir(exist_ok=True)
    file.path.write_bytes(text)


def rejected(file: StateFile) -> list[Path]:
    return list(file.path.parent.glob("state.json.rejected-*"))


def test_what_was_saved_is_loaded(file: StateFile) -> None:
    file.save(STATE)
    assert file.load() == STATE


def test_a_directory_is_claimed_by_one_at_a_time(file: StateFile) -> None:
    file.claim()
    with pytest.raises(InUseError, match="state is in use by another detector"):
        StateFile(str(file.path.parent)).claim()
    file.save(STATE)
    assert StateFile(str(file.path.parent)).read() == STATE, "whoever only reads need not claim it"


def test_a_directory_that_cannot_be_made_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    StateFile(str(tmp_path / "file" / "state")).claim()
    StateFile(str(tmp_path / "file")).claim()


def test_nothing_saved_is_nothing_loaded(file: StateFile) -> None:
    assert file.load() is None
    assert not file.path.parent.exists()


def test_a_file_in_the_place_of_the_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    file = StateFile(str(tmp_path / "state"))
    says = f"stateDir names {tmp_path}/state, which is a file"
    with pytest.raises(StateFileError, match=says):
        file.read()
    with pytest.raises(StateFileError, match=says):
        file.save(STATE)
    with pytest.raises(StateFileError, match=says):
        file.leave_clear_request(ClearRequest(reason="all", faults=()))


def test_the_directory_is_made(tmp_path: Path) -> None:
    deep = StateFile(str(tmp_path / "a" / "b" / "c"))
    deep.save(STATE)
    assert deep.load() == STATE


def test_the_file_has_the_keys_of_the_contract(file: StateFile) -> None:
    file.save(STATE)
    written = json.loads(file.path.read_bytes())
    assert list(written)[:6] == ["v", "boot", "instance", "seq", "conditions", "faults"]
    assert written["v"] == 1


def test_only_the_file_itself_is_left_behind(file: StateFile) -> None:
    file.save(STATE)
    file.save(STATE)
    assert [path.name for path in file.path.parent.iterdir()] == ["state.json"]


def test_a_leftover_of_a_crash_is_no_obstacle(file: StateFile) -> None:
    file.path.parent.mkdir()
    (file.path.parent / ".state.json.new").write_bytes(content()[:100])
    assert file.load() is None
    file.save(STATE)
    assert file.load() == STATE


def test_a_link_put_in_the_way_is_not_written_through(file: StateFile, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    file.path.parent.mkdir()
    (file.path.parent / ".state.json.new").symlink_to(precious)
    with pytest.raises(StateFileError):
        file.save(STATE)
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_state_is_set_aside_whole_and_told(file: StateFile, bad: str) -> None:
    put(file, BAD[bad])
    with pytest.raises(StateFileError, match=r"state\.json .*; set aside as state\.json\.rejected-"):
        file.load()
    (aside,) = rejected(file)
    assert aside.read_bytes() == BAD[bad]
    assert file.load() is None
    file.save(STATE)
    assert file.load() == STATE


def test_a_directory_in_its_place_is_set_aside(file: StateFile) -> None:
    file.path.mkdir(parents=True)
    with pytest.raises(StateFileError, match="not a regular file; set aside"):
        file.load()
    file.save(STATE)
    assert file.load() == STATE


def test_a_pipe_in_its_place_is_set_aside_and_not_waited_for(file: StateFile) -> None:
    file.path.parent.mkdir()
    os.mkfifo(file.path)
    with pytest.raises(StateFileError, match="not a regular file; set aside"):
        file.load()
    file.save(STATE)
    assert file.load() == STATE


def test_a_link_to_itself_is_set_aside(file: StateFile) -> None:
    file.path.parent.mkdir()
    file.path.symlink_to("state.json")
    with pytest.raises(StateFileError, match="set aside"):
        file.load()
    assert file.load() is None


def test_what_cannot_be_set_aside_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below_a_file = StateFile(str(tmp_path / "file" / "state"))
    with pytest.raises(StateFileError, match="Not a directory; it could not be set aside: Not a directory"):
        below_a_file.load()
    with pytest.raises(StateFileError, match="cannot be written"):
        below_a_file.save(STATE)


def test_looking_leaves_what_it_cannot_read_where_it_is(file: StateFile) -> None:
    put(file, BAD["a future version"])
    with pytest.raises(StateFileError, match="is not a state file"):
        file.read()
    assert file.path.read_bytes() == BAD["a future version"]
    assert rejected(file) == []


def test_keys_of_a_later_minor_version_are_passed_over(file: StateFile) -> None:
    put(file, content(more=[1, 2, 3]))
    assert file.load() == STATE


def test_a_state_that_cannot_be_written_leaves_the_old_one(file: StateFile) -> None:
    file.save(STATE)
    (file.path.parent / ".state.json.new").mkdir()
    with pytest.raises(StateFileError, match="cannot be written: Is a directory"):
        file.save(msgspec.structs.replace(STATE, seq=1))
    assert file.load() == STATE


ANYTHING = st.one_of(st.binary(), st.text().map(str.encode), st.integers(0, 900).map(lambda end: content()[:end]))


@given(text=ANYTHING)
def test_no_bytes_whatever_do_more_than_be_refused(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    file = StateFile(str(tmp_path_factory.getbasetemp()))
    put(file, text)
    with contextlib.suppress(StateFileError):
        file.read()


# Requests to clear.


REQUEST = ClearRequest(reason="all", faults=STATE.faults)


def test_a_request_is_taken_once_and_says_what_there_was_to_see(file: StateFile) -> None:
    file.save(STATE)
    file.leave_clear_request(REQUEST)
    assert file.take_clear_requests() == [REQUEST]
    assert file.take_clear_requests() == []
    assert [path.name for path in file.path.parent.iterdir()] == ["state.json"]


def test_no_request_takes_the_place_of_another(file: StateFile) -> None:
    file.path.parent.mkdir()
    for reason in ("A", "B", "C"):
        file.leave_clear_request(ClearRequest(reason=reason, faults=()))
    assert sorted(request.reason for request in file.take_clear_requests()) == ["A", "B", "C"]


def test_many_requests_are_taken_in_several_looks(file: StateFile) -> None:
    file.path.parent.mkdir()
    for number in range(100):
        file.leave_clear_request(ClearRequest(reason=str(number), faults=()))
    assert [len(file.take_clear_requests()) for _ in range(3)] == [64, 36, 0]


def test_a_request_that_cannot_be_left_is_told(file: StateFile) -> None:
    with pytest.raises(StateFileError, match="cannot be written to: No such file"):
        file.leave_clear_request(REQUEST)


def test_without_a_directory_there_is_no_request(file: StateFile) -> None:
    assert file.take_clear_requests() == []


@pytest.mark.parametrize("bad", [*BAD, "pipe", "folder", "an old one"])
def test_what_is_no_request_is_passed_over_and_hides_no_other(file: StateFile, bad: str) -> None:
    file.path.parent.mkdir()
    place = file.path.parent / "clear-request-0"
    if bad == "pipe":
        os.mkfifo(place)
    elif bad == "folder":
        place.mkdir()
    else:
        place.write_bytes(BAD.get(bad, b"all\n"))
    os.utime(place, ns=(2**62, 2**62))
    file.leave_clear_request(REQUEST)
    assert file.take_clear_requests() == [REQUEST]


def test_a_request_that_cannot_be_removed_is_not_met_again_and_again(file: StateFile, tmp_path: Path) -> None:
    file.save(STATE)
    file.leave_clear_request(REQUEST)
    subprocess.run(["mount", "--bind", "-o", "ro", file.path.parent, file.path.parent], check=True)
    try:
        assert StateFile(str(tmp_path / "state")).take_clear_requests() == []
    finally:
        subprocess.run(["umount", file.path.parent], check=True)
