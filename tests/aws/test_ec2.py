from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recovery.ports import PortError

if TYPE_CHECKING:
    from recovery.autoscaling import AutoScaling
    from tests.aws.surroundings import Aws

NOBODY = "i-0123456789abcdef0"


@pytest.fixture(autouse=True)
def _narrow(aws: Aws) -> None:
    aws.proxy.asked.is_narrow = True


def test_a_reboot_is_asked_for_once(aws: Aws, cloud: AutoScaling) -> None:
    (instance,) = aws.player.instances(aws.player.make_group(1))

    cloud.reboot(instance)

    assert [call.parameters for call in aws.proxy.calls] == [{"Version": "2016-11-15", "InstanceId.1": instance}]


def test_the_group_is_known_from_the_instances_own_tag(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)

    assert cloud.group_by_tag(aws.player.instances(name)[0]) == name


def test_an_instance_without_the_tag_has_no_group(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)
    aws.player.group(name).ec2_backend.delete_tags([instance], {"aws:autoscaling:groupName": name})

    assert cloud.group_by_tag(instance) is None


def test_an_instance_that_ec2_does_not_know_is_gone_not_without_a_group(cloud: AutoScaling) -> None:
    with pytest.raises(PortError) as caught:
        cloud.group_by_tag(NOBODY)

    assert caught.value.gone


def test_running_instances_of_the_group_and_of_no_other_are_listed(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(3)
    aws.player.make_group(1, name=f"{name}-b")
    first, *others = aws.player.instances(name)
    member = aws.player.member(first)
    assert member is not None
    aws.player.end(member)

    assert cloud.running_with_tag(name) == set(others)


def test_a_wildcard_in_a_groups_name_is_a_letter(aws: Aws, cloud: AutoScaling) -> None:
    aws.player.make_group(1, name="trn1-blue")

    assert cloud.running_with_tag("trn1-*") == set()
    asked = aws.proxy.of("ec2:DescribeInstances")[0].parameters
    assert asked["Filter.1.Value.1"] == r"trn1-\*"


def page(instance: str, more: str) -> str:
    """Write one page of running instances of a group; moto would need a hundred launches for two."""
    tag = "<tagSet><item><key>aws:autoscaling:groupName</key><value>trn</value></item></tagSet>"
    inside = f"<instanceId>{instance}</instanceId><instanceState><name>running</name></instanceState>{tag}"
    reservation = f"<item><instancesSet><item>{inside}</item></instancesSet></item>"
    return (
        f"say:<DescribeInstancesResponse><requestId>1</requestId><reservationSet>{reservation}</reservationSet>"
        f"{more}</DescribeInstancesResponse>"
    )


def test_running_instances_are_listed_page_by_page(aws: Aws, cloud: AutoScaling) -> None:
    first, second = "i-0000000000000000a", "i-0000000000000000b"
    aws.proxy.will(page(first, "<nextToken>two</nextToken>"), page(second, ""))

    assert cloud.running_with_tag("trn") == {first, second}
    assert [call.parameters.get("NextToken") for call in aws.proxy.calls] == [None, "two"]


def test_an_instance_is_terminated_when_ec2_says_so_or_knows_it_no_more(aws: Aws, cloud: AutoScaling) -> None:
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)
    member = aws.player.member(instance)
    assert member is not None

    assert not cloud.is_terminated(instance)
    aws.player.end(member)
    assert cloud.is_terminated(instance)
    assert cloud.is_terminated(NOBODY)


@pytest.mark.parametrize("state", ["pending", "running", "shutting-down", "stopping", "stopped"])
def test_an_instance_that_is_only_on_its_way_out_is_not_terminated(aws: Aws, cloud: AutoScaling, state: str) -> None:
    name = aws.player.make_group(1)
    (instance,) = aws.player.instances(name)
    aws.player.group(name).ec2_backend.get_instance(instance)._state.name = state

    assert not cloud.is_terminated(instance)


@pytest.mark.parametrize("inside", ["", "<requestId>1</requestId>", "<requestId>1</requestId><reservationSet/>"])
def test_an_answer_without_the_instance_proves_nothing(aws: Aws, cloud: AutoScaling, inside: str) -> None:
    aws.proxy.will(f"say:<DescribeInstancesResponse>{inside}</DescribeInstancesResponse>")

    with pytest.raises(PortError) as caught:
        cloud.is_terminated(NOBODY)

    assert not caught.value.gone


def test_pages_without_end_are_no_answer(aws: Aws, cloud: AutoScaling) -> None:
    aws.proxy.always(page(NOBODY, "<nextToken>again</nextToken>"))

    with pytest.raises(PortError, match="do not end"):
        cloud.running_with_tag("trn")


def test_a_denied_look_up_names_the_action(aws: Aws, cloud: AutoScaling) -> None:
    aws.proxy.always("err:403:UnauthorizedOperation")

    with pytest.raises(PortError) as caught:
        cloud.running_with_tag("trn")

    assert caught.value.denied == "ec2:DescribeInstances"
