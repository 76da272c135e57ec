"""A condition that an admission policy refuses keeps none of the others from the Node."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from detector.model import Fault, State
from detector.statefile import StateFile
from runtime.vocabulary import Action, ClearsOn, FaultClass
from tests.detector.process import until
from tests.kubernetes.inside import Inside
from tests.kubernetes.ownnode import KIND, OwnNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_OWN = "OwnHasError"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_REFUSED = "this condition is refused and not published"


@pytest.fixture
def node(apiserver: ControlPlane, tmp_path: Path) -> OwnNode:
    """Make a Node whose detector has a fault left over from a rule set of the user's own, no longer loaded."""
    node = OwnNode(apiserver, tmp_path)
    now = datetime.now(UTC)
    fault = Fault(
        reason="OwnBroken",
        condition=_OWN,
        fault_class=FaultClass.DEAD,
        action=Action.REPLACE,
        clears_on=ClearsOn.OPERATOR,
        count=1,
        first_at=now,
        last_at=now,
    )
    StateFile(str(tmp_path / "state")).save(
        State(boot="boot-1", instance=node.detector.instance, seq=None, faults=(fault,))
    )
    return node


@contextlib.contextmanager
def _policy_against(node: OwnNode, *kinds: str) -> Iterator[None]:
    """Have the API server refuse these condition types on the Node, as the shipped policy does with unknown ones."""
    resources = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [resources | {"resourceNames": [node.name]}]},
        "validations": [{"expression": f"object.status.?conditions.orValue([]).all(c, !(c.type in {list(kinds)}))"}],
    }
    node.do("POST", _POLICIES, {"metadata": {"name": node.name}, "spec": spec})
    binding = {"policyName": node.name, "validationActions": ["Deny"]}
    node.do("POST", _BINDINGS, {"metadata": {"name": node.name}, "spec": binding})
    until(lambda: _is_refused(node, kinds[0]), seconds=30, what="the policy is at work")
    try:
        yield
    finally:
        node.do("DELETE", f"{_BINDINGS}/{node.name}")
        node.do("DELETE", f"{_POLICIES}/{node.name}")
        until(lambda: not _is_refused(node, kinds[0]), seconds=30, what="the policy is gone")


def _is_refused(node: OwnNode, kind: str) -> bool:
    body = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
    strategic = "application/strategic-merge-patch+json"
    return node.ask("PATCH", f"{node.path}/status?dryRun=All", body, strategic)[0] == 422


def test_a_condition_that_is_refused_keeps_no_other_from_the_node(
    node: OwnNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _policy_against(node, _OWN), Inside(node, tmp_path) as inside:
        assert node.wait_for("False")
        inside.settle()
        assert _OWN not in node.conditions()
        inside.advance(2)
        mark = node.mark()
        inside.say("DMA_ERROR")
        node.wait_for("True")
        inside.settle()
        assert node.patches(mark) == 1, "what is known to be refused delays no fault"
        inside.advance(301)
        until(lambda: node.patches(mark) == 4, what="it is tried again with the heartbeat, and each by itself")
        assert caplog.messages.count(_REFUSED) == 1
        assert {fault.reason for fault in inside.health.faults} == {"OwnBroken", "NeuronHasError_DMA_ERROR"}


def test_a_condition_is_published_once_the_policy_takes_it(node: OwnNode, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        policy = stack.enter_context(contextlib.ExitStack())
        policy.enter_context(_policy_against(node, _OWN))
        inside = stack.enter_context(Inside(node, tmp_path))
        node.wait_for("False")
        inside.settle()
        policy.close()
        inside.advance(301)
        assert node.wait_for("True", _OWN)["reason"] == "OwnBroken"


def test_a_request_is_met_though_a_condition_is_refused(node: OwnNode, tmp_path: Path) -> None:
    with _policy_against(node, _OWN), Inside(node, tmp_path) as inside:
        inside.say("DMA_ERROR")
        node.wait_for("True")
        inside.settle()
        node.annotate(clear="all")
        inside.advance(25)
        node.wait_for("False")
        until(lambda: node.annotation("clear") is None, what="the request is removed")
        assert inside.health.faults == ()


def test_if_all_are_refused_it_is_trouble_like_any_other(
    node: OwnNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _policy_against(node, _OWN, KIND), Inside(node, tmp_path) as inside:
        until(lambda: "API server refuses or does not answer" in caplog.messages)
        assert not inside.publisher.is_settled()
        assert _REFUSED not in caplog.messages
