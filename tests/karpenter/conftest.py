"""A cluster with Karpenter, for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.karpenter.fleet import Fleet
from tests.kubernetes.binaries import MissingError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A real control plane, Karpenter, and nodes without machines, shared by all tests: take names of your own."""
    try:
        fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    except MissingError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()
        fleet.remove_data()
