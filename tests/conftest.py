"""Which tests need a machine of their own: root, the kernel log, Go. `make test-pure` leaves those out."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_REAL_FOLDERS = ("kubernetes", "karpenter")
_REAL_FIXTURES = {"new_detector", "detector", "apiserver", "cluster", "imds_simulator", "_floods_allowed"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the real thing, by their folder or by the fixtures they use."""
    for item in items:
        folder = item.path.relative_to(_HERE).parts[0]
        fixtures = set(getattr(item, "fixturenames", ()))
        real = folder in _REAL_FOLDERS or fixtures & _REAL_FIXTURES or item.get_closest_marker("real")
        item.add_marker(pytest.mark.real if real else pytest.mark.pure)
