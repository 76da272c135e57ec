"""Every lifecycle state that the SDK knows, and what recovery makes of it: contract section 5, `Auto Scaling`.

A state that a new SDK adds fails a test until somebody has decided what it means.
"""

from __future__ import annotations

from typing import Final

from recovery.standing import Standing

STATES: Final[dict[str, Standing]] = {
    "Pending": Standing.WAIT,
    "Pending:Wait": Standing.WAIT,
    "Pending:Proceed": Standing.WAIT,
    "Quarantined": Standing.WAIT,
    "InService": Standing.GO,
    "Terminating": Standing.DOING,
    "Terminating:Wait": Standing.DOING,
    "Terminating:Proceed": Standing.DOING,
    "Terminating:Retained": Standing.DOING,
    "Terminated": Standing.DOING,
    "Detaching": Standing.DOING,
    "Detached": Standing.DOING,
    "EnteringStandby": Standing.WAIT,
    "Standby": Standing.BLOCKED,
    "ReplacingRootVolume": Standing.WAIT,
    "ReplacingRootVolume:Wait": Standing.WAIT,
    "ReplacingRootVolume:Proceed": Standing.WAIT,
    "RootVolumeReplaced": Standing.WAIT,
    "Warmed:Pending": Standing.BLOCKED,
    "Warmed:Pending:Wait": Standing.BLOCKED,
    "Warmed:Pending:Proceed": Standing.BLOCKED,
    "Warmed:Pending:Retained": Standing.BLOCKED,
    "Warmed:Terminating": Standing.BLOCKED,
    "Warmed:Terminating:Wait": Standing.BLOCKED,
    "Warmed:Terminating:Proceed": Standing.BLOCKED,
    "Warmed:Terminating:Retained": Standing.BLOCKED,
    "Warmed:Terminated": Standing.BLOCKED,
    "Warmed:Stopped": Standing.BLOCKED,
    "Warmed:Running": Standing.BLOCKED,
    "Warmed:Hibernated": Standing.BLOCKED,
}
