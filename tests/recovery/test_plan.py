"""What `plan` and `ledger` print, for people and for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.decision import Decision, Snapshot, Why
from recovery.model import Entry, LedgerBody, Outcome, State
from recovery.plan import is_complete, ledger_json, ledger_text, plan_json, plan_text
from recovery.table import table, when
from runtime.vocabulary import Action, FaultClass

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
DMA = "NeuronHasError_DMA_ERROR"


def decision(node: str, decided: str, why: Why, **more: object) -> Decision:
    given = {
        "node": node,
        "group": "trn1",
        "reason": DMA,
        "fault_class": FaultClass.DEAD,
        "action": Action.REPLACE,
        "state": None,
        "decision": decided,
        "why": why,
        "detail": "",
        "until": None,
        "would": False,
    }
    return Decision(**(given | more))  # type: ignore[arg-type] # the names are checked by msgspec


PLAN = Snapshot(
    at=NOW,
    leader=True,
    observations={"healthy": 14, "faulty": 2},
    decisions=(
        decision("n1", "admitted", Why.STEP_TAKEN, state=State.FENCED),
        decision(
            "n2",
            "blocked",
            Why.MAX_PER_GROUP,
            detail="1 of 1 open entries in trn1: n1",
            until=NOW + timedelta(minutes=4, seconds=10),
        ),
        decision("n3", "fenced", Why.STEP_TAKEN, would=True, group=""),
    ),
    budget_remaining={"": 2, "trn1": 0},
    breaker_tripped={"NeuronHasError_HBM_UNCORRECTABLE_ERROR": True, DMA: False},
    ledger=LedgerBody(blocked_groups={"trn9": "RecursAfterReplacement: it recurs"}),
)


def test_a_plan_names_each_node_with_what_is_done_what_blocks_it_and_until_when() -> None:
    lines = plan_text(PLAN).splitlines()
    (head,) = [line for line in lines if line.startswith("NODE")]
    assert head.split() == ["NODE", "GROUP", "REASON", "CLASS", "ACTION", "STATE", "NOW", "BECAUSE", "UNTIL", "DETAIL"]
    (one,) = [line for line in lines if line.startswith("n1")]
    assert one.split() == ["n1", "trn1", DMA, "dead", "replace", "fenced", "admitted", "StepTaken", "-", "-"]
    (two,) = [line for line in lines if line.startswith("n2")]
    assert "blocked" in two
    assert two.endswith("MaxPerGroup  in 4m10s  1 of 1 open entries in trn1: n1")
    (three,) = [line for line in lines if line.startswith("n3")]
    assert "would fenced" in three


def test_a_plan_tells_the_budget_the_breakers_and_how_to_end_a_block() -> None:
    text = plan_text(PLAN)
    assert "budget: 2 more in all\nbudget: 0 more of trn1\n" in text
    assert "reset-breaker NeuronHasError_HBM_UNCORRECTABLE_ERROR" in text
    assert f"breaker of {DMA}" not in text
    assert "group trn9 is blocked (RecursAfterReplacement: it recurs): chipwarden-recovery resume --group trn9" in text
    assert "nodes: 14 healthy, 2 faulty" in text


def test_a_plan_without_faults_says_so() -> None:
    text = plan_text(Snapshot(at=NOW, observations={"healthy": 16}, budget_remaining={"": 3}))
    assert "no node has a fault that something would be done about" in text


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (Snapshot(at=NOW, source="NeedsPrometheus: 812 nodes"), "blind: NeedsPrometheus: 812 nodes"),
        (Snapshot(at=NOW, trouble="the ledger cannot be read"), "incomplete: the ledger cannot be read"),
        (Snapshot(at=NOW, paused="by hand"), "paused: by hand"),
    ],
)
def test_a_plan_says_first_what_stands_above_all_nodes(snapshot: Snapshot, words: str) -> None:
    assert plan_text(snapshot).splitlines()[0] == words


def test_a_blind_plan_does_not_say_that_nothing_is_wrong() -> None:
    assert "no node has a fault" not in plan_text(Snapshot(at=NOW, source="detector pods cannot be listed"))


def test_a_plan_names_blind_nodes_and_why_and_never_says_that_they_have_no_fault() -> None:
    blind = {f"n{number:02}": "connection refused\x1b[2J" for number in range(22)}
    text = plan_text(Snapshot(at=NOW, observations={"blind": 22}, blind=blind))
    lines = text.splitlines()
    assert lines[0] == "blind: n00: connection refused?[2J"
    assert lines[19:21] == ["blind: n19: connection refused?[2J", "blind: 2 more"]
    assert "no node has a fault" not in text
    assert "no node that can be seen has a fault that something would be done about" in lines
    assert json.loads(plan_json(Snapshot(at=NOW, blind=blind)))["blind"] == blind


@pytest.mark.parametrize("part", [{"blind": {"n1": "refused"}}, {"source": "none"}, {"trouble": "no ledger"}])
def test_a_plan_is_complete_only_if_everything_could_be_seen(part: dict[str, Any]) -> None:
    assert is_complete(Snapshot(at=NOW))
    assert not is_complete(Snapshot(at=NOW, **part))


def test_a_plan_for_programs_has_everything() -> None:
    plan = json.loads(plan_json(PLAN))
    assert plan["at"] == "2026-11-29T12:00:00Z"
    assert (plan["budgetRemainingInAll"], plan["budgetRemaining"]) == (2, {"trn1": 0})
    assert plan["blockedGroups"] == {"trn9": "RecursAfterReplacement: it recurs"}
    assert plan["nodes"][1] == {
        "node": "n2",
        "group": "trn1",
        "reason": DMA,
        "faultClass": "dead",
        "action": "replace",
        "state": None,
        "decision": "blocked",
        "why": "MaxPerGroup",
        "detail": "1 of 1 open entries in trn1: n1",
        "until": "2026-11-29T12:04:10Z",
        "would": False,
    }


ENTRY = Entry(
    id="1",
    node="n1",
    uid="u",
    instance="i-0123456789abcdef0",
    group="trn1",
    reason=DMA,
    class_=FaultClass.DEAD,
    action=Action.REPLACE,
    state=State.TERMINATING,
    added=("cordon", "taint"),
    kind="capacity",
    admitted_at=NOW - timedelta(hours=1, minutes=2),
    updated_at=NOW - timedelta(seconds=30),
)


def test_the_ledger_shows_what_is_open_what_came_of_the_rest_and_what_would_be_done() -> None:
    import msgspec

    closed = msgspec.structs.replace(ENTRY, id="2", node="n2", state=State.REPLACED, outcome=Outcome.REPLACED)
    would = msgspec.structs.replace(ENTRY, id="3", node="n3", state=State.ADMITTED, would=True, kind=None)
    body = LedgerBody(
        entries=(ENTRY, closed, would), tripped={DMA: NOW - timedelta(days=2)}, blocked_groups={"trn9": "it recurs"}
    )
    lines = ledger_text(body, "by hand", NOW).splitlines()
    assert lines[:3] == [
        "paused: by hand",
        f"breaker of {DMA} tripped 2d ago (2026-11-27 12:00:00Z)",
        "group trn9 is blocked: it recurs",
    ]
    one, two, three = lines[4:]
    assert one.split()[4:7] == ["terminating", "open", "capacity"]
    assert "cordon, taint  1h2m ago  30s ago" in one
    assert two.split()[4:6] == ["replaced", "replaced"]
    assert "would be admitted" in three


def test_a_ledger_that_is_missing_or_empty_is_told_apart() -> None:
    assert "there is no ledger yet" in ledger_text(None, None, NOW)
    assert ledger_text(LedgerBody(), None, NOW) == "the ledger has no entries\n"


def test_the_ledger_for_programs_is_the_one_that_is_stored() -> None:
    shown = json.loads(ledger_json(LedgerBody(entries=(ENTRY,)), None))
    assert shown["paused"] is None
    assert shown["ledger"]["v"] == 1
    assert shown["ledger"]["entries"][0]["class"] == "dead"
    assert json.loads(ledger_json(None, "by hand")) == {"paused": "by hand", "ledger": None}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0s ago"),
        (5, "in 5s"),
        (-5, "5s ago"),
        (250, "in 4m10s"),
        (-3 * 3600 - 12 * 60 - 7, "3h12m ago"),
        (2 * 86400, "in 2d"),
        (3600, "in 1h"),
    ],
)
def test_times_are_written_as_distances(seconds: int, words: str) -> None:
    assert when(NOW + timedelta(seconds=seconds), NOW) == words


def test_no_time_is_nothing() -> None:
    assert when(None, NOW) == ""


@given(st.lists(st.tuples(st.text(), st.text(), st.text())))
def test_no_text_breaks_a_table(rows: list[tuple[str, str, str]]) -> None:
    lines = table(("A", "B", "C"), rows).split("\n")
    assert len(lines) == len(rows) + 2
    assert all(line.isprintable() for line in lines)
