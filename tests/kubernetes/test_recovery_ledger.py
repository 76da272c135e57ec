"""The ledger, in a ConfigMap of a real API server and in a file: two writers, lost answers, what cannot be read."""

from __future__ import annotations

import fcntl
import itertools
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from recovery import ledger_text
from recovery.ledger import KubeLedger
from recovery.ledger_file import FileLedger
from recovery.model import State
from recovery.ports import PortError
from tests.detector.process import until
from tests.kubernetes.asks import holder
from tests.kubernetes.faults import FaultProxy, resets_after, says, whole
from tests.kubernetes.recovering import NOW, RunningClock, TurnedClock, entry, ledger, rest_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.controlplane import ControlPlane

_numbers = itertools.count()
_MERGE = "application/merge-patch+json"
_GARBAGE = [
    "not JSON",
    "{}",
    "[]",
    "null",
    '{"v": 2, "entries": []}',
    '{"v": 1, "entries": 7}',
    '{"v": 1, "entries": [{"id": "a"}]}',
    '{"v": 1, "tripped": {"r": "2026-11-29T10:00:00"}}',
    "[" * 5000,
]


class Place(Protocol):
    """Where a ledger is kept."""

    def make(self) -> KubeLedger | FileLedger: ...

    def put(self, text: str) -> None: ...

    def text(self) -> str: ...

    def remove(self) -> None: ...


class InCluster:
    """A namespace."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = holder(plane, plane.admin_token)
        self.namespace = f"ledger-{next(_numbers)}"
        self.path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        assert self.admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}}).code == 201

    def make(self, kubeconfig: Path | None = None) -> KubeLedger:
        return KubeLedger(rest_for(self.plane, kubeconfig=kubeconfig), self.namespace, RunningClock())

    def put(self, text: str) -> None:
        self.create("recovery-ledger", data={"ledger.json": text})

    def create(self, name: str, **content: Any) -> None:
        assert self.admin.ask("POST", self.path, {"metadata": {"name": name}, **content}).code == 201

    def get(self, name: str = "recovery-ledger") -> dict[str, Any]:
        found: dict[str, Any] = self.admin.ask("GET", f"{self.path}/{name}").body
        return found

    def text(self) -> str:
        return str(self.get()["data"]["ledger.json"])

    def remove(self) -> None:
        assert self.admin.ask("DELETE", f"{self.path}/recovery-ledger").code == 200


class InFolder:
    """A state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"

    def make(self) -> FileLedger:
        return FileLedger(str(self.folder), RunningClock())

    def put(self, text: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "ledger.json").write_text(text)

    def text(self) -> str:
        return (self.folder / "ledger.json").read_text()

    def remove(self) -> None:
        (self.folder / "ledger.json").unlink()


@pytest.fixture
def in_cluster(apiserver: ControlPlane) -> InCluster:
    return InCluster(apiserver)


