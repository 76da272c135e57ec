"""What Grafana puts for a dashboard's variables, with all clusters and namespaces chosen.

Source: grafana.com/docs/grafana/latest/dashboards/variables/add-template-variables, global variables;
.../datasources/prometheus/template-variables: $__rate_interval is at least four scrape intervals (read 2026-11-30).
"""

from __future__ import annotations

import re

from tests.manifests.incident import EVERY_SECONDS, SECONDS


def expanded(expression: str, node: str) -> str:
    """Replace the variables.

    Raises:
        KeyError: the expression has another one.
    """
    values = {
        "cluster": ".*",
        "namespace": ".*",
        "node": node,
        "__rate_interval": f"{4 * EVERY_SECONDS}s",
        "__range": f"{SECONDS}s",
    }
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expression)
