"""The ledger, in a ConfigMap of a real API server and in a file: two writers, lost answers, what cannot be read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from recovery import ledger_text
from recovery.model import State
from recovery.ports import PortError
from tests.kubernetes.faults import FaultProxy, closes_after, resets_after, says, whole
from tests.kubernetes.places import InCluster, InFolder, Place
from tests.kubernetes.recovering import NOW, entry, ledger

if TYPE_CHECKING:
    from pathlib import Path

    from recovery.ledger import KubeLedger
    from recovery.ledger_file import FileLedger
    from tests.kubernetes.controlplane import ControlPlane
    from tests.kubernetes.faults import Fault

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


@pytest.mark.parametrize("lost", [resets_after(0), closes_after(0), closes_after(150)])
def test_a_step_whose_answer_was_lost_is_found_to_be_written(in_cluster: InCluster, lost: Fault) -> None:
    with FaultProxy(in_cluster.plane) as proxy:
        writer = in_cluster.make(in_cluster.plane.kubeconfig_for(in_cluster.plane.admin_token, url=proxy.url))
        writer.load()
        writer.save(ledger())
        step = entry()
        proxy.will(lost)
        writer.save(ledger(step))
        writer.save(ledger(step, entry()))
        body = writer.load()
    assert body is not None
    assert len(body.entries) == 2


def test_a_step_of_which_nobody_tells_whether_it_was_written_is_read_again(in_cluster: InCluster) -> None:
    with FaultProxy(in_cluster.plane) as proxy:
        writer = in_cluster.make(in_cluster.plane.kubeconfig_for(in_cluster.plane.admin_token, url=proxy.url))
        writer.load()
        writer.save(ledger())
        step = entry()
        proxy.will(resets_after(0), resets_after(0))
        with pytest.raises(PortError) as caught:
            writer.save(ledger(step))
        assert not caught.value.conflict
        _conflict(writer, step)
        assert writer.load() == ledger(step)


def test_a_step_that_was_not_written_is_not_taken_for_written(in_cluster: InCluster) -> None:
    with FaultProxy(in_cluster.plane) as proxy:
        writer = in_cluster.make(in_cluster.plane.kubeconfig_for(in_cluster.plane.admin_token, url=proxy.url))
        writer.load()
        writer.save(ledger())
        proxy.will(says(whole(503)))
        with pytest.raises(PortError):
            writer.save(ledger(entry()))
        assert writer.load() == ledger()


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