@pytest.fixture(params=["cluster", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return InFolder(tmp_path)
    place: InCluster = request.getfixturevalue("in_cluster")
    return place


def _conflict(writer: KubeLedger | FileLedger, *entries: Any) -> None:
    with pytest.raises(PortError) as caught:
        writer.save(ledger(*entries))
    assert caught.value.conflict


def test_there_is_none_until_it_is_made(place: Place) -> None:
    writer = place.make()
    assert writer.load() is None
    body = ledger(
        entry(members=("i-1", "i-2"), state=State.TERMINATING), tripped={"r": NOW}, blocked_groups={"g": "why"}
    )
    writer.save(body)
    assert place.make().load() == body
    said = json.loads(place.text())
    assert (said["v"], said["blockedGroups"], said["entries"][0]["class"]) == (1, {"g": "why"}, "dead")


def test_steps_follow_each_other_without_reading_again(place: Place) -> None:
    writer = place.make()
    writer.load()
    for state in (State.FENCED, State.ADMITTED, State.DRAINED):
        writer.save(ledger(entry(id="a", state=state)))
    loaded = place.make().load()
    assert loaded is not None
    assert [each.state for each in loaded.entries] == [State.DRAINED]


def test_of_two_writers_one_has_to_read_again(place: Place) -> None:
    first, second = place.make(), place.make()
    first.load()
    first.save(ledger())
    second.load()
    mine, theirs = entry(), entry()
    first.save(ledger(mine))
    _conflict(second, theirs)
    _conflict(second, theirs)  # however often
    assert second.load() == ledger(mine)
    second.save(ledger(mine, theirs))
    _conflict(first, mine)
    assert place.make().load() == ledger(mine, theirs)


def test_of_two_that_make_it_one_has_to_read_again(place: Place) -> None:
    first, second = place.make(), place.make()
    assert first.load() is second.load() is None
    mine = entry()
    first.save(ledger(mine))
    _conflict(second, entry())
    assert second.load() == ledger(mine)


def test_a_leader_that_was_paused_cannot_take_a_step(place: Place) -> None:
    paused, leader = place.make(), place.make()
    paused.load()
    paused.save(ledger(entry(id="a")))
    leader.load()
    for state in (State.ADMITTED, State.TERMINATING):
        leader.save(ledger(entry(id="a", state=state)))
    _conflict(paused, entry(id="a", state=State.TERMINATING))


def test_a_ledger_that_was_taken_away_meanwhile_is_read_again(place: Place) -> None:
    writer = place.make()
    writer.load()
    writer.save(ledger(entry()))
    place.remove()
    with pytest.raises(PortError):
        writer.save(ledger(entry()))
    assert writer.load() is None
    writer.save(ledger(entry(id="a")))
    place.remove()
    place.put('{"v": 1, "entries": []}')
    _conflict(writer, entry())


def test_what_was_not_read_is_not_written(place: Place) -> None:
    _conflict(place.make(), entry())


@pytest.mark.parametrize("text", _GARBAGE)
def test_what_cannot_be_read_is_never_written_over(place: Place, text: str) -> None:
    place.put(text)
    writer = place.make()
    with pytest.raises(PortError, match="unreadable") as caught:
        writer.load()
    assert not caught.value.gone
    _conflict(writer, entry())
    assert place.text() == text


def test_two_entries_with_one_id_are_unreadable(place: Place) -> None:
    place.put(ledger_text.write(ledger(entry(id="a"), entry(id="a")), NOW).decode())
    with pytest.raises(PortError, match="same id"):
        place.make().load()


def test_a_ledger_that_becomes_unreadable_under_the_writer_stays(place: Place) -> None:
    writer = place.make()
    writer.load()
    writer.save(ledger())
    place.remove()
    place.put("garbage")
    _conflict(writer, entry())
    assert place.text() == "garbage"


def test_pausing_and_resuming(place: Place) -> None:
    writer = place.make()
    assert writer.paused() is None
    writer.resume()
    for why, said in (("new driver\n", "new driver"), ("", "no reason given"), ("päuschen", "päuschen")):
        writer.pause(why)
        assert place.make().paused() == said
    writer.resume()
    writer.resume()
    assert place.make().paused() is None


def test_a_large_ledger_is_kept_as_long_as_it_fits(place: Place) -> None:
    writer = place.make()
    writer.load()
    members = tuple(f"i-{number:017x}" for number in range(1000))
    body = ledger(*(entry(members=members) for _ in range(40)))
    assert ledger_text.size(body) > ledger_text.FULL_BYTES
    writer.save(body)
    assert place.make().load() == body
    before = place.text()
    with pytest.raises(PortError, match="too large"):
        writer.save(ledger(*(entry(members=members) for _ in range(60))))
    assert place.text() == before


def test_the_config_map_keeps_what_others_put_into_it(in_cluster: InCluster) -> None:
    in_cluster.create("recovery-ledger", data={"other": "x"})
    writer = in_cluster.make()
    assert writer.load() is None
    writer.save(ledger())
    assert in_cluster.get()["data"].keys() == {"other", "ledger.json"}


def test_a_step_whose_answer_was_lost_is_read_again(in_cluster: InCluster) -> None:
    with FaultProxy(in_cluster.plane) as proxy:
        writer = in_cluster.make(in_cluster.plane.kubeconfig_for(in_cluster.plane.admin_token, url=proxy.url))
        writer.load()
        writer.save(ledger())
        step = entry()
        proxy.will(resets_after(0))
        with pytest.raises(PortError) as caught:
            writer.save(ledger(step))
        assert not caught.value.conflict
        _conflict(writer, step)
        assert writer.load() == ledger(step)


@pytest.mark.parametrize("answer", [whole(503), whole(403), whole(200, b"<html>"), whole(200, b"{}"), whole(200, b"")])
def test_a_doubt_about_the_pause_is_a_pause(in_cluster: InCluster, answer: bytes) -> None:
    with FaultProxy() as proxy:
        proxy.always(says(answer))
        writer = in_cluster.make(in_cluster.plane.kubeconfig_for("x", url=proxy.url))
        assert "cannot be read" in (writer.paused() or "")
        with pytest.raises(PortError) as caught:
            writer.load()
        assert not caught.value.gone


@pytest.mark.parametrize("answer", [whole(503), whole(403), whole(200, b"")])
def test_a_pause_that_may_not_have_been_taken_is_said(in_cluster: InCluster, answer: bytes) -> None:
    with FaultProxy() as proxy:
        proxy.always(says(answer))
        writer = in_cluster.make(in_cluster.plane.kubeconfig_for("x", url=proxy.url))
        with pytest.raises(PortError):
            writer.pause("why")
        with pytest.raises(PortError):
            writer.resume()


def test_a_pause_that_is_no_text_is_a_pause(in_cluster: InCluster) -> None:
    in_cluster.create("recovery-control", binaryData={"paused": "/w=="})
    writer = in_cluster.make()
    assert writer.paused() == "/w=="
    writer.resume()
    assert writer.paused() is None
    in_cluster.create("unrelated", data={"paused": "x"})
    assert writer.paused() is None


def test_time_is_the_api_servers(in_cluster: InCluster) -> None:
    writer = in_cluster.make()
    before = datetime.now(UTC)
    assert writer.now() >= before
    writer.load()
    assert abs(writer.now() - before) < timedelta(seconds=5)
    with FaultProxy() as proxy:
        proxy.will(says(whole(404, Date="Sun, 29 Nov 2026 10:15:30 GMT")))
        elsewhere = in_cluster.make(in_cluster.plane.kubeconfig_for("x", url=proxy.url))
        elsewhere.load()
        assert timedelta() <= elsewhere.now() - NOW < timedelta(seconds=5)


def test_time_goes_on_between_answers_and_steps_back_only_with_the_server(in_cluster: InCluster) -> None:
    clock = TurnedClock()
    with FaultProxy() as proxy:
        rest = rest_for(in_cluster.plane, kubeconfig=in_cluster.plane.kubeconfig_for("x", url=proxy.url))
        writer = KubeLedger(rest, "n", clock)

        def answered(seconds: int) -> float:
            date = (NOW + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")
            proxy.will(says(whole(404, Date=date)))
            writer.load()
            assert rest.dated is not None
            rest.dated = rest.dated._replace(monotonic=clock.monotonic())
            return (writer.now() - NOW).total_seconds()

        assert answered(0) == 0
        clock.passed += 0.9
        assert answered(0) == pytest.approx(0.9)
        clock.passed += 0.6
        assert answered(1) == pytest.approx(1.5)
        clock.passed += 60
        assert (writer.now() - NOW).total_seconds() == pytest.approx(61.5)
        assert answered(100) == 100, "set forward"
        assert answered(40) == 40, "set back"


@pytest.mark.parametrize("where", ["ledger.json", "paused"])
def test_a_folder_in_place_of_a_file_is_no_ledger_and_is_a_pause(tmp_path: Path, where: str) -> None:
    (tmp_path / where).mkdir()
    writer = FileLedger(str(tmp_path), RunningClock())
    if where == "paused":
        assert "cannot be read" in (writer.paused() or "")
        with pytest.raises(PortError):
            writer.resume()
        with pytest.raises(PortError):
            writer.pause("why")
    else:
        with pytest.raises(PortError):
            writer.load()
    assert sorted(each.name for each in tmp_path.iterdir()) == [where]


@pytest.mark.parametrize("content", [b"", b"x" * (9 << 20)])
def test_an_empty_or_endless_file_is_no_ledger(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ledger.json").write_bytes(content)
    with pytest.raises(PortError, match="unreadable"):
        FileLedger(str(tmp_path), RunningClock()).load()


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = FileLedger(str(tmp_path / "file" / "state"), RunningClock())
    with pytest.raises(PortError):
        writer.load()
    writer._seen = b""
    with pytest.raises(PortError, match="written to"):
        writer.save(ledger())


def test_a_full_disk_leaves_the_old_ledger(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from recovery.ledger_file import FileLedger; from recovery.ports import PortError;"
        "from tests.kubernetes.recovering import RunningClock, entry, ledger;"
        "writer = FileLedger(sys.argv[1], RunningClock()); writer.load(); writer.save(ledger());"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: writer.save(ledger(entry()))\n"
        "except PortError as error: print(error)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True, timeout=30
    )
    assert "cannot be written" in done.stdout
    assert FileLedger(str(tmp_path), RunningClock()).load() == ledger()
    assert sorted(each.name for each in tmp_path.iterdir()) == [".ledger.lock", "ledger.json"]


def test_a_writer_that_is_killed_leaves_a_whole_ledger_and_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys; from recovery.ledger_file import FileLedger;"
        "from tests.kubernetes.recovering import RunningClock, entry, ledger;"
        "writer = FileLedger(sys.argv[1], RunningClock()); writer.load();"
        "entries = [entry() for _ in range(300)]\n"
        "while True: writer.save(ledger(*entries))"
    )
    root, path = Path(__file__).resolve().parents[2], tmp_path / "ledger.json"
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root) as writer:
            first = until(lambda: path.exists() and path.stat().st_mtime_ns)
            until(lambda first=first: path.stat().st_mtime_ns != first)  # type: ignore[misc] # bound at once
            writer.kill()
        survivor = FileLedger(str(tmp_path), RunningClock())
        body = survivor.load()
        assert body is not None
        assert len(body.entries) == 300
        survivor.save(ledger(*body.entries))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A state directory in which another process holds the lock."""
    lock = tmp_path / ".ledger.lock"
    lock.touch()
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield tmp_path


def test_a_lock_that_is_never_freed_is_not_waited_for(locked: Path) -> None:
    writer = FileLedger(str(locked), RunningClock())
    writer.load()
    with pytest.raises(PortError, match="locked"):
        writer.save(ledger())
    assert not (locked / "ledger.json").exists()
