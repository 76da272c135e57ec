"""Dashboards: each query is answered by a real Prometheus, shows what happened, and asks only for what is exposed."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.manifests.exposed import TARGET_LABELS, exposed
from tests.manifests.incident import END, START, STORY, node_name
from tests.manifests.promql import asked
from tests.manifests.variables import expanded
from tests.recovery.machines import DMA, HANG

if TYPE_CHECKING:
    from tests.manifests.incident import Incident
    from tests.manifests.prometheus import Prometheus

_REPOSITORY = Path(__file__).resolve().parents[2]
_FOLDER = _REPOSITORY / "manifests" / "grafana"
_BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted(_FOLDER.glob("*.json"))
}
_PANELS = [(name, panel) for name, board in _BOARDS.items() for panel in board["panels"] if panel["type"] != "row"]
_TARGETS = [
    pytest.param(target["expr"], id=f"{name}: {panel['title']} {target['refId']}")
    for name, panel in _PANELS
    for target in panel["targets"]
]
_STEP = 30.0


def _expression(board: str, title: str, number: int = 0) -> str:
    (panel,) = (panel for name, panel in _PANELS if (name, panel["title"]) == (board, title))
    return str(panel["targets"][number]["expr"])


def _at(history: Prometheus, second: float, expression: str, node: int = 3) -> dict[tuple[str, ...], float]:
    """Ask what a panel shows at a second of the incident: values by label values, in the order of the labels' names."""
    found = history.at(expanded(expression, node_name(node)), START.timestamp() + second)
    return {tuple(value for _, value in sorted(each["metric"].items())): float(each["value"][1]) for each in found}


# Each query.


@pytest.mark.real
@pytest.mark.parametrize("expression", _TARGETS)
def test_each_query_has_an_answer_at_some_time_of_the_incident(history: Prometheus, expression: str) -> None:
    found = history.over(expanded(expression, node_name(STORY)), START.timestamp(), END, _STEP)
    shown = [float(value) for line in found for _, value in line["values"]]
    assert any(math.isfinite(value) for value in shown)


@pytest.mark.parametrize("expression", _TARGETS)
def test_each_query_asks_for_metrics_and_labels_that_are_there(incident: Incident, expression: str) -> None:
    known = exposed(incident) | {"up": set()}
    wanted = asked(expression)
    assert wanted.metrics.keys() <= known.keys()
    labels = TARGET_LABELS | {"exported_instance"}
    assert not {label for name, matched in wanted.metrics.items() for label in matched - known[name] - labels}
    assert wanted.labels <= labels.union(*(known[name] for name in wanted.metrics))
    for metric in wanted.metrics:  # every selector heeds the variables
        assert len(re.findall(rf"\b{metric}\b", expression)) == len(
            re.findall(rf'\b{metric}{{cluster=~"\$cluster",namespace=~"\$namespace"', expression)
        )


@pytest.mark.pure
def test_each_metric_of_either_program_is_on_some_dashboard() -> None:
    exposed_in_docs = set(re.findall(r"(?m)^\| ((?:chipwarden|problem)_\w+) \|", _reference()))
    shown = {
        re.sub("_bucket$", "", metric)
        for _, panel in _PANELS
        for each in panel["targets"]
        for metric in asked(each["expr"]).metrics
    }
    assert exposed_in_docs - shown == set()


def _reference() -> str:
    return (_REPOSITORY / "docs" / "reference.md").read_text(encoding="utf-8")


# What they show of the incident.


@pytest.mark.real
def test_the_table_of_faulty_nodes_names_node_reason_class_advice_and_time(history: Prometheus) -> None:
    found = history.at(expanded(_expression("fleet", "Faulty now"), ""), START.timestamp() + 640)
    rows = {each["metric"]["node"]: (each["metric"], float(each["value"][1]) / 1000) for each in found}
    assert len(rows) == 12
    labels, since = rows[node_name(3)]
    assert (labels["reason"], labels["fault_class"], labels["action"]) == (DMA, "dead", "replace")
    assert 600 <= since - START.timestamp() <= 640
    assert {labels["reason"] for node, (labels, _) in rows.items() if node != node_name(3)} == {HANG}


