"""Nodes and Auto Scaling groups of the in-memory world, and the faults that befall them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from recovery.model import FaultSeen, NodeFacts, Taint
from runtime.vocabulary import UNHEALTHY_TAINT, Action, FaultClass

T0 = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TYPE = "NeuronHasError"
DMA = "NeuronHasError_DMA_ERROR"
SRAM = "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"
HANG = "NeuronHasError_HANG_ON_COLLECTIVES"
SLOW = "NeuronHasError_SLOW"
RESET = "NeuronHasError_RESET"
KINDS = {
    DMA: (FaultClass.DEAD, Action.REPLACE),
    SRAM: (FaultClass.POISONED, Action.REPLACE),
    HANG: (FaultClass.SUSPECT, Action.NONE),
    SLOW: (FaultClass.DEGRADED, Action.REPLACE),
    RESET: (FaultClass.DEAD, Action.REBOOT),
}


@dataclass
class SimNode:
    name: str
    uid: str
    instance: str | None
    provider_instance: str | None
    created_at: datetime
    boot: str = "boot-1"
    version: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    condition: str = "False"
    message: str = ""
    ready: bool = True
    deleting: bool = False
    pods: list[str] = field(default_factory=list)
    stuck: dict[str, str] = field(default_factory=dict)  # pods whose eviction a budget refuses
    faults: list[FaultSeen] = field(default_factory=list)
    enabled: bool = True
    platform_repair: bool = False
    blind: str | None = None
    seen_instance: str | None = None
    back_at: datetime | None = None  # from a reboot
    reboot_helps: bool = True

    def facts(self) -> NodeFacts:
        return NodeFacts(
            name=self.name,
            uid=self.uid,
            resource_version=str(self.version),
            created_at=self.created_at,
            instance=self.instance,
            provider_instance=self.provider_instance,
            provider_id=f"aws:///us-east-1a/{self.provider_instance}",
            labels=dict(self.labels),
            annotations=dict(self.annotations),
            taints=self.taints,
            unschedulable=self.unschedulable,
            conditions={TYPE: (self.condition, "", self.message), "Ready": (str(self.ready), "", "")},
            boot=self.boot,
            ready=self.ready,
            deleting=self.deleting,
        )

    @property
    def is_tainted(self) -> bool:
        return any(taint.key == UNHEALTHY_TAINT for taint in self.taints)


@dataclass
class SimMember:
    instance: str
    state: str = "InService"
    health: str = "Healthy"
    protected: bool = False
    until: datetime | None = None


@dataclass
class SimGroup:
    name: str
    desired: int
    members: dict[str, SimMember] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    operator: str | None = None
    failed: str | None = None
    launches_first: bool = False
    replaces: bool = True
    terminate_seconds: float = 20
    launch_seconds: float = 40
