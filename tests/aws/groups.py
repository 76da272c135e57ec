"""Makes Auto Scaling groups in moto's own state, without a detour over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moto.autoscaling.models import AutoScalingBackend

_IMAGE = "ami-12c6146b"  # moto knows it
_CONFIGURATION = "trainium"


def make(backend: AutoScalingBackend, name: str, size: int, tags: dict[str, str]) -> None:
    """Make a group whose instances are InService and Healthy at once.

    Args:
        backend: of an account and Region.
        name: of the group.
        size: desired capacity.
        tags: of the group and of its instances.
    """
    if _CONFIGURATION not in backend.launch_configurations:
        backend.create_launch_configuration(
            name=_CONFIGURATION,
            image_id=_IMAGE,
            key_name=None,
            kernel_id="",
            ramdisk_id="",
            security_groups=[],
            user_data=None,
            instance_type="trn1.32xlarge",
            instance_monitoring=False,
            instance_profile_name=None,
            spot_price=None,
            ebs_optimized=False,
            associate_public_ip_address=False,
            block_device_mappings=[],
        )
    backend.create_auto_scaling_group(
        name=name,
        availability_zones=["us-east-1a"],
        desired_capacity=size,
        max_size=size + 10,
        min_size=0,
        launch_config_name=_CONFIGURATION,
        launch_template={},
        vpc_zone_identifier=None,
        default_cooldown=None,
        health_check_period=None,
        health_check_type=None,
        load_balancers=[],
        target_group_arns=[],
        placement_group=None,
        termination_policies=[],
        tags=[
            {"Key": key, "Value": value, "PropagateAtLaunch": True}  # type: ignore[dict-item]
            for key, value in tags.items()
        ],
    )
