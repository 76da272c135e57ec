"""The pages: names, labels and keys exactly as users and the other program rely on them."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from detector.settings import Settings
from detector.web import Pages
from tests.detector.kernel import record
from tests.detector.process import CODES, read_metrics, until
from tests.detector.rig import CATALOG, DMA, HANG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.pages import Page
    from tests.detector.process import Detector
    from tests.detector.rig import Rig

# Kind and label names of every metric. A change here is a change of the contract.
METRICS = {
    "problem_gauge": ("gauge", "type reason"),
    "problem_counter": ("counter", "reason"),
    "chipwarden_detector_rule_info": ("gauge", "type reason fault_class action"),
    "chipwarden_detector_fault_since_timestamp_seconds": ("gauge", "type reason"),
    "chipwarden_detector_recovery_enabled": ("gauge", ""),
    "chipwarden_detector_platform_repair": ("gauge", ""),
    "chipwarden_detector_instance_info": ("gauge", "instance"),
    "chipwarden_detector_reader_up": ("gauge", ""),
    "chipwarden_detector_records_total": ("counter", ""),
    "chipwarden_detector_lost_records_total": ("counter", ""),
    "chipwarden_detector_overruns_total": ("counter", ""),
    "chipwarden_detector_malformed_records_total": ("counter", ""),
    "chipwarden_detector_foreign_lines_total": ("counter", ""),
    "chipwarden_detector_fault_latency_seconds": ("histogram", "le"),
    "chipwarden_detector_api_requests_total": ("counter", "verb code"),
    "chipwarden_detector_state_writes_total": ("counter", "outcome"),
    "chipwarden_build_info": ("gauge", "version"),
}
LINT = {
    'problem_counter counter metrics should have "_total" suffix',
    "problem_counter metric name should not include type 'counter'",
    "problem_gauge metric name should not include type 'gauge'",
}
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z"


def families(page: str) -> dict[str, tuple[str, str]]:
    """Read kind and label names of each metric on a page."""
    kinds = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", page))
    labels: dict[str, str] = {}
    for name, inside in re.findall(r"(?m)^([a-z_]+)(?:\{(.*)\})? \S+$", page):
        family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        names = " ".join(re.findall(r'([a-z_]+)="', inside))
        assert labels.get(family) in (None, names, "le"), f"{family} has different labels"
        labels[family] = labels.get(family) or names
    assert labels.keys() <= kinds.keys()
    return {name: (kind, labels.get(name, "?")) for name, kind in kinds.items()}


def lint(page: str) -> set[str]:
    """Have Prometheus' own tool look at a page."""
    done = subprocess.run(["promtool", "check", "metrics"], input=page.encode(), capture_output=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    return set(done.stderr.decode().splitlines())


# On a running detector.


def test_every_metric_of_the_contract_is_there_with_its_labels_and_no_other(detector: Detector) -> None:
    detector.write("DMA_ERROR")
    until(detector.faults)
    shown = families(detector.page("/metrics")[1])
    assert shown.pop("chipwarden_detector_api_requests_total") == ("counter", "?")  # no API server, no request
    assert shown == {name: of for name, of in METRICS.items() if name != "chipwarden_detector_api_requests_total"}


def test_prometheus_finds_nothing_wrong_but_the_two_inherited_names(detector: Detector) -> None:
    assert lint(detector.page("/metrics")[1]) == LINT
    detector.write("DMA_ERROR")
    until(detector.faults)
    assert lint(detector.page("/metrics")[1]) == LINT


def test_odd_names_do_not_break_the_page(new_detector: Callable[..., Detector]) -> None:
    odd = 'i-"quoted"\\and\\n{é}, all=x'
    detector = new_detector(instance=odd).start()
    page = detector.page("/metrics")[1]
    assert lint(page) == LINT
    assert 'instance_info{instance="i-\\"quoted\\"\\\\and\\\\n{é}, all=x"} 1' in page
    assert detector.conditions()["instance"] == odd


def test_every_rule_shows_zero_from_the_start(detector: Detector) -> None:
    metrics = detector.metrics()
    gauges = {labels: value for (name, labels), value in metrics.items() if name == "problem_gauge"}
    assert gauges == {("NeuronHasError", f"NeuronHasError_{code}"): 0 for code in CODES}
    counters = {labels[0] for name, labels in metrics if name == "problem_counter"}
    assert counters == {rule.reason for rule in CATALOG.rules}


def test_rule_info_tells_recovery_what_each_reason_means(detector: Detector) -> None:
    told = {labels[1]: labels for name, labels in detector.metrics() if name == "chipwarden_detector_rule_info"}
    assert told["NeuronHasError_DMA_ERROR"] == ("NeuronHasError", "NeuronHasError_DMA_ERROR", "dead", "replace")
    assert told["NeuronHasError_HANG_ON_COLLECTIVES"][2:] == ("suspect", "none")
    assert told["NeuronHasError_OTHER"][0] == ""


@pytest.mark.parametrize(("text", "value"), [("true", 1), ("false", 0), ("", 0)])
def test_enable_recovery_is_exposed_as_aws_users_set_it(
    new_detector: Callable[..., Detector], text: str, value: int
) -> None:
    assert new_detector().start(env={"ENABLE_RECOVERY": text}).metric("recovery_enabled") == value


def test_platform_repair_is_not_promised_without_an_api_server(new_detector: Callable[..., Detector]) -> None:
    detector = new_detector().start(env={"CHIPWARDEN_ACCELERATED_HARDWARE_READY": "true"})
    assert detector.metric("platform_repair") == 0


def test_an_unknown_path_is_not_found_and_tells_the_known_ones(detector: Detector) -> None:
    assert detector.page("/metric") == (404, "not found; paths: /conditions /healthz /metrics /readyz\n")


def test_health_and_readiness_are_fine_while_it_reads(detector: Detector) -> None:
    assert detector.page("/healthz") == (200, "ok\n")
    assert detector.page("/readyz") == (200, "ok\n")


def test_a_detector_that_cannot_read_is_healthy_but_not_ready_and_says_why(
    new_detector: Callable[..., Detector],
) -> None:
    detector = new_detector().start("--kmsg", "/dev/null", ready=False)
    until(lambda: detector.page("/readyz")[0] == 503)
    assert "the kernel log is not read: /dev/null cannot be read: end of file" in detector.page("/readyz")[1]
    assert detector.page("/healthz")[0] == 200
    reader = detector.conditions()["reader"]
    assert reader["up"] is False
    assert detector.metric("reader_up") == 0


def test_the_page_of_conditions_has_the_keys_of_the_contract(detector: Detector) -> None:
    detector.write("DMA_ERROR", device=3)
    until(detector.faults)
    page = detector.conditions()
    assert list(page) == ["source", "instance", "boot", "sequence", "reader", "conditions", "faults"]
    assert (page["source"], page["instance"]) == ("kmsg", detector.instance)
    assert page["boot"] == detector.boot_id_file.read_text().strip()
    assert page["sequence"] > 0
    reader = page["reader"]
    assert list(reader) == ["up", "last_read_at", "lost", "overruns"]
    assert reader["up"] is True
    assert re.fullmatch(TIME, reader["last_read_at"])
    (condition,) = page["conditions"]
    assert list(condition) == ["type", "status", "reason", "message", "lastTransitionTime", "lastHeartbeatTime"]
    assert re.fullmatch(r"[\d-]+T[\d:]+Z", condition["lastTransitionTime"])
    (fault,) = page["faults"]
    keys = ["reason", "condition", "faultClass", "action", "clearsOn", "count", "first_at", "last_at", "details"]
    assert list(fault) == keys
    assert (fault["faultClass"], fault["action"], fault["clearsOn"]) == ("dead", "replace", "replacement")
    assert re.fullmatch(TIME, fault["first_at"])


def test_a_boot_and_instance_that_are_not_known_are_null(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig()
    rig.board.instance = None
    page = json.loads(pages(rig).conditions().body)
    assert page["instance"] is None
    assert page["sequence"] is None
    assert page["reader"] == {"up": False, "last_read_at": None, "lost": 0, "overruns": 0}
    assert page["conditions"] == page["faults"] == []


# With a clock that is moved.


def pages(rig: Rig) -> Pages:
    return Pages(rig.board, CATALOG, Settings())


def value(page: Page, name: str, *labels: str) -> float:
    return read_metrics(page.body.decode())["chipwarden_detector_" + name, labels]


def test_it_is_not_ready_before_the_log_is_open_and_read(new_rig: Callable[..., Rig]) -> None:
    rig = new_rig()
    assert pages(rig).readyz().status == 503
    assert pages(rig).readyz().body == b"the kernel log is not read: not yet opened\n"
    rig.agent.open()
    assert pages(rig).readyz().body == b"the kernel log is still read for the first time\n"
    rig.reads()
    assert pages(rig).readyz().status == 200


def test_it_is_not_ready_before_an_api_server_has_its_first_condition(rig: Rig) -> None:
    rig.board.published = False
    assert pages(rig).readyz().body == b"no condition has reached the API server yet\n"


def test_no_condition_is_shown_as_false_before_it_is_known_what_the_node_says(rig: Rig) -> None:
    rig.board.node_read = False
    assert json.loads(pages(rig).conditions().body)["conditions"] == []
    rig.reads(record(2, DMA))
    (condition,) = json.loads(pages(rig).conditions().body)["conditions"]
    assert condition["status"] == "True"


def test_a_loop_that_is_stuck_is_unhealthy(rig: Rig) -> None:
    rig.sight.busy_since = rig.clock.seconds
    rig.clock.seconds += 9
    assert pages(rig).healthz().status == 200
    rig.clock.seconds += 2
    assert pages(rig).healthz().status == 503
    assert pages(rig).healthz().body == b"the loop is stuck\n"


def test_the_oldest_device_tells_since_when_a_reason_is_active(rig: Rig) -> None:
    first = rig.clock.now().timestamp()
    rig.reads(record(2, DMA.replace("nd-id=0", "nd-id=1")))
    rig.clock.seconds += 60
    rig.reads(record(3, DMA), record(4, HANG))
    page = pages(rig).metrics()
    since = "fault_since_timestamp_seconds"
    assert value(page, since, "NeuronHasError", "NeuronHasError_DMA_ERROR") == pytest.approx(first, abs=0.001)
    hang = value(page, since, "NeuronHasError", "NeuronHasError_HANG_ON_COLLECTIVES")
    assert hang == pytest.approx(first + 60, abs=0.001)


def test_an_active_fault_whose_rule_is_gone_still_shows_one(rig: Rig) -> None:
    rig.reads(record(2, DMA))
    other = CATALOG.__class__(rule_sets=(), conditions=CATALOG.conditions, rules=CATALOG.rules[:1])
    metrics = read_metrics(Pages(rig.board, other, Settings()).metrics().body.decode())
    assert metrics["problem_gauge", ("NeuronHasError", "NeuronHasError_DMA_ERROR")] == 1


def test_losses_show_on_both_pages(rig: Rig) -> None:
    rig.reads(record(80), b"garbage\n")
    assert value(pages(rig).metrics(), "lost_records_total") == 78
    assert value(pages(rig).metrics(), "malformed_records_total") == 1
    shown: dict[str, Any] = json.loads(pages(rig).conditions().body)
    assert shown["reader"]["lost"] == 78


def test_failed_and_successful_writes_of_the_state_are_counted(rig: Rig, tmp_path: Path) -> None:
    until(lambda: value(pages(rig).metrics(), "state_writes_total", "written") == 1)
    (tmp_path / ".state.json.new").mkdir()
    rig.reads(record(2, DMA))
    until(lambda: value(pages(rig).metrics(), "state_writes_total", "failed") >= 1)
