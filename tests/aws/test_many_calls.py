from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.aws.surroundings import Aws

MIXED = (
    ["pass"] * 6
    + ["rst", "err:500:ResourceContention", "truncate", "502doctype", "err:403:AccessDenied"]
    + ["502html", "200html", "503empty", "done:rst"]
)


def test_memory_threads_and_descriptors_stay_flat_over_3000_calls_of_which_most_fail(aws: Aws) -> None:
    name = aws.player.make_group(3)
    faults = random.Random(1).choices(MIXED, k=8000)  # noqa: S311 - the same every time
    for at in range(0, len(faults), 400):  # rare, because the SDK waits a second before it tries again
        faults[at : at + 2] = ["err:400:Throttling", "hang"]
    aws.proxy.remembers = True
    aws.proxy.will(*faults)

    program = subprocess.run(
        [sys.executable, "-m", "tests.aws.many_calls", name, aws.player.instances(name)[0], "3000"],
        env=aws.environ(),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
        timeout=120,
    )

    result = json.loads(program.stdout)
    outcomes = result["outcomes"]
    assert sum(outcomes.values()) >= 3000
    assert outcomes["ok"] < sum(outcomes.values()) * 0.75
    assert {"throttled", "unreachable", "failed", "incomplete", "denied"} <= outcomes.keys()
    assert result["end"]["mib"] - result["warm"]["mib"] < 2, result
    assert result["end"]["mib"] < 80, result
    assert result["end"]["threads"] == result["warm"]["threads"] == 3
    assert abs(result["end"]["descriptors"] - result["warm"]["descriptors"]) <= 2, result
