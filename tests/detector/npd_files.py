"""node-problem-detector's files, for tests.

The rules in tests/data/npd are facts taken from these files (read 2026-11-29): kernel.json and readonly.json from
kubernetes/node-problem-detector config/kernel-monitor.json and config/readonly-monitor.json (the CPER rules as in
pkg/systemlogmonitor/log_buffer_bench_test.go), the first rule of several-lines.json from the kernel-monitor.json of
2016, neuron.json from aws-neuron/aws-neuron-sdk src/k8/neuron-problem-detector (the same in neuron-helm-charts).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detector.npd import load

if TYPE_CHECKING:
    from detector.model import NpdRuleSet

FILES = Path(__file__).parents[1] / "data" / "npd"


def shipped(stem: str) -> NpdRuleSet:
    path = FILES / f"{stem}.json"
    return load(path.read_bytes(), str(path))


def made(*patterns: str, **keys: Any) -> NpdRuleSet:
    rules = [{"type": "temporary", "reason": f"R{at}", "pattern": pattern} for at, pattern in enumerate(patterns)]
    return load(json.dumps({"plugin": "kmsg", "rules": rules} | keys), "made.json")
