"""Recovery's pages: what they show of a snapshot, and when they say that something is wrong."""

from __future__ import annotations

import http.client
import subprocess
import threading
from datetime import UTC, datetime

import pytest

from recovery.board import STUCK_AFTER_SECONDS, Board
from recovery.decision import Snapshot, Spread
from recovery.web import Pages
from runtime.pages import Server
from tests.detector.kernel import Clock
from tests.detector.process import Metrics, read_metrics

AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FULL = Snapshot(
    at=AT,
    leader=True,
    paused="maintenance",
    observations={"healthy": 990, "faulty": 3, "blind": 7},
    open_entries={"trn1": 1},
    budget_remaining={"": 2, "trn1": 0},
    breaker_tripped={"NeuronHasError_DMA_ERROR": False, "NeuronHasError_HBM_UNCORRECTABLE_ERROR": True},
    replacement_blocked={"trn1": {"capacity": 1}, "trn2": {"hook": 2}},
    oldest_open={"terminating": AT},
    decisions_total={"fenced": {"NeuronHasError_DMA_ERROR": 4}, "wait": {"NeuronHasError_DMA_ERROR": 9}},
    blocked_nodes={"MaxPerGroup": 2, "Paused": 0},
    blocked_total={"MaxPerGroup": 5, 'odd "name"\n': 1},
    sequence_seconds={"fenced": Spread(bounds=(1.0, 60.0), counts=(1, 2, 3), total=500.5)},
)


@pytest.fixture
def board() -> Board:
    return Board(Clock())


def shown(board: Board) -> Metrics:
    page = Pages(board).metrics()
    assert (page.status, page.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return read_metrics(page.body.decode())


def test_every_metric_of_the_contract_is_there(board: Board) -> None:
    board.end(FULL)
    board.count_cloud("SetInstanceHealth", "ok")
    values = shown(board)
    own = "chipwarden_recovery_"
    assert values[own + "leader", ()] == 1
    assert values[own + "paused", ()] == 1
    assert values[own + "blind_nodes", ()] == 7
    assert values[own + "observations", ("healthy",)] == 990
    assert values[own + "decisions_total", ("fenced", "NeuronHasError_DMA_ERROR")] == 4
    assert values[own + "blocked_total", ("MaxPerGroup",)] == 5
    assert values[own + "blocked_nodes", ("MaxPerGroup",)] == 2
    assert values[own + "blocked_nodes", ("Paused",)] == 0
    assert values[own + "open_entries", ("trn1",)] == 1
    assert values[own + "budget_remaining", ("",)] == 2
    assert values[own + "budget_remaining", ("trn1",)] == 0
    assert values[own + "breaker_tripped", ("NeuronHasError_HBM_UNCORRECTABLE_ERROR",)] == 1
    assert values[own + "breaker_tripped", ("NeuronHasError_DMA_ERROR",)] == 0
    assert values[own + "replacement_blocked", ("trn2", "hook")] == 2
    assert values[own + "oldest_open_entry_timestamp_seconds", ("terminating",)] == AT.timestamp()
    assert values[own + "cloud_requests_total", ("SetInstanceHealth", "ok")] == 1
    assert values["chipwarden_build_info", ("0.1.0",)] == 1


def test_the_time_of_a_step_is_a_histogram(board: Board) -> None:
    board.end(FULL)
    values = shown(board)
    name = "chipwarden_recovery_sequence_seconds"
    buckets = [values[name + "_bucket", ("fenced", bound)] for bound in ("1", "60", "+Inf")]
    assert buckets == [1, 3, 6]
    assert (values[name + "_sum", ("fenced",)], values[name + "_count", ("fenced",)]) == (500.5, 6)


def test_a_process_that_has_done_nothing_yet_shows_that(board: Board) -> None:
    values = shown(board)
    assert values["chipwarden_recovery_leader", ()] == 0
    assert values["chipwarden_recovery_blind_nodes", ()] == 0
    assert not [key for key in values if key[0].endswith("_total")]


@pytest.mark.real
@pytest.mark.parametrize("snapshot", [Snapshot(), FULL])
def test_promtool_accepts_the_page(board: Board, snapshot: Snapshot) -> None:
    board.end(snapshot)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=Pages(board).metrics().body, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_is_ready_after_the_first_pass_leader_or_not(board: Board) -> None:
    pages = Pages(board)
    assert (pages.readyz().status, pages.readyz().body) == (503, b"the first pass is not over\n")
    board.begin()
    assert pages.readyz().status == 503
    board.end(Snapshot(leader=False))
    assert pages.readyz().status == 200
    board.begin()
    assert pages.readyz().status == 200


def test_it_is_healthy_unless_a_pass_does_not_end() -> None:
    clock = Clock()
    board = Board(clock)
    pages = Pages(board)
    assert pages.healthz().status == 200
    board.begin()
    clock.seconds += STUCK_AFTER_SECONDS
    assert pages.healthz().status == 200
    clock.seconds += 1
    assert (pages.healthz().status, pages.healthz().body) == (503, b"the loop is stuck\n")
    board.end(None)
    assert pages.healthz().status == 200


def test_a_pass_without_a_snapshot_leaves_the_one_before(board: Board) -> None:
    board.end(FULL)
    board.end(None)
    assert board.snapshot is FULL


def test_calls_are_counted_from_any_thread(board: Board) -> None:
    def count() -> None:
        for _ in range(1_000):
            board.count_cloud("PutMetricData", "ok")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert board.cloud_requests() == {("PutMetricData", "ok"): 4_000}


def test_the_pages_are_served(board: Board) -> None:
    server = Server("127.0.0.1:0", Pages(board).routes())
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        for path, status in (("/metrics", 200), ("/healthz", 200), ("/readyz", 503), ("/conditions", 404)):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
    finally:
        connection.close()
        server.close()
