"""The detector's settings: what each one means, where it may be set, what it is when nobody says anything."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from runtime.durations import Duration
from runtime.layers import Layers, layer
from runtime.settings import Kubernetes, LogFormat, LogLevel

__all__ = ["LAYERS", "Kubernetes", "Settings"]


_SHORTEST_HEARTBEAT = Duration(1)
_LONGEST_HEARTBEAT = Duration(86_400)


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All settings of the detector; the contract's section 8 lists them."""

    kmsg: Annotated[str, layer(env="CHIPWARDEN_KMSG", flag="--kmsg", about="the kernel log device")] = "/dev/kmsg"
    kmsg_follow: Annotated[
        bool,
        layer(env="CHIPWARDEN_KMSG_FOLLOW", flag="--kmsg-follow", about="--kmsg is a file of raw records that grows"),
    ] = False
    rules: Annotated[
        tuple[str, ...],
        Meta(min_length=1),
        layer(env="CHIPWARDEN_RULES", flag="--rules", about="a shipped rule set or a file; may be repeated"),
    ] = ("neuron",)
    state_dir: Annotated[
        str,
        Meta(min_length=1),
        layer(env="CHIPWARDEN_STATE_DIR", flag="--state-dir", about="where faults survive a restart"),
    ] = "/var/lib/chipwarden"
    listen: Annotated[str, layer(env="CHIPWARDEN_LISTEN", flag="--listen", about="address and port of the pages")] = (
        "0.0.0.0:20257"
    )
    kubernetes: Annotated[
        Kubernetes,
        layer(env="CHIPWARDEN_KUBERNETES", flag="--kubernetes", about="publish to an API server"),
    ] = Kubernetes.AUTO
    node_name: Annotated[
        str, layer(env="NODE_NAME", flag="--node-name", about="name of the Node; default: the host name")
    ] = ""
    instance_id: Annotated[
        str,
        layer(env="CHIPWARDEN_INSTANCE_ID", flag="--instance-id", about="EC2 instance id; default: DMI, else IMDSv2"),
    ] = ""
    kernel_only: Annotated[
        bool, layer(env="CHIPWARDEN_KERNEL_ONLY", flag="--kernel-only", about="refuse lines not written by the kernel")
    ] = False
    boot_id_file: Annotated[
        str, layer(env="CHIPWARDEN_BOOT_ID_FILE", flag="--boot-id-file", about="where the boot id is read")
    ] = "/proc/sys/kernel/random/boot_id"
    heartbeat: Annotated[
        Duration,
        layer(env="CHIPWARDEN_HEARTBEAT", flag="--heartbeat", about="how often an unchanged condition is confirmed"),
    ] = Duration(300)
    accelerated_hardware_ready: Annotated[
        bool,
        layer(
            env="CHIPWARDEN_ACCELERATED_HARDWARE_READY",
            about="publish AcceleratedHardwareReady too, for EKS auto repair and Karpenter",
        ),
    ] = False
    recovery_enabled: Annotated[
        bool,
        layer(env="ENABLE_RECOVERY", flag="--enable-recovery", about="tell recovery that it may act on this node"),
    ] = False
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"

    def __post_init__(self) -> None:
        """Refuse what no single field can.

        Raises:
            ValueError: an impossible value; the message names the key.
        """
        if not _SHORTEST_HEARTBEAT <= self.heartbeat <= _LONGEST_HEARTBEAT:
            allowed = f"{_SHORTEST_HEARTBEAT} to {_LONGEST_HEARTBEAT}"
            raise ValueError(f"heartbeat: {self.heartbeat} is too short or too long (allowed: {allowed})")


LAYERS = Layers(Settings)
