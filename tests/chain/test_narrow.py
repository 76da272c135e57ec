"""A replacement under the policy that AWS publishes, whose Describe calls are denied: narrow mode, end to end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.aws.surroundings import set_environment
from tests.aws.test_iam import OF_THE_GUIDE
from tests.chain.case import Case

if TYPE_CHECKING:
    import pytest

    from tests.chain.place import Place
    from tests.recovery.servers import Server

DENIED = {
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
}


def test_a_node_is_replaced_with_the_permissions_of_the_guide_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch, page: Server
) -> None:
    set_environment(monkeypatch, place.aws)
    place.aws.proxy.asked.is_narrow = True
    for action in DENIED:
        place.aws.proxy.always("err:403:AccessDenied", action)
    case = Case(place, None, page)
    case.run()

    case.check()
    (entry,) = place.entries()
    assert entry["way"] == "narrow"
    assert entry["replacement"] in place.aws.player.instances(case.group)
    assert place.aws.proxy.asked.actions - DENIED == _allowed_by_the_guide()


def _allowed_by_the_guide() -> set[str]:
    listed = [statement["Action"] for statement in json.loads(json.dumps(OF_THE_GUIDE))["Statement"]]
    return {action for actions in listed for action in actions} - DENIED
