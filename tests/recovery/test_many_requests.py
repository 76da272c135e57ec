"""What failing requests to the API server cost in the long run, and how long one takes at the default limits."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recovery.kube import KubeNodes
from recovery.lease import Alone
from recovery.led import LedRest
from recovery.ports import PortError
from tests.chain.failing import API_FAULTS
from tests.kubernetes.faults import FaultProxy, drips, says, silent, whole
from tests.kubernetes.recovering import rest_to
from tests.recovery.test_late_requests import ANSWERS

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tests.kubernetes.faults import Fault

REQUESTS = 3000
SLACK = 3.0  # seconds that a busy machine may add
RARE = ("silent", "drips")  # each costs a whole time limit


def _answered(server: FaultProxy) -> Fault:
    """Answer as an API server that has what is asked for; now and then fail."""
    chance = random.Random(1)  # noqa: S311 - the same every time
    often = [API_FAULTS[name] for name in API_FAULTS if name not in RARE]
    rarely = [API_FAULTS[name] for name in RARE]

    def answer(client: socket.socket, _: Callable[[], bytes]) -> bool:
        path = server.seen[-1].path.partition("?")[0]
        body = json.dumps(ANSWERS.get(path, {"metadata": {"resourceVersion": "2"}})).encode()
        fault = says(whole(200, body))
        drawn = chance.random()
        if drawn < 0.4:
            fault = chance.choice(often) if drawn > 0.002 else chance.choice(rarely)
        return fault(client, lambda: whole(200, body))

    return answer


def test_memory_threads_and_descriptors_stay_flat_over_3000_requests_of_which_many_fail(tmp_path: Path) -> None:
    with FaultProxy() as server:
        server.always(_answered(server))
        rest_to(server.url, tmp_path)
        program = subprocess.run(
            [sys.executable, "-m", "tests.recovery.many_requests", str(REQUESTS)],
            env={**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
            timeout=120,
        )
        assert len(server.seen) > REQUESTS
    result = json.loads(program.stdout)
    assert result["outcomes"]["failed"] > REQUESTS / 5, result
    assert result["outcomes"]["ok"] > REQUESTS / 5, result
    assert result["end"]["mib"] - result["warm"]["mib"] < 2, result
    assert result["end"]["threads"] == result["warm"]["threads"] == 2
    assert abs(result["end"]["descriptors"] - result["warm"]["descriptors"]) <= 2, result


def test_hang_and_drip_end_at_the_limits_that_are_the_defaults(tmp_path: Path) -> None:
    def ask(fault: Fault, folder: Path) -> float:
        folder.mkdir()
        with FaultProxy() as server:
            server.always(fault)
            rest_to(server.url, folder)
            rest = LedRest(Alone().permit, swapped="", environ={"KUBECONFIG": str(folder / "kubeconfig")})
            nodes = KubeNodes(rest, drain=None, events=None)  # type: ignore[arg-type] # neither is needed to read
            began = time.monotonic()
            with pytest.raises(PortError) as caught:
                nodes.read("n")
            assert not caught.value.gone
            return time.monotonic() - began

    drip = drips(whole(200, b" " * 1000), every_seconds=0.1)
    with ThreadPoolExecutor(2) as pool:
        hung = pool.submit(ask, silent, tmp_path / "a")
        dripped = pool.submit(ask, drip, tmp_path / "b")

    assert 5 <= hung.result() < 5 + SLACK
    assert 15 <= dripped.result() < 15 + SLACK
