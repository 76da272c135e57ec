"""The table of the contract: what an instance's state in its group means, every state of the service a case."""

from __future__ import annotations

import botocore.session
import pytest

from recovery.decision import Why
from recovery.model import Group, Member, Way
from recovery.standing import Found, Stand, Standing, stand
from runtime.vocabulary import Action
from tests.recovery.machines import T0

_GO, _DOING, _WAIT, _BLOCKED = Standing.GO, Standing.DOING, Standing.WAIT, Standing.BLOCKED
_TABLE = {
    "Pending": (_WAIT, Why.INSTANCE_CHANGING),
    "Pending:Wait": (_WAIT, Why.INSTANCE_CHANGING),
    "Pending:Proceed": (_WAIT, Why.INSTANCE_CHANGING),
    "Quarantined": (_WAIT, Why.INSTANCE_CHANGING),
    "InService": (_GO, Why.STEP_TAKEN),
    "Terminating": (_DOING, Why.STEP_TAKEN),
    "Terminating:Wait": (_DOING, Why.STEP_TAKEN),
    "Terminating:Proceed": (_DOING, Why.STEP_TAKEN),
    "Terminating:Retained": (_DOING, Why.STEP_TAKEN),
    "Terminated": (_DOING, Why.STEP_TAKEN),
    "Detaching": (_DOING, Why.STEP_TAKEN),
    "Detached": (_DOING, Why.STEP_TAKEN),
    "EnteringStandby": (_WAIT, Why.INSTANCE_CHANGING),
    "Standby": (_BLOCKED, Why.STANDBY),
    "ReplacingRootVolume": (_WAIT, Why.INSTANCE_CHANGING),
    "ReplacingRootVolume:Wait": (_WAIT, Why.INSTANCE_CHANGING),
    "ReplacingRootVolume:Proceed": (_WAIT, Why.INSTANCE_CHANGING),
    "RootVolumeReplaced": (_WAIT, Why.INSTANCE_CHANGING),
    "Warmed:Pending": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Pending:Wait": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Pending:Proceed": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Pending:Retained": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Terminating": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Terminating:Wait": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Terminating:Proceed": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Terminating:Retained": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Terminated": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Stopped": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Running": (_BLOCKED, Why.WARM_POOL),
    "Warmed:Hibernated": (_BLOCKED, Why.WARM_POOL),
}


def lifecycle_states() -> list[str]:
    model = botocore.session.get_session().get_service_model("autoscaling")
    return list(model.shape_for("LifecycleState").metadata["enum"])


def placed(state: str = "InService", health: str = "Healthy", **more: object) -> Stand:
    protected = bool(more.pop("protected", False))
    action, respects = more.pop("action", Action.REPLACE), bool(more.pop("respects", False))
    member = Member(instance="i-1", state=state, health=health, protected=protected)
    group = Group(name="g", desired=4, members=(member,), **more)  # type: ignore[arg-type] # checked by msgspec
    found = Found(way=Way.AUTOSCALING, at=T0, name="g", group=group, size=4)
    return stand(found, "i-1", action=action, respects_protection=respects)  # type: ignore[arg-type] # an Action


def test_the_table_has_every_state_that_the_service_knows_and_no_other() -> None:
    assert sorted(_TABLE) == sorted(lifecycle_states())


@pytest.mark.parametrize("state", _TABLE)
def test_a_healthy_instance_stands_as_the_table_says_in_whatever_case(state: str) -> None:
    for said in (state, state.lower(), state.upper()):
        for health in ("Healthy", "HEALTHY"):
            found = placed(said, health)
            assert (found.standing, found.why) == _TABLE[state]


@pytest.mark.parametrize("state", _TABLE)
@pytest.mark.parametrize("health", ["Unhealthy", "UNHEALTHY"])
def test_an_unhealthy_instance_is_already_being_done_in_any_state(state: str, health: str) -> None:
    assert placed(state, health).standing is _DOING


def test_a_state_that_nobody_knows_is_waited_for_and_said() -> None:
    found = placed("Levitating")
    assert (found.standing, found.why) == (_WAIT, Why.INSTANCE_CHANGING)
    assert "a state that is not known here" in found.detail
    assert "not known here" not in placed("Pending:Wait").detail


def test_a_health_that_nobody_knows_is_waited_for() -> None:
    assert placed("InService", "Dazed").standing is _WAIT


