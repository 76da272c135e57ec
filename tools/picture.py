"""Draw docs/pictures/fleet.svg and node.svg: each panel of the dashboards from its own queries.

The queries are asked of a real Prometheus that has scraped a scripted incident (tests/manifests/incident.py). What is
drawn is not Grafana's rendering, and the pictures say so. Needs Debian's prometheus.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.detector.process import until
from tests.manifests.history import scraped
from tests.manifests.incident import END, START, STORY, Incident, node_name
from tests.manifests.variables import expanded
from tools.charts import Frame, Line
from tools.panels import panel
from tools.svg import FAINT, Canvas

if TYPE_CHECKING:
    from tests.manifests.prometheus import Prometheus

TARGET = REPOSITORY / "docs" / "pictures"
WIDTH, UNIT, GAP, HEAD = 1500.0, 34.0, 6.0, 56.0
STEP = 60.0
SAID = "drawn from this dashboard's own queries, on a real Prometheus and a scripted incident; not a Grafana screenshot"


def draw(name: str, history: Prometheus, node: str) -> str:
    """Draw one dashboard.

    Args:
        name: of its file in manifests/grafana.
        history: what it asks.
        node: what the variable `node` names.
    """
    dashboard = json.loads((REPOSITORY / "manifests" / "grafana" / f"{name}.json").read_text(encoding="utf-8"))
    rows = max(spec["gridPos"]["y"] + spec["gridPos"]["h"] for spec in dashboard["panels"])
    canvas = Canvas(WIDTH, HEAD + rows * UNIT + GAP)
    canvas.text(14, 30, dashboard["title"] + (f" / {node}" if name == "node" else ""), size=19, bold=True)
    canvas.text(14, 47, SAID, size=11, fill=FAINT)
    for spec in dashboard["panels"]:
        grid = spec["gridPos"]
        width = (WIDTH - GAP) / 24
        frame = Frame(
            x=GAP + grid["x"] * width,
            y=HEAD + grid["y"] * UNIT,
            width=grid["w"] * width - GAP,
            height=grid["h"] * UNIT - GAP,
            start=START.timestamp(),
            end=END,
            step=STEP,
        )
        panel(
            canvas, spec, [line for target in spec.get("targets", ()) for line in _lines(target, history, node)], frame
        )
    return canvas.done()


def _lines(target: dict[str, Any], history: Prometheus, node: str) -> list[Line]:
    expression = expanded(target["expr"], node)
    if target.get("instant"):
        found = [(each["metric"], [each["value"]]) for each in history.at(expression, END)]
    else:
        found = [(each["metric"], each["values"]) for each in history.over(expression, START.timestamp(), END, STEP)]
    return [Line(_named(target.get("legendFormat", ""), labels), labels, _numbers(values)) for labels, values in found]


def _named(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), legend)


def _numbers(values: list[Any]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values if value != "NaN"]


def main() -> None:
    """Draw both."""
    with tempfile.TemporaryDirectory() as folder:
        history = scraped(Path(folder), Incident(Path(folder) / "incident"))
        try:
            until(history.is_ready, seconds=30, what="Prometheus answers")
            for name in ("fleet", "node"):
                picture = draw(name, history, node_name(STORY))
                (TARGET / f"{name}.svg").write_text(picture, encoding="utf-8")
        finally:
            history.stop()


if __name__ == "__main__":
    main()
