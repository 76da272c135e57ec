"""AcceleratedHardwareReady: the same verdict in the words that EKS auto repair and Karpenter act on. Pure.

Its polarity is the opposite: False = broken. It is never False for a suspect fault, because the platform then takes the
machine away without asking anybody.

Source: aws/eks-node-monitoring-agent pkg/reasons/reasons.yaml and pkg/conditions (read 2026-11-29).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from detector.model import Condition
from detector.wording import condition_message, gravest_first
from runtime.vocabulary import ACCELERATED_HARDWARE_READY, OUR_MARK, FaultClass, Reason, Status

if TYPE_CHECKING:
    from datetime import datetime

    from detector.model import View

_EKS_REASONS = {
    "NeuronHasError_SRAM_UNCORRECTABLE_ERROR": "NeuronSRAMUncorrectableError",
    "NeuronHasError_NC_UNCORRECTABLE_ERROR": "NeuronNCUncorrectableError",
    "NeuronHasError_HBM_UNCORRECTABLE_ERROR": "NeuronHBMUncorrectableError",
    "NeuronHasError_DMA_ERROR": "NeuronDMAError",
}
_FAMILIES = {"NeuronHasError": "Neuron", "NvidiaHasError": "Nvidia"}
_XID = re.compile(r"NvidiaHasError_XID_(\d+)")
_LONGEST_MESSAGE = 1024


def ready(view: View, before: Condition | None, now: datetime) -> Condition:
    """Make the condition.

    Args:
        view: the node's health.
        before: what was published last; None = nothing, or somebody else's.
        now: when it changes, if it changes (aware UTC).
    """
    now = now.replace(microsecond=0)
    status, reason, message = _says(view)
    moved = before is None or before.status is not status
    return Condition(
        type=ACCELERATED_HARDWARE_READY,
        status=status,
        reason=reason,
        message=f"{message[: _LONGEST_MESSAGE - len(OUR_MARK) - 1]} {OUR_MARK}",
        last_transition_at=now if before is None or moved else before.last_transition_at,
        last_heartbeat_at=now,
    )


def _says(view: View) -> tuple[Status, str, str]:
    broken = gravest_first(fault for fault in view.faults if fault.fault_class is not FaultClass.SUSPECT)
    if broken:
        return Status.FALSE, _eks_reason(broken[0].reason), condition_message(broken)
    blind = [condition for condition in view.conditions if condition.status is Status.UNKNOWN]
    if blind:
        return Status.UNKNOWN, Reason.DETECTOR_BLIND, blind[0].message
    families = [_FAMILIES[condition.type] for condition in view.conditions if condition.type in _FAMILIES]
    family = families[0] if families else ""
    return Status.TRUE, f"{family}AcceleratedHardwareIsReady", "no accelerator has an error that needs a repair"


def _eks_reason(reason: str) -> str:
    """Translate a reason; what EKS has no name for keeps ours."""
    xid = _XID.match(reason)
    return f"NvidiaXID{xid[1]}Error" if xid else _EKS_REASONS.get(reason, reason)