def test_a_group_with_an_operator_is_the_operators_business() -> None:
    found = placed(operator="eks.amazonaws.com")
    assert (found.standing, found.why) == (_BLOCKED, Why.OPERATOR_GROUP)
    assert "eks.amazonaws.com" in found.detail


@pytest.mark.parametrize("process", ["ReplaceUnhealthy", "Terminate", "Launch", "launch"])
def test_a_suspended_process_that_replacement_needs_blocks(process: str) -> None:
    found = placed(suspended=(process,))
    assert (found.standing, found.why) == (_BLOCKED, Why.PROCESS_SUSPENDED)
    assert process.lower() in found.detail.lower()
    assert placed("InService", "Unhealthy", suspended=(process,)).standing is _BLOCKED
    assert placed("Terminating", suspended=(process,)).standing is _DOING


@pytest.mark.parametrize(
    ("process", "expected"),
    [("ReplaceUnhealthy", (_BLOCKED, Why.PROCESS_SUSPENDED)), ("Terminate", (_BLOCKED, Why.PROCESS_SUSPENDED))],
)
def test_a_mark_that_the_group_cannot_act_on_is_not_being_done_for_a_reboot_either(
    process: str, expected: tuple[Standing, Why]
) -> None:
    held = placed("InService", "Unhealthy", suspended=(process,), action=Action.REBOOT)
    assert (held.standing, held.why) == expected
    assert process in held.detail
    assert placed("Terminating", "Unhealthy", suspended=(process,), action=Action.REBOOT).standing is _DOING
    assert placed("InService", "Unhealthy", suspended=("Launch",), action=Action.REBOOT).standing is _DOING


@pytest.mark.parametrize("process", ["HealthCheck", "AZRebalance", "AlarmNotification", "ScheduledActions"])
def test_other_suspended_processes_do_not_matter(process: str) -> None:
    assert placed(suspended=(process,)).standing is _GO


def test_protection_from_scale_in_is_noted_and_blocks_only_if_asked_to() -> None:
    found = placed(protected=True)
    assert found.standing is _GO
    assert "protected from scale-in" in found.detail
    strict = placed(protected=True, respects=True)
    assert (strict.standing, strict.why) == (_BLOCKED, Why.SCALE_IN_PROTECTED)
    assert placed(respects=True).standing is _GO


def test_a_reboot_takes_nothing_from_the_group() -> None:
    for more in ({"suspended": ("Launch",)}, {"operator": "someone"}, {"protected": True, "respects": True}):
        assert placed(action=Action.REBOOT, **more).standing is _GO
    assert placed("Standby", action=Action.REBOOT).standing is _BLOCKED
    assert placed("Terminating", action=Action.REBOOT).standing is _DOING


@pytest.mark.parametrize(("denied", "why"), [(None, Why.CLOUD_UNKNOWN), ("autoscaling:Describe", Why.ACCESS_DENIED)])
def test_what_failed_concludes_nothing(denied: str | None, why: Why) -> None:
    found = Found(way=Way.AUTOSCALING, at=T0, unknown="throttled", denied=denied)
    assert stand(found, "i-1", action=Action.REPLACE, respects_protection=False) == Stand(
        standing=_WAIT, why=why, detail="throttled"
    )


def test_an_instance_in_no_group_is_absent_and_one_that_its_group_does_not_list_is_waited_for() -> None:
    absent = Found(way=Way.AUTOSCALING, at=T0, absent=True)
    assert stand(absent, "i-1", action=Action.REPLACE, respects_protection=False).standing is Standing.ABSENT
    unlisted = Found(way=Way.AUTOSCALING, at=T0, name="g", group=Group(name="g", desired=1, members=()))
    found = stand(unlisted, "i-1", action=Action.REPLACE, respects_protection=False)
    assert (found.standing, found.why) == (_WAIT, Why.NOT_IN_GROUP)


def test_where_no_group_is_described_only_the_end_is_known() -> None:
    for way in (Way.NARROW, Way.KARPENTER):
        running, ended = Found(way=way, at=T0, name="g"), Found(way=way, at=T0, name="g", ended=True)
        assert stand(running, "i-1", action=Action.REPLACE, respects_protection=False).standing is _GO
        assert stand(ended, "i-1", action=Action.REPLACE, respects_protection=False).standing is _DOING
