"""What the shipped policies allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[2] / "manifests" / "iam"
OF_STS: Final = frozenset({"sts:AssumeRoleWithWebIdentity"})  # needs no permission
NARROW: Final = frozenset({"ec2:DescribeInstances"})  # which the policy of AWS' guide allows


def statements(path: Path) -> list[dict[str, Any]]:
    """Give the statements of a policy."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["Statement"]
    return found


def actions(*names: str) -> set[str]:
    """Tell which actions policies allow."""
    allowed: set[str] = set()
    for name in names:
        for statement in statements(FOLDER / "pod-identity" / name):
            action = statement["Action"]
            allowed |= {action} if isinstance(action, str) else set(action)
    return allowed


def foreign(called: set[str]) -> set[str]:
    """Tell which of these calls no shipped policy allows."""
    return called - actions("policy.json", "reboot.json", "force-terminate.json") - OF_STS - NARROW
