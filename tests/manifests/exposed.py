"""What the two programs expose: metrics by name, with their labels, read from their pages after an incident."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.manifests.incident import Incident

# Of the target, set by the scrape: manifests/components/podmonitor*, manifests/prometheus/scrape.yaml.
TARGET_LABELS = frozenset({"cluster", "namespace", "node", "job", "instance", "pod"})
_SAMPLE = re.compile(r"(?m)^([a-z_]+)(?:\{(.*)\})? \S+$")
_LABEL = re.compile(r'([a-z_]+)="')


@functools.cache
def exposed(incident: Incident) -> dict[str, set[str]]:
    """Name each metric with all labels that it has on any page, at any time of the incident."""
    found: dict[str, set[str]] = {}
    for scrape in incident.scrapes:
        for page in scrape.pages.values():
            for name, inside in _SAMPLE.findall(page or ""):
                found.setdefault(name, set()).update(_LABEL.findall(inside))
    return found
