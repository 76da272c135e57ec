"""AWS, played, for the tests of this folder."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from recovery.autoscaling import AutoScaling
from recovery.cloud import Rounds, Sdk
from tests.aws.clock import SteppedClock
from tests.aws.player import REGION
from tests.aws.surroundings import FOREIGN, Aws

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A tenth of the defaults.
CONNECT, READ, ROUND = 0.2, 0.5, 3.0


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def aws(clock: SteppedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """AWS, played by a clock that the test steps; this process finds it."""
    with Aws(clock, page=2) as played:
        for name in FOREIGN:
            monkeypatch.delenv(name, raising=False)
        for name, value in played.env().items():
            monkeypatch.setenv(name, value)
        yield played


@pytest.fixture
def counted() -> Counter[tuple[str, str]]:
    """How many calls of which operation had which outcome."""
    return Counter()


@pytest.fixture
def make_sdk(counted: Counter[tuple[str, str]]) -> Callable[[], Sdk]:
    """Make an SDK with a tenth of the default limits; it reads the environment at its first call."""

    def make() -> Sdk:
        return Sdk(
            region=REGION,
            counted=lambda operation, outcome: counted.update([(operation, outcome)]),
            connect_seconds=CONNECT,
            read_seconds=READ,
        )

    return make


@pytest.fixture
def cloud(request: pytest.FixtureRequest, make_sdk: Callable[[], Sdk]) -> Iterator[AutoScaling]:
    request.getfixturevalue("aws")  # the environment first
    rounds = Rounds(make_sdk(), seconds=ROUND)
    yield AutoScaling(rounds)
    rounds.close()
