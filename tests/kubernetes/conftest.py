"""A real API server, and a real cluster of one node, for the tests of this folder.

Nothing here is skipped: what a machine lacks is named in one sentence, together with the command that installs it.
"""

from collections.abc import Iterator

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.lending import lent


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real etcd and kube-apiserver on loopback, shared by all tests: give your Nodes names of their own."""
    yield from lent(lambda: ControlPlane(tmp_path_factory.mktemp("apiserver")))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real cluster whose one Node runs pods, shared by all tests: leave the Node as it was."""
    yield from lent(lambda: Cluster(tmp_path_factory.mktemp("cluster")))
