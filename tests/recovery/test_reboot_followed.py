"""What becomes of a reboot: it came back, it did not, or the group replaced the machine meanwhile."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from recovery.decision import Why
from recovery.model import Outcome, State
from recovery.moves import Act, Need, Step
from runtime.vocabulary import Action
from tests.recovery.cases import (
    I2,
    decided,
    entry,
    facts,
    found,
    given_away,
    group,
    member,
    outcome,
    stepped,
    view,
    waits,
)
from tests.recovery.machines import T0, TYPE


def test_a_reboot_is_over_when_a_new_boot_is_ready_and_its_condition_false() -> None:
    held = given_away(State.REBOOTING, action=Action.REBOOT, boot="b1", entered_at=T0)
    false = {TYPE: ("False", "", "")}
    for changes, over in (
        ({"boot": "b2", "conditions": false}, True),
        ({"boot": "b1", "conditions": false}, False),
        ({"boot": "b2", "conditions": false, "ready": False}, False),
        ({"boot": "b2"}, False),
        ({"boot": "b2", "conditions": {}}, False),
    ):
        move = decided(held, view(facts=facts(fenced=True, **changes)))
        assert isinstance(move, Step) is over
    returned = stepped(decided(held, view(facts=facts(fenced=True, boot="b2", conditions=false))))
    assert outcome(decided(returned.entry, view())) == (Outcome.REBOOTED, Act.LIFT)
    assert outcome(decided(entry(State.RETURNED, added=()), view())) == (Outcome.REBOOTED, Act.NONE)


def test_a_reboot_that_does_not_come_back_fails_after_15_minutes_unless_its_group_replaces_it() -> None:
    held = given_away(State.REBOOTING, action=Action.REBOOT, boot="b1", entered_at=T0 - timedelta(minutes=15))
    assert decided(held, view(found=None)) is Need.FOLLOW
    for accepted, boot, failed in ((True, "b1", 1), (False, "b2", 1), (False, "b1", 0)):
        looked = view(found=found(), facts=facts(fenced=True, boot=boot))
        move = stepped(decided(replace(held, accepted=accepted), looked))
        assert (move.entry.outcome, move.entry.reboots_failed, move.act) == (Outcome.FAILED, failed, Act.NONE)
    assert waits(decided(held, view(unread="no answer", facts=None)))[0] is Why.API_UNKNOWN
    for answer in (found(group(member("Terminating"))), found(group(desired=0))):
        going = decided(held, view(found=answer))
        assert isinstance(going, Step)
        assert (going.entry.state, going.entry.outcome) == (State.TERMINATING, None)
        assert (going.entry.members, going.entry.reboots_failed) == (held.members, 1)
    rebuilt = stepped(decided(replace(held, members=()), view(found=found(group(member("Terminating"))))))
    assert len(rebuilt.entry.members) == 20
    nowhere = found(group=None, absent=True)
    assert outcome(decided(held, view(found=nowhere))) == (Outcome.FAILED, Act.NONE)
    gone = stepped(decided(held, view(found=nowhere, facts=None, is_gone=True)))
    assert gone.entry.state is State.TERMINATING


def test_a_node_that_is_another_machines_after_a_reboot_was_replaced() -> None:
    looked = view(facts=facts(fenced=True, instance=I2))
    held = given_away(State.REBOOTING, action=Action.REBOOT)
    assert outcome(decided(held, looked)) == (Outcome.REPLACED, Act.LIFT)
    bare = given_away(State.REBOOTING, action=Action.REBOOT, added=())
    assert outcome(decided(bare, looked)) == (Outcome.REPLACED, Act.NONE)
