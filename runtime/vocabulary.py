"""The names that users, dashboards and the other program see, each written once.

A leaf: it imports nothing of ours, and README tables are generated from it. Renaming anything here is a change of the
contract: it needs a CHANGELOG line and a test.
"""

from __future__ import annotations

import enum
from typing import Final

VERSION: Final = "0.1.0"

# Rule sets that ship with the detector, by the name that `--rules` takes.
SHIPPED_RULE_SETS: Final = ("neuron", "nvidia", "amd", "gaudi", "efa")


class FaultClass(enum.StrEnum):
    """How bad a fault is for the job, gravest first: the order of the members is the order of gravity."""

    POISONED = "poisoned"  # results computed on the device cannot be trusted
    DEAD = "dead"  # the device is gone, results so far stand
    DEGRADED = "degraded"  # works, slower or with less margin
    SUSPECT = "suspect"  # something is wrong, perhaps elsewhere

    @property
    def gravity(self) -> int:
        """Tell the place in the order of gravity, 0 being the gravest."""
        return list(FaultClass).index(self)


class Action(enum.StrEnum):
    """What the vendor advises; recovery decides."""

    NONE = "none"
    REBOOT = "reboot"
    REPLACE = "replace"


class ClearsOn(enum.StrEnum):
    """The event that ends a fault; a replacement and an operator end every fault."""

    REBOOT = "reboot"
    REPLACEMENT = "replacement"
    OPERATOR = "operator"


class Status(enum.StrEnum):
    """The status of a NodeCondition; True = faulty in every condition of a rule set."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Facility(enum.StrEnum):
    """Who wrote a kernel log record, as far as a rule may accept it: the kernel, or a person or test."""

    KERN = "kern"
    USER = "user"


class Reason(enum.StrEnum):
    """Reasons that the detector itself gives in conditions and Events, beside those of the rules."""

    DETECTOR_BLIND = "DetectorBlind"
    DETECTOR_SEES_AGAIN = "DetectorSeesAgain"
    FAULT_CLEARED = "FaultCleared"
    PREDECESSOR_CLEARED = "PredecessorCleared"


# Metric names. The first two are node-problem-detector's and keep their names, though both break today's conventions.
PROBLEM_GAUGE: Final = "problem_gauge"
PROBLEM_COUNTER: Final = "problem_counter"
DETECTOR_METRICS: Final = "chipwarden_detector_"
RECOVERY_METRICS: Final = "chipwarden_recovery_"
BUILD_INFO: Final = "chipwarden_build_info"

# Annotations on a Node.
DETECTOR_ANNOTATION: Final = "chipwarden.io/detector"  # {"instance","boot"}: for which machine our conditions hold
CLEAR_ANNOTATION: Final = "chipwarden.io/clear"  # an operator's request: a reason, or all
RECOVERY_ANNOTATION: Final = "chipwarden.io/recovery"  # a copy, for people, of the node's ledger entry
SCALE_DOWN_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"  # part of a fence

# Label and taint of recovery on a Node.
RECOVERY_LABEL: Final = "chipwarden.io/recovery"  # disabled: never touch this node
RECOVERY_DISABLED: Final = "disabled"
UNHEALTHY_TAINT: Final = "chipwarden.io/unhealthy"  # its value is the fault class, its effect NoSchedule

# Condition types of the shipped rule sets.
SHIPPED_CONDITIONS: Final = ("NeuronHasError", "NvidiaHasError", "AmdGpuHasError", "GaudiHasError", "EfaHasError")

# The condition that EKS auto repair and Karpenter act on, False = broken; published only when asked for.
ACCELERATED_HARDWARE_READY: Final = "AcceleratedHardwareReady"
OUR_MARK: Final = "(chipwarden-detector)"  # at the end of its message, to know our own again
