"""Makes many calls to AWS, most of which fail, and tells what that costs: memory, threads, descriptors.

Run as a program of its own, by a test that has the way to AWS fail in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from threading import active_count
from typing import TYPE_CHECKING

from recovery.autoscaling import AutoScaling
from recovery.cloud import Rounds, Sdk
from recovery.cloudwatch import CloudWatch
from recovery.points import Schedule
from recovery.ports import PortError
from runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

_WARM_CALLS = 100
_KIB = 1024


def costs() -> dict[str, float]:
    """Tell what this process uses now."""
    status = Path("/proc/self/status").read_text()
    kib = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    return {"mib": kib / _KIB, "threads": active_count(), "descriptors": len(os.listdir("/proc/self/fd"))}  # noqa: PTH208 - names only


def main(name: str, instance: str, count: int) -> None:
    """Make the calls; write costs and outcomes as JSON."""
    outcomes: Counter[str] = Counter()
    sdk = Sdk(
        region=os.environ["AWS_REGION"],
        counted=lambda _, outcome: outcomes.update([outcome]),
        connect_seconds=0.2,
        read_seconds=0.5,
    )
    cloud = AutoScaling(Rounds(sdk, seconds=3.0))
    points = CloudWatch(sdk, Schedule(cluster=None, per_node=False, zeros=True), SystemClock())
    points.start()
    calls: list[Callable[[], object]] = [
        lambda: cloud.group_of(instance),
        lambda: cloud.group(name, failed_since=datetime.now(UTC)),
        lambda: cloud.set_unhealthy(instance),
    ]
    warm: dict[str, float] = {}
    done = 0
    while sum(outcomes.values()) < count:
        done += 1
        cloud.begin_round()
        with contextlib.suppress(PortError):
            calls[done % len(calls)]()
        points.publish({f"Reason{done % 50}": done}, {})
        if not warm and sum(outcomes.values()) >= _WARM_CALLS:
            warm = costs()
    json.dump({"warm": warm, "end": costs(), "outcomes": outcomes}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
