"""Every lifecycle state that the SDK knows, and what recovery makes of it: contract section 5, `Auto Scaling`.

A state that a new SDK adds fails a test until somebody has decided what it means.
"""

from __future__ import annotations

from typing import Final, Literal

Found = Literal["go on", "being done", "wait", "blocked"]
STATES: Final[dict[str, Found]] = {
    "Pending": "wait",
    "Pending:Wait": "wait",
    "Pending:Proceed": "wait",
    "Quarantined": "wait",
    "InService": "go on",
    "Terminating": "being done",
    "Terminating:Wait": "being done",
    "Terminating:Proceed": "being done",
    "Terminating:Retained": "being done",
    "Terminated": "being done",
    "Detaching": "being done",
    "Detached": "being done",
    "EnteringStandby": "wait",
    "Standby": "blocked",
    "ReplacingRootVolume": "wait",
    "ReplacingRootVolume:Wait": "wait",
    "ReplacingRootVolume:Proceed": "wait",
    "RootVolumeReplaced": "wait",
    "Warmed:Pending": "blocked",
    "Warmed:Pending:Wait": "blocked",
    "Warmed:Pending:Proceed": "blocked",
    "Warmed:Pending:Retained": "blocked",
    "Warmed:Terminating": "blocked",
    "Warmed:Terminating:Wait": "blocked",
    "Warmed:Terminating:Proceed": "blocked",
    "Warmed:Terminating:Retained": "blocked",
    "Warmed:Terminated": "blocked",
    "Warmed:Stopped": "blocked",
    "Warmed:Running": "blocked",
    "Warmed:Hibernated": "blocked",
}
