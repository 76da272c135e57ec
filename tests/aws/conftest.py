"""AWS, played, for the tests of this folder."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from recovery.autoscaling import AutoScaling
from recovery.cloud import ROUND_SECONDS, Rounds, Sdk
from tests.aws.clock import SteppedClock
from tests.aws.player import REGION
from tests.aws.surroundings import CONNECT, READ, ROUND, Aws, set_environment

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def aws(clock: SteppedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """AWS, played by a clock that the test steps; this process finds it."""
    with Aws(clock, page=2) as played:
        set_environment(monkeypatch, played)
        yield played


@pytest.fixture
def counted() -> Counter[tuple[str, str]]:
    """How many calls of which operation had which outcome."""
    return Counter()


@pytest.fixture
def cloud(request: pytest.FixtureRequest, counted: Counter[tuple[str, str]]) -> Iterator[AutoScaling]:
    """The edge with its default limits, for tests that are not about time."""
    request.getfixturevalue("aws")  # the environment first
    yield from _edge(Sdk(region=REGION, counted=lambda *which: counted.update([which])), ROUND_SECONDS)


@pytest.fixture
def hasty_sdk(request: pytest.FixtureRequest) -> Sdk:
    """An SDK with a tenth of the default limits."""
    request.getfixturevalue("aws")
    return Sdk(region=REGION, counted=lambda *_: None, connect_seconds=CONNECT, read_seconds=READ)


@pytest.fixture
def hasty(hasty_sdk: Sdk) -> Iterator[AutoScaling]:
    """The edge with a tenth of the default limits."""
    yield from _edge(hasty_sdk, ROUND)


def _edge(sdk: Sdk, seconds: float) -> Iterator[AutoScaling]:
    rounds = Rounds(sdk, seconds=seconds)
    yield AutoScaling(rounds)
    rounds.close()