@pytest.mark.real
def test_the_fleet_shows_who_is_faulty_blind_down_and_in_whose_hands(history: Prometheus) -> None:
    def one(title: str, second: float) -> float:
        (value,) = _at(history, second, _expression("fleet", title)).values()
        return value

    assert [one("Faulty nodes", second) for second in (300, 660, 7200)] == [0, 12, 4]
    assert [one("Nodes watched", second) for second in (300, 3400)] == [20, 18]  # one is away for a replacement
    assert [one("Down or blind", second) for second in (300, 3200, 3450, 4500)] == [0, 1, 2, 0]
    assert [one("Being replaced", second) for second in (300, 2000)] == [0, 1]
    assert [one("Breakers tripped", second) for second in (300, 7200)] == [0, 1]
    assert [one("Paused", second) for second in (300, 5000)] == [0, 1]
    assert one("Recovery leads", 300) == 1
    assert _at(history, 7200, _expression("fleet", "Would be done, were recovery on")) == {("replace",): 1}
    assert _at(history, 3500, _expression("fleet", "Replacements that do not come")) == {("trn1-b", "capacity"): 1}
    assert _at(history, 5000, _expression("fleet", "Blocked, by reason"))["Paused",] >= 1
    assert _at(history, 7200, _expression("fleet", "Faulty nodes by reason")) == {(DMA,): 4}


@pytest.mark.real
def test_a_node_shows_its_fault_its_losses_and_its_refusals(history: Prometheus) -> None:
    conditions = _expression("node", "Conditions")
    assert _at(history, 590, conditions) == {("NeuronHasError",): 0}
    assert _at(history, 660, conditions) == {("NeuronHasError",): 1}
    assert _at(history, 3300, _expression("node", "Conditions", 1), STORY) == {(): 2}
    assert _at(history, 3900, _expression("node", "Conditions", 1), STORY) == {(): 0}
    assert _at(history, 7200, _expression("node", "Conditions", 2), STORY) == {(DMA,): 1, (HANG,): 0}
    assert _at(history, 2490, _expression("node", "Lost records and overruns"), STORY)[()] > 400
    assert _at(history, 2490, _expression("node", "Malformed records and foreign lines"), STORY)[()] > 0
    assert 15 < _at(history, 300, _expression("node", "Records read"))[()] * 30 < 60
    assert ("403", "PATCH") in _at(history, 4600, _expression("node", "Requests to the API server"), STORY)
    assert 0.005 < _at(history, 900, _expression("node", "From the line to the API server's answer"))[()] < 0.02


# How they are made.


@pytest.mark.pure
@pytest.mark.parametrize("name", _BOARDS)
def test_a_dashboard_can_be_imported_anywhere(name: str) -> None:
    board = _BOARDS[name]
    assert board["schemaVersion"] >= 39
    assert board["uid"] == f"chipwarden-{name}"
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster", "namespace", "node"][: len(variables)]
    assert variables["datasource"]["type"] == "datasource"
    for variable in variables.values():
        assert variable["name"] == "datasource" or variable["datasource"]["uid"] == "${datasource}"
    for panel in board["panels"]:
        if panel["type"] != "row":
            sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
            assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.pure
@pytest.mark.parametrize("name", _BOARDS)
def test_panels_do_not_lie_upon_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in _BOARDS[name]["panels"]:
        grid = panel["gridPos"]
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & taken, panel["title"]
        assert grid["x"] + grid["w"] <= 24
        taken |= cells


@pytest.mark.pure
@pytest.mark.parametrize(("name", "panel"), _PANELS, ids=lambda each: each if isinstance(each, str) else each["title"])
def test_each_panel_says_what_it_means(name: str, panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 20, name
    assert panel["description"].endswith(".")
    for page in re.findall(r"[Rr]unbooks? ([a-z-]+)", panel["description"]):
        assert (_REPOSITORY / "docs" / "runbooks" / f"{page}.md").exists(), page


@pytest.mark.pure
@pytest.mark.parametrize("name", _BOARDS)
def test_links_lead_to_the_other_dashboard(name: str) -> None:
    text = json.dumps(_BOARDS[name])
    uids = {board["uid"] for board in _BOARDS.values()}
    assert set(re.findall(r"/d/([a-z-]+)", text)) == uids - {_BOARDS[name]["uid"]}


@pytest.mark.pure
@pytest.mark.parametrize("name", _BOARDS)
def test_there_is_a_picture_that_says_how_it_was_made(name: str) -> None:
    picture = (_REPOSITORY / "docs" / "pictures" / f"{name}.svg").read_bytes()
    assert len(picture) < 200_000
    text = picture.decode()
    assert "not a Grafana screenshot" in text
    for panel in _BOARDS[name]["panels"]:
        assert f">{panel['title'][:14]}" in text.replace("&amp;", "&"), panel["title"]
