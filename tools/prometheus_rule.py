"""Write manifests/prometheus/prometheusrule.yaml from alerts.yaml beside it; a test keeps the two equal.

kustomize cannot put a file into an object's `spec`, and two files by hand drift apart. Must not change what a rule
says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent.parent / "manifests" / "prometheus"
SOURCE = FOLDER / "alerts.yaml"
TARGET = FOLDER / "prometheusrule.yaml"
_HEAD = """\
# Written from alerts.yaml, which has the reason for each threshold, by: python3 tools/prometheus_rule.py
# Names: prometheus-operator pkg/apis/monitoring/v1/prometheusrule_types.go (read 2026-11-30).
"""


class _Dumper(yaml.SafeDumper):
    """Writes expressions as they are read: several lines stay several lines, nothing is abbreviated."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class names it
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def prometheus_rule() -> str:
    """Write the object as a file."""
    groups = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))["groups"]
    metadata = {
        "name": "chipwarden",
        "namespace": "neuron-healthcheck-system",
        "labels": {"app.kubernetes.io/name": "chipwarden"},
    }
    body = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": {"groups": groups},
    }
    return _HEAD + yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=10_000)


if __name__ == "__main__":
    TARGET.write_text(prometheus_rule(), encoding="utf-8")
