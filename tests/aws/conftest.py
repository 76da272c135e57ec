"""AWS, played, for the tests of this folder."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from recovery.autoscaling import AutoScaling
from recovery.cloud import ROUND_SECONDS, Rounds
from tests.aws.clock import SteppedClock
from tests.aws.permissions import foreign
from tests.aws.surroundings import ROUND, Aws, make_sdk, set_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recovery.cloud import Sdk


_LAST = "test_whole_suite.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what is about the whole suite last, and only after the whole suite."""
    last = [item for item in items if item.path.name == _LAST]
    others = [item for item in items if item.path.name != _LAST]
    is_whole = config.args == config.getini("testpaths") and not (
        config.option.keyword
        or config.option.markexpr
        or config.option.deselect
        or config.getoption("lf", default=False)
    )
    if not is_whole:
        config.hook.pytest_deselected(items=last)
    items[:] = others + (last if is_whole else [])


# What tests themselves ask of CloudWatch.
OWN_CALLS = frozenset({"cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms"})


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def aws(clock: SteppedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """AWS, played by a clock that the test steps; this process finds it."""
    with Aws(clock, page=2) as played:
        set_environment(monkeypatch, played)
        yield played
        assert not foreign(played.proxy.actions() - OWN_CALLS)


@pytest.fixture
def counted() -> Counter[tuple[str, str]]:
    """How many calls of which operation had which outcome."""
    return Counter()


@pytest.fixture
def cloud(request: pytest.FixtureRequest, counted: Counter[tuple[str, str]]) -> Iterator[AutoScaling]:
    """The edge with its default limits, for tests that are not about time."""
    request.getfixturevalue("aws")  # the environment first
    yield from _edge(make_sdk(lambda *which: counted.update([which])), ROUND_SECONDS)


@pytest.fixture
def hasty_sdk(request: pytest.FixtureRequest) -> Sdk:
    """An SDK with a tenth of the default limits."""
    request.getfixturevalue("aws")
    return make_sdk(is_hasty=True)


@pytest.fixture
def hasty(hasty_sdk: Sdk) -> Iterator[AutoScaling]:
    """The edge with a tenth of the default limits."""
    yield from _edge(hasty_sdk, ROUND)


def _edge(sdk: Sdk, seconds: float) -> Iterator[AutoScaling]:
    rounds = Rounds(sdk, seconds=seconds)
    yield AutoScaling(rounds)
    rounds.close()
