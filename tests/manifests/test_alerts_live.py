"""A real detector, a real scrape, the real rules: a fault in the kernel log becomes an alert that names its node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.detector.kernel import record
from tests.detector.process import Detector, neuron_line, until
from tests.manifests.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.real
_RULES = Path(__file__).resolve().parents[2] / "manifests" / "prometheus" / "alerts.yaml"


@pytest.fixture
def detector(tmp_path: Path) -> Iterator[Detector]:
    (tmp_path / "kmsg").touch()
    made = Detector(tmp_path)
    try:
        yield made.start("--kmsg", tmp_path / "kmsg", "--kmsg-follow")
    finally:
        made.kill()


@pytest.fixture
def prometheus(tmp_path: Path, detector: Detector) -> Iterator[Prometheus]:
    targets = [{"targets": [detector.url.removeprefix("http://")], "labels": {"node": "n1"}}]
    config = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
        "scrape_configs": [{"job_name": "chipwarden-detector", "static_configs": targets}],
        "rule_files": [str(_RULES)],
    }
    folder = tmp_path / "prometheus"
    folder.mkdir()
    server = Prometheus(folder, yaml.safe_dump(config))
    try:
        until(server.is_ready, seconds=30, what="Prometheus answers")
        yield server
    finally:
        server.stop()


def _alerts(server: Prometheus) -> dict[str, dict[str, str]]:
    return {alert["labels"]["alertname"]: alert["labels"] for alert in server.ask("alerts")["alerts"]}


def test_a_fault_that_nobody_acts_on_becomes_an_alert_and_no_other_alert_is_about_the_detector(
    tmp_path: Path, detector: Detector, prometheus: Prometheus
) -> None:
    until(lambda: "ChipwardenRecoveryDown" in _alerts(prometheus), seconds=30, what="rules are evaluated")
    assert _alerts(prometheus).keys() == {"ChipwardenRecoveryDown"}  # there is none here
    with (tmp_path / "kmsg").open("ab") as file:
        file.write(record(1, neuron_line("DMA_ERROR", detector.instance)))
    found = until(lambda: _alerts(prometheus).get("ChipwardenNodeBroken"), seconds=30, what="the alert")
    assert found == {
        "alertname": "ChipwardenNodeBroken",
        "severity": "critical",
        "node": "n1",
        "type": "NeuronHasError",
        "reason": "NeuronHasError_DMA_ERROR",
        "fault_class": "dead",
        "action": "replace",
    }
    assert _alerts(prometheus).keys() == {"ChipwardenRecoveryDown", "ChipwardenNodeBroken"}
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
