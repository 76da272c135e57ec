"""A control plane and AWS, played, for the tests of the whole chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.aws.surroundings import Aws
from tests.chain.place import Place
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.lending import lent
from tests.recovery.servers import Server, answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real etcd and kube-apiserver of this folder's own: its tests fill it with Nodes."""
    yield from lent(lambda: ControlPlane(tmp_path_factory.mktemp("chain")))


@pytest.fixture
def aws() -> Iterator[Aws]:
    """AWS by the machine's clock: moto, with the player of groups, behind the proxy."""
    with Aws() as played:
        yield played


@pytest.fixture
def place(apiserver: ControlPlane, aws: Aws, tmp_path: Path) -> Iterator[Place]:
    """A namespace with recovery's account, and nothing in it yet."""
    made = Place(apiserver, aws, tmp_path)
    yield made
    made.close()


@pytest.fixture
def page() -> Iterator[Server]:
    with Server(answers(b"")) as server:
        yield server
