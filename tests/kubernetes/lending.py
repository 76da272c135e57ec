"""Lends a real control plane to tests, and ends it whatever happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.kubernetes.binaries import MissingError
from tests.kubernetes.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Plane = TypeVar("_Plane", bound=ControlPlane)


def lent(make: Callable[[], _Plane]) -> Iterator[_Plane]:
    """Start what is made, and lend it; what the machine lacks is named in one sentence, never skipped."""
    missing = ""
    try:
        plane = make()
    except MissingError as error:
        missing = str(error)
    if missing:
        pytest.fail(missing, pytrace=False)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        plane.remove_data()
