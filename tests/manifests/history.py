"""A real Prometheus server that has scraped an incident: its pages, loaded with promtool as if they had been scraped.

Labels of a target win over those of its page, which are kept as `exported_*`; a target that does not answer has `up` 0.
That is what a scrape does, and all that is done here to a page.

Source: prometheus.io/docs/prometheus/latest/storage (backfilling from OpenMetrics), .../configuration (honor_labels;
read 2026-11-30).
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from tests.manifests.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.manifests.incident import Incident

_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*")')


def scraped(folder: Path, incident: Incident) -> Prometheus:
    """Start a server that has scraped an incident; a series ends a minute after its last sample.

    In a real scrape it ends at once, because the server writes down that the target is gone.

    Args:
        folder: empty, for its data.
        incident: played if it has not been yet.
    """
    lines, data = folder / "scrapes.txt", folder / "data"
    with lines.open("w", encoding="utf-8") as file:
        file.writelines(_lines(incident))
    load = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(lines), str(data)]
    subprocess.run(load, check=True, capture_output=True)
    flags = ("--storage.tsdb.retention.time=100y", "--query.lookback-delta=1m")
    return Prometheus(folder, "scrape_configs: []\n", *flags)


def _lines(incident: Incident) -> Iterator[str]:
    for at, pages in incident.scrapes:
        for labels, page in pages.items():
            target = ",".join(f'{name}="{value}"' for name, value in labels)
            yield f"up{{{target}}} {int(page is not None)} {at:.3f}\n"
            for name, inside, value in _samples(page or ""):
                own = "".join(f"{_kept(label, labels)}={text}," for label, text in _LABEL.findall(inside))
                yield f"{name}{{{own}{target}}} {value} {at:.3f}\n"
    yield "# EOF\n"


def _samples(page: str) -> Iterator[tuple[str, str, str]]:
    for line in page.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found:
            yield found[1], found[2] or "", found[3]


def _kept(label: str, target: Iterable[tuple[str, str]]) -> str:
    return f"exported_{label}" if any(label == name for name, _ in target) else label
