"""The scrape jobs for a Prometheus without the operator choose the right pods and name them as the alerts expect.

Debian's Prometheus is built without Kubernetes discovery, so that what it would discover is written into the
configuration instead, under the same names; the relabeling is a real server's.

Source: prometheus.io/docs/prometheus/latest/configuration, kubernetes_sd_config, role pod (read 2026-11-30).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.detector.process import until
from tests.manifests.prometheus import Prometheus

pytestmark = pytest.mark.real
_MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
_NAMESPACE = "neuron-healthcheck-system"


def _pods() -> list[dict[str, Any]]:
    """Write what is discovered of one pod of each workload, each port, and of somebody else's pod."""
    found = []
    for number, app in enumerate(("node-problem-detector", "chipwarden-recovery", "other")):
        for port in ("metrics", "debug"):
            meta = {
                "namespace": _NAMESPACE,
                "pod_name": f"{app}-x",
                "pod_node_name": f"n{number}",
                "pod_label_app": app,
                "pod_container_port_name": port,
            }
            labels = {f"__meta_kubernetes_{name}": value for name, value in meta.items()}
            found.append({"targets": [f"127.0.0.{number + 2}:{1 if port == 'metrics' else 2}"], "labels": labels})
    return found


def test_detectors_and_recovery_are_scraped_under_the_names_that_alerts_go_by(tmp_path: Path) -> None:
    config = yaml.safe_load((_MANIFESTS / "prometheus" / "scrape.yaml").read_text())
    for job in config["scrape_configs"]:
        (pods,) = job.pop("kubernetes_sd_configs")
        assert pods == {"role": "pod", "namespaces": {"names": [_NAMESPACE]}}
        job["static_configs"] = _pods()
    for name in config["rule_files"]:
        (tmp_path / name).write_text((_MANIFESTS / "prometheus" / name).read_text())
    server = Prometheus(tmp_path, yaml.safe_dump(config))
    try:
        until(server.is_ready, seconds=30, what="Prometheus answers")
        targets = until(lambda: server.ask("targets")["activeTargets"], seconds=30, what="targets are known")
        rules = server.ask("rules")["groups"]
    finally:
        server.stop()
    found = {each["labels"]["job"]: each["labels"] for each in targets}
    assert len(targets) == 2
    assert found["chipwarden-detector"] == {
        "job": "chipwarden-detector",
        "instance": "127.0.0.2:1",
        "namespace": _NAMESPACE,
        "node": "n0",
        "pod": "node-problem-detector-x",
    }
    assert found["chipwarden-recovery"] == {
        "job": "chipwarden-recovery",
        "instance": "127.0.0.3:1",
        "namespace": _NAMESPACE,
        "pod": "chipwarden-recovery-x",
    }
    assert {group["name"] for group in rules} == {"chipwarden-faults", "chipwarden-detector", "chipwarden-recovery"}
