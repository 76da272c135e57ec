"""`rules check`: good files are described, bad and slow ones refused."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from detector.__main__ import main
from runtime.vocabulary import SHIPPED_RULE_SETS
from tests.detector.builders import rule_file, with_rule, written
from tests.detector.process import chipwarden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Check a file with this content: the exit code, what is told and what is complained of."""

    def run(content: Any, *arguments: str) -> tuple[int, str, str]:
        file = tmp_path / "own.yaml"
        file.write_bytes(content if isinstance(content, bytes) else written(content))
        code = main(["rules", "check", str(file), *arguments])
        out, err = capsys.readouterr()
        return code, out, err.removeprefix(f"chipwarden-detector: {file}: ")

    return run


def test_every_shipped_set_passes_all_at_once() -> None:
    done = chipwarden("rules", "check", *SHIPPED_RULE_SETS)
    assert (done.returncode, done.stderr) == (0, "")
    for name, line in zip(SHIPPED_RULE_SETS, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{name}: ok, ")
        assert "ms per KB of hostile text" in line


def test_json_tells_what_is_in_the_file(check: Callable[..., tuple[int, str, str]]) -> None:
    content = with_rule(examples={"match": ["broken"], "noMatch": ["brok", "en"]})
    code, out, err = check(content, "--output", "json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told.pop("hostileMsPerKb") < 1
    assert told.pop("file").endswith("own.yaml")
    assert told == {"ruleSet": "made", "rules": 1, "conditions": ["ChipHasError"], "examples": 3}


def test_a_set_without_conditions_is_described_as_such(check: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = check(rule_file(conditions=None, rules=[{"reason": "X", "pattern": "x"}]))
    assert code == 0
    assert "1 rules (no condition), 0 examples" in out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty"),
        (b"\xff\xfe\x00", "not UTF-8 at byte 1"),
        (b"rules: [", "line 2, column 1: "),
        (rule_file(kind="Rules"), "Invalid enum value 'Rules' - at `$.kind`"),
        (rule_file(rules=[]), "no rules"),
        (with_rule(faultClass="ded"), "Invalid enum value 'ded' - at `$.rules[0].faultClass`"),
        (with_rule(patern="x"), "unknown field `patern`"),
        (with_rule(pattern="(a"), "rule 0 (ChipBroken): pattern '(a': "),
        (with_rule(pattern="a*"), "rule 0 (ChipBroken): pattern 'a*' matches an empty text"),
        (with_rule(pattern=r"(?=a)"), "rule 0 (ChipBroken): pattern "),
        (with_rule(examples={"match": ["whole"]}), "rule 0 (ChipBroken): does not match its example 'whole'"),
        (with_rule(examples={"noMatch": ["broken"]}), "rule 0 (ChipBroken): matches 'broken', which it must not"),
        (b'{"plugin": "kmsg", "rules": []}', ""),
    ],
)
def test_a_bad_file_is_refused_with_its_name_the_rule_and_the_reason(
    check: Callable[..., tuple[int, str, str]], content: Any, says: str
) -> None:
    code, out, err = check(content)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("pattern", [".{1,1000}q", "(x.{0,500}){2}y", "a.{0,900}b.{0,90}c"])
def test_a_slow_pattern_is_refused_with_its_time_and_what_to_look_for(
    check: Callable[..., tuple[int, str, str]], pattern: str
) -> None:
    code, out, err = check(with_rule(pattern=pattern))
    assert (code, out) == (2, "")
    assert "a hostile text keeps the patterns busy for" in err
    assert "ms per KB (allowed: 1); look for repeated `.*` and large counts" in err


@pytest.mark.parametrize("pattern", ["(a+)+broken", "(a|aa)+b", "(.*)*broken", "^(([a-z])+.)+[A-Z]([a-z])+broken$"])
def test_nested_quantifiers_are_not_slow(check: Callable[..., tuple[int, str, str]], pattern: str) -> None:
    code, _, err = check(with_rule(pattern=pattern))
    assert (code, err) == (0, "")


def test_files_are_checked_together_too(check: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = check(rule_file(metadata={"name": "neuron"}), "neuron")
    assert code == 2
    assert len(out.splitlines()) == 2
    assert "rule set 'neuron' is loaded twice" in err


def test_the_first_bad_file_ends_it(check: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = check(rule_file(), "/nowhere.yaml", "neuron")
    assert code == 2
    assert out.endswith("ms per KB of hostile text\n")
    assert err == "chipwarden-detector: /nowhere.yaml: cannot be read: No such file or directory\n"


def test_a_name_that_is_no_set_is_told_the_sets() -> None:
    done = chipwarden("rules", "check", "neuronn")
    assert done.returncode == 2
    assert done.stderr == (
        "chipwarden-detector: neuronn: no such rule set (allowed: neuron, nvidia, amd, gaudi, efa, "
        "or a path with a / or ending in .yaml, .yml, .json)\n"
    )


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    done = chipwarden("rules", "check", f"{tmp_path}/x.yaml")
    assert done.returncode == 2
    assert done.stderr == f"chipwarden-detector: {tmp_path}/x.yaml: cannot be read: not a regular file\n"


@pytest.mark.parametrize("path", ["/dev/zero", "./tests"])
def test_what_is_no_rule_file_is_refused(path: str) -> None:
    done = chipwarden("rules", "check", path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_detector_refuses_to_start_with_a_bad_file(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_bytes(written(with_rule(pattern="(")))
    done = chipwarden("run", "--rules", file, "--state-dir", tmp_path, "--listen", "127.0.0.1:0")
    assert done.returncode == 2
    assert done.stderr.startswith(f"chipwarden-detector: {file}: rule 0 (ChipBroken): pattern '(': ")
