"""An incident for those who ask about metrics, and a real Prometheus that has scraped it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.detector.process import until
from tests.manifests.history import scraped
from tests.manifests.incident import Incident

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.manifests.prometheus import Prometheus


@pytest.fixture(scope="session")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    """Two hours of trouble, played when they are first asked for."""
    return Incident(tmp_path_factory.mktemp("incident"))


@pytest.fixture(scope="session")
def history(incident: Incident, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus server that has scraped them."""
    server = scraped(tmp_path_factory.mktemp("prometheus"), incident)
    try:
        until(server.is_ready, seconds=30, what="Prometheus answers")
        yield server
    finally:
        server.stop()
