"""A fence that cannot be put up, or that somebody took away: tried again, and only what changed is written down."""

from __future__ import annotations

import pytest

from recovery.decision import Why
from recovery.fence import to_fence, to_lift
from recovery.guard import missing_of_fence
from recovery.model import CORDON, SCALE_DOWN_DISABLED, TAINT
from recovery.ports import PortError
from runtime.vocabulary import SCALE_DOWN_ANNOTATION
from tests.recovery.cases import entry, facts
from tests.recovery.world import fleet


def test_a_fence_that_is_denied_is_tried_in_each_pass_said_once_and_written_once() -> None:
    world, names, process = fleet(16)
    world.refuse({"fence": PortError("denied", denied="patch nodes")})
    world.break_node(names[0])
    world.run(process, 20)
    before, tried = world.ledger_version, world.reads
    world.run(process, 60)
    assert world.ledger_version == before
    assert world.reads - tried >= 50
    assert process.why(names[0]) == Why.ACCESS_DENIED
    assert len(world.told("Blocked")) == 1
    world.refuse({})
    world.run(process, 3)
    assert world.nodes[names[0]].is_tainted


def test_a_fence_that_met_a_conflict_is_put_up_in_the_next_pass() -> None:
    world, names, process = fleet(16)
    world.refuse({"fence": PortError("409 Conflict", conflict=True)})
    world.break_node(names[0])
    world.run(process, 12)
    world.refuse({})
    process.controller.step()
    assert world.nodes[names[0]].is_tainted


@pytest.mark.parametrize(("value", "ours"), [("true", False), ("false", True), (None, True)])
def test_guard_and_fence_agree_on_whose_the_annotation_for_the_autoscaler_is(value: str | None, ours: bool) -> None:
    node = facts(annotations={} if value is None else {SCALE_DOWN_ANNOTATION: value})
    patch, added = to_fence(node, entry(added=()))
    assert (SCALE_DOWN_DISABLED in missing_of_fence(node)) is ours
    assert set(added) == {CORDON, TAINT, *([SCALE_DOWN_DISABLED] if ours else [])}
    assert patch["metadata"]["annotations"].get(SCALE_DOWN_ANNOTATION) == ("true" if ours else None)
    fenced = facts(fenced=True)
    lifted = to_lift(fenced, added)["metadata"].get("annotations", {})
    assert (SCALE_DOWN_ANNOTATION in lifted) is ours
