"""Alert rules: they fire and stay quiet as they should, ask only for what is exposed, and each has its runbook."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kubernetes.binaries import program
from tests.manifests.exposed import TARGET_LABELS, exposed
from tests.manifests.incident import END, START
from tests.manifests.promql import asked
from tools.prometheus_rule import TARGET, prometheus_rule

if TYPE_CHECKING:
    from tests.manifests.incident import Incident
    from tests.manifests.prometheus import Prometheus

_REPOSITORY = Path(__file__).resolve().parents[2]
_FOLDER = _REPOSITORY / "manifests" / "prometheus"
_COMPONENTS = _REPOSITORY / "manifests" / "components"
_RUNBOOKS = _REPOSITORY / "docs" / "runbooks"
_CASES = sorted((_REPOSITORY / "tests" / "data" / "alerts").glob("*.yaml"))
_TEXT = (_FOLDER / "alerts.yaml").read_text(encoding="utf-8")
_RULES: list[dict[str, Any]] = [rule for group in yaml.safe_load(_TEXT)["groups"] for rule in group["rules"]]
_NAMES = sorted({rule["alert"] for rule in _RULES})
_HEADINGS = (
    "What it means",
    "How urgent",
    "What you lose while it stands",
    "Look first",
    "Do",
    "It clears when",
    "Do not",
)
# Exposed by others, each with its labels beside those of a target.
_OTHERS: dict[str, set[str]] = {
    "up": set(),  # by Prometheus itself
    "kube_daemonset_status_desired_number_scheduled": {"daemonset"},  # by kube-state-metrics
}


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)


def _runbook(name: str) -> Path:
    (path,) = {rule["annotations"]["runbook"] for rule in _RULES if rule["alert"] == name}
    return _REPOSITORY / str(path)


# With Prometheus' own tool.


@pytest.mark.real
def test_promtool_finds_nothing_wrong() -> None:
    done = _promtool("check", "rules", _FOLDER / "alerts.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"SUCCESS: {len(_RULES)} rules found" in done.stdout


@pytest.mark.real
@pytest.mark.parametrize("case", _CASES, ids=lambda path: path.stem)
def test_alerts_fire_and_stay_quiet_as_told(case: Path) -> None:
    done = _promtool("test", "rules", case)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.real
@pytest.mark.parametrize(
    ("case", "right", "wrong"),
    [
        ("faults", "    for: 1m\n    labels: {severity: critical}", "    for: 2m\n    labels: {severity: critical}"),
        ("faults", "[5m])) == 1\n      )\n      unless", "[1m])) == 1\n      )\n      unless"),
        (
            "detectors",
            "        or (\n          chipwarden_detector_lost",
            "        unless (\n          chipwarden_detector_lost",
        ),
        ("detectors", ") > 0.2\n    for: 10m", ") > 0.6\n    for: 10m"),
        ("recovery", '{namespace!=""}', ""),
        ("recovery", "for: 4h", "for: 3h"),
    ],
)
def test_a_rule_that_is_changed_fails_its_cases(tmp_path: Path, case: str, right: str, wrong: str) -> None:
    assert right in _TEXT
    (tmp_path / "alerts.yaml").write_text(_TEXT.replace(right, wrong))
    text = (_CASES[0].parent / f"{case}.yaml").read_text()
    (tmp_path / "case.yaml").write_text(text.replace("../../../manifests/prometheus/alerts.yaml", "alerts.yaml"))
    done = _promtool("test", "rules", tmp_path / "case.yaml")
    assert done.returncode == 1
    assert "FAILED" in done.stderr


@pytest.mark.pure
def test_each_alert_fires_and_stays_quiet_in_some_case() -> None:
    fires: set[str] = set()
    is_quiet: set[str] = set()
    for case in _CASES:
        for test in yaml.safe_load(case.read_text())["tests"]:
            for each in test.get("alert_rule_test", ()):
                (fires if each["exp_alerts"] else is_quiet).add(each["alertname"])
    assert sorted(fires) == _NAMES
    assert sorted(is_quiet) == _NAMES


# What they ask for.


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_each_alert_asks_for_metrics_and_labels_that_are_there(incident: Incident, rule: dict[str, Any]) -> None:
    known = exposed(incident) | _OTHERS
    wanted = asked(rule["expr"])
    assert wanted.metrics.keys() <= known.keys()
    unknown = {name: labels - known[name] - TARGET_LABELS for name, labels in wanted.metrics.items()}
    assert not any(unknown.values()), unknown
    assert wanted.labels <= TARGET_LABELS.union(*(known[name] for name in wanted.metrics))


@pytest.mark.real
def test_rules_are_answered_on_a_real_server_and_see_what_happened_in_the_incident(history: Prometheus) -> None:
    """Not how long it lasted: that is for promtool. Here labels of real pages meet, and no join may fail."""
    seen = {rule["alert"] for rule in _RULES if history.over(rule["expr"], START.timestamp(), END, 60)}
    assert seen == {
        "ChipwardenNodeBroken",
        "ChipwardenNodeStillBroken",
        "ChipwardenNodesSuspect",
        "ChipwardenDetectorDown",
        "ChipwardenDetectorBlind",
        "ChipwardenRecordsLost",
        "ChipwardenApiRequestsRefused",
        "ChipwardenNodesBlind",
        "ChipwardenRecoveryBlocked",
        "ChipwardenBreakerTripped",
        "ChipwardenReplacementBlocked",
        "ChipwardenRecoveryPaused",
    }


@pytest.mark.pure
def test_the_jobs_are_those_that_the_scrape_makes() -> None:
    (monitor,) = yaml.safe_load_all((_COMPONENTS / "podmonitor" / "podmonitor.yaml").read_text())
    job = f"{monitor['metadata']['namespace']}/{monitor['metadata']['name']}"
    detectors, _ = yaml.safe_load((_FOLDER / "scrape.yaml").read_text())["scrape_configs"]
    jobs = {found for rule in _RULES for found in re.findall(r'job=~"(.*?)"', rule["expr"])}
    assert jobs == {f"{job}|{detectors['job_name']}"}


# What they say.


@pytest.mark.pure
@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_each_alert_says_what_to_do_first(rule: dict[str, Any]) -> None:
    assert set(rule["labels"]) == {"severity"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert re.search(r"\bFirst \w+", rule["annotations"]["description"])


@pytest.mark.pure
def test_each_threshold_has_its_reason_above_it() -> None:
    lines = _TEXT.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("  - alert:"):
            is_second = line in lines[:number]  # the same alert with another severity
            assert is_second or re.match(r"  # \S.*\.$", lines[number - 1]), line


@pytest.mark.pure
@pytest.mark.parametrize("name", _NAMES)
def test_each_alert_has_a_runbook_that_says_all(name: str) -> None:
    text = _runbook(name).read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert tuple(re.findall(r"(?m)^## (.*)$", text)) == _HEADINGS
    assert "```console\n$ " in text.partition("## Look first")[2].partition("## Do\n")[0]
    severities = {rule["labels"]["severity"] for rule in _RULES if rule["alert"] == name}
    urgent = text.partition("## How urgent\n\n")[2]
    assert urgent.startswith("Page" if severities == {"critical"} else ("Ticket", "Page"))


@pytest.mark.pure
def test_each_runbook_is_of_an_alert_and_in_the_list() -> None:
    pages = {path.name for path in _RUNBOOKS.glob("*.md")} - {"README.md"}
    assert pages == {_runbook(name).name for name in _NAMES}
    listed = re.findall(r"(?m)^\| \[(\w+)\]\((\S+)\) \| ([a-z, ]+) \|", (_RUNBOOKS / "README.md").read_text())
    assert {(name, page) for name, page, _ in listed} == {(name, _runbook(name).name) for name in _NAMES}
    for name, _, severities in listed:
        told = [rule["labels"]["severity"] for rule in _RULES if rule["alert"] == name]
        assert sorted(severities.split(", ")) == sorted(told)


# How they are installed.


@pytest.mark.pure
def test_the_operators_object_says_what_the_file_says() -> None:
    assert TARGET.read_text(encoding="utf-8") == prometheus_rule(), "run `python3 tools/prometheus_rule.py`"
    assert yaml.safe_load(TARGET.read_text())["spec"]["groups"] == yaml.safe_load(_TEXT)["groups"]


@pytest.mark.real
def test_kustomize_adds_rules_and_scrapes_to_the_base(tmp_path: Path) -> None:
    root = os.path.relpath(_REPOSITORY / "manifests", tmp_path.resolve())
    components = [f"{root}/components/podmonitor", f"{root}/components/podmonitor-recovery", f"{root}/prometheus"]
    patch = "- {op: add, path: /metadata/labels/release, value: kube-prometheus-stack}"
    patches = [{"target": {"kind": "PrometheusRule", "name": "chipwarden"}, "patch": patch}]
    overlay = {"resources": [f"{root}/base"], "components": components, "patches": patches}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    done = subprocess.run([program("kubectl"), "kustomize", str(tmp_path)], capture_output=True, text=True, check=True)
    documents = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    rule = documents["PrometheusRule", "chipwarden"]
    assert rule["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    assert len([each for group in rule["spec"]["groups"] for each in group["rules"]]) == len(_RULES)
    for monitor, workload in (
        ("node-problem-detector", ("DaemonSet", "node-problem-detector")),
        ("chipwarden-recovery", ("Deployment", "chipwarden-recovery")),
    ):
        spec = documents["PodMonitor", monitor]["spec"]
        template = documents[workload]["spec"]["template"]
        assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
        assert {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]} <= ports
