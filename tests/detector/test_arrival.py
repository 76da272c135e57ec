"""What is found on a Node belongs to the instance that wrote it."""

from __future__ import annotations

import pytest

from detector.arrival import arrive, predecessor_cleared
from detector.seen import NodeSeen, Owner, SeenCondition
from runtime.vocabulary import OUR_MARK, Status
from tests.detector.builders import OURS, THEIRS, at

_KIND = "NeuronHasError"
_READY = "AcceleratedHardwareReady"


def _condition(status: Status = Status.TRUE, kind: str = _KIND, message: str = "text") -> SeenCondition:
    return SeenCondition(
        type=kind, status=status, reason="Why", message=message, last_transition_time=at(1), last_heartbeat_time=at(2)
    )


def _seen(*conditions: SeenCondition, owner: Owner | None = None) -> NodeSeen:
    return NodeSeen(uid="u", instance=None, owner=owner, clear=None, conditions=conditions)


def _by(instance: str | None) -> Owner:
    return Owner(instance=instance, boot="boot-1")


def test_an_empty_node_has_nothing_to_tell() -> None:
    found = arrive(_seen(), instance=OURS, kinds=[_KIND], now=at(9))
    assert (found.adopt, found.ready, found.predecessor, found.ready_is_foreign) == ((), None, None, False)


@pytest.mark.parametrize("status", list(Status))
def test_what_this_instance_said_is_adopted_as_it_stands(status: Status) -> None:
    found = arrive(_seen(_condition(status), owner=_by(OURS)), instance=OURS, kinds=[_KIND], now=at(9))
    (condition,) = found.adopt
    assert (condition.status, condition.reason, condition.message) == (status, "Why", "text")
    assert (condition.last_transition_at, condition.last_heartbeat_at) == (at(1), at(2))
    assert found.predecessor is None


@pytest.mark.parametrize(
    ("owner", "instance", "is_ours"),
    [
        (_by(OURS), OURS, True),
        (_by(None), None, True),
        (None, None, True),
        (_by(THEIRS), OURS, False),
        (_by(THEIRS), None, False),
        (_by(None), OURS, False),
        (None, OURS, False),
    ],
)
def test_a_true_condition_is_ours_or_a_predecessors(
    owner: Owner | None, instance: str | None, *, is_ours: bool
) -> None:
    found = arrive(_seen(_condition(), owner=owner), instance=instance, kinds=[_KIND], now=at(9))
    assert bool(found.adopt) is is_ours
    assert (found.predecessor is None) is is_ours


def test_a_predecessor_is_named() -> None:
    found = arrive(_seen(_condition(), owner=_by(THEIRS)), instance=OURS, kinds=[_KIND], now=at(9))
    assert found.predecessor == THEIRS
    announcement = predecessor_cleared(THEIRS, OURS, at(9))
    assert (announcement.reason, announcement.warning) == ("PredecessorCleared", False)
    assert announcement.message == f"the fault on this Node was of instance {THEIRS}; this is {OURS}"


def test_a_predecessor_that_was_never_named_is_unknown() -> None:
    assert arrive(_seen(_condition()), instance=OURS, kinds=[_KIND], now=at(9)).predecessor == "unknown"


@pytest.mark.parametrize("status", [Status.FALSE, Status.UNKNOWN])
def test_a_predecessor_without_a_fault_is_not_worth_a_word(status: Status) -> None:
    found = arrive(_seen(_condition(status), owner=_by(THEIRS)), instance=OURS, kinds=[_KIND], now=at(9))
    assert (found.adopt, found.predecessor) == ((), None)


def test_conditions_of_others_are_neither_adopted_nor_a_predecessors() -> None:
    for owner in (_by(OURS), _by(THEIRS)):
        found = arrive(_seen(_condition(kind="Ready"), owner=owner), instance=OURS, kinds=[_KIND], now=at(9))
        assert (found.adopt, found.predecessor) == ((), None)


def test_times_that_the_node_does_not_tell_are_now() -> None:
    bare = SeenCondition(type=_KIND, status=Status.TRUE)
    (condition,) = arrive(_seen(bare, owner=_by(OURS)), instance=OURS, kinds=[_KIND], now=at(9)).adopt
    assert (condition.last_transition_at, condition.last_heartbeat_at) == (at(9), at(9))


def test_our_own_accelerated_hardware_ready_is_known_by_its_mark() -> None:
    ours = _condition(Status.FALSE, _READY, f"broken {OUR_MARK}")
    found = arrive(_seen(ours, owner=_by(OURS)), instance=OURS, kinds=[_KIND], now=at(9))
    assert found.ready is not None
    assert (found.ready.status, found.ready.last_transition_at) == (Status.FALSE, at(1))
    assert not found.ready_is_foreign


def test_a_predecessors_accelerated_hardware_ready_is_not_taken_over() -> None:
    theirs = _condition(Status.FALSE, _READY, f"broken {OUR_MARK}")
    found = arrive(_seen(theirs, owner=_by(THEIRS)), instance=OURS, kinds=[_KIND], now=at(9))
    assert (found.ready, found.ready_is_foreign) == (None, False)


def test_another_agents_accelerated_hardware_ready_is_foreign() -> None:
    foreign = _condition(Status.TRUE, _READY, "NeuronAcceleratedHardwareIsReady")
    found = arrive(_seen(foreign, owner=_by(OURS)), instance=OURS, kinds=[_KIND], now=at(9))
    assert (found.ready, found.ready_is_foreign) == (None, True)
