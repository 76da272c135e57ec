"""`replay`: a recorded kernel log, in every shape that people keep, through the real command."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from detector.__main__ import main
from runtime.vocabulary import SHIPPED_RULE_SETS
from tests.detector.process import chipwarden, command, environment, neuron_line

FIELD_LINES = Path(__file__).parents[1] / "data" / "kmsg_lines.jsonl"
OURS, THEIRS = "i-0a1b2c3d4e5f60718", "i-0ffffffffffffffff"
DMA = neuron_line("DMA_ERROR", OURS, device=11, core=1, serial="beef")
ALL_SETS = [part for name in SHIPPED_RULE_SETS for part in ("--rules", name)]


class Replay:
    """Runs the command in this process on a log written to a file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file = folder / "recorded"
        self._capsys = capsys

    def __call__(self, log: str | bytes, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        """Replay a log: the exit code and what was found."""
        self._file.write_bytes(log.encode() if isinstance(log, str) else log)
        code = main(["replay", str(self._file), "--output", "json", *arguments])
        out, err = self._capsys.readouterr()
        assert err == ""
        return code, [json.loads(line) for line in out.splitlines()]

    def found(self, log: str | bytes, *arguments: str) -> list[tuple[int, str]]:
        """Replay a log: numbers of the lines and reasons."""
        return [(match["line"], match["reason"]) for match in self(log, *arguments)[1]]


@pytest.fixture
def replay(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Replay:
    for name in [name for name in os.environ if name.startswith("CHIPWARDEN_")]:
        monkeypatch.delenv(name)
    return Replay(tmp_path, capsys)


def test_all_lines_of_the_field_get_their_verdict(replay: Replay) -> None:
    lines = [json.loads(text) for text in FIELD_LINES.read_text().splitlines()]
    assert len(lines) == 144
    log = "".join(line["line"] + "\n" for line in lines)
    code, matches = replay(log, *ALL_SETS)
    faulty = {match["line"] for match in matches if match["condition"]}
    wrong = [line["id"] for n, line in enumerate(lines, 1) if line["match"] not in (None, n in faulty)]
    assert wrong == []
    assert code == 1


def test_json_has_the_keys_of_the_contract(replay: Replay) -> None:
    code, matches = replay(f"3,1,2,-;{DMA}\n")
    assert code == 1
    assert matches == [
        {
            "line": 1,
            "reason": "NeuronHasError_DMA_ERROR",
            "condition": "NeuronHasError",
            "faultClass": "dead",
            "action": "replace",
            "ruleSet": "neuron",
            "details": {
                "instance-id": OURS,
                "hostname": "ip-10-0-0-1",
                "nd-id": "11",
                "nc-id": "1",
                "serial-num": "beef",
                "action": "TERMINATE_INSTANCE",
            },
            "text": DMA,
        }
    ]
    assert list(matches[0]) == ["line", "reason", "condition", "faultClass", "action", "ruleSet", "details", "text"]


def test_a_temporary_rule_has_no_condition_and_is_no_failure(replay: Replay) -> None:
    code, (match,) = replay(neuron_line("NEW_CODE", OURS))
    assert (code, match["condition"], match["reason"]) == (0, None, "NeuronHasError_OTHER")


def test_text_is_for_people_and_the_sum_goes_to_standard_error() -> None:
    done = chipwarden("replay", "-", given=f"usb 1-1: nothing\n{DMA}\n{neuron_line('NEW', OURS)}\n".encode())
    assert done.returncode == 1
    first, quoted, second, _ = done.stdout.splitlines()
    assert first.startswith("     2  NeuronHasError_DMA_ERROR  NeuronHasError=True (dead, replace)  instance-id=")
    assert quoted == f"        {DMA}"
    assert second.startswith("     3  NeuronHasError_OTHER  Event only  ")
    assert done.stderr == "3 lines, 2 matches, 1 of them with a condition\n"


def test_the_same_line_is_told_each_time(replay: Replay) -> None:
    assert [number for number, _ in replay.found(f"{DMA}\n" * 3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[   12.345678] ",
        "[12345.678901] [T4242] ",
        "[  +0.000012] ",
        "[Nov29 10:15] ",
        "[Sun Nov 29 10:15:30 2026] ",
        "2026-11-29T10:15:30,123456+00:00 ",
        "<3>[   12.345678] ",
        "<3>",
        "kern  :err   : [   12.345678] ",
        "user  :err   : [   12.345678] ",
        "Nov 29 10:15:30 ip-10-0-0-1 kernel: ",
        "Nov 29 10:15:30 ip-10-0-0-1 kernel: [   12.345678] ",
        "2026-11-29T10:15:30.123456+00:00 ip-10-0-0-1 kernel: ",
        "3,48213,1718549701,-;",
        "11,48213,1718549701,-;",
        "3,48213,1718549701,-,caller=T4242;",
    ],
)
def test_every_usual_prefix_is_seen_through(replay: Replay, prefix: str) -> None:
    _, (match,) = replay(prefix + DMA + "\n")
    assert match["reason"] == "NeuronHasError_DMA_ERROR"
    assert match["text"] == DMA


@pytest.mark.parametrize("prefix", ["27,1,2,-;", "<27>[   12.345678] ", "daemon:err   : [   12.345678] "])
def test_lines_of_log_daemons_do_not_count(replay: Replay, prefix: str) -> None:
    assert replay(prefix + DMA + "\n") == (0, [])


def test_lines_of_people_do_not_count_with_kernel_only(replay: Replay) -> None:
    log = f"11,1,2,-;{DMA}\n3,2,2,-;{DMA}\n"
    assert [number for number, _ in replay.found(log)] == [1, 2]
    assert [number for number, _ in replay.found(log, "--kernel-only")] == [2]


def test_dictionary_lines_belong_to_their_record_and_keep_their_numbers(replay: Replay) -> None:
    log = f"3,1,2,-;{DMA}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:a0:1e.0\n3,2,2,-;{DMA}\n"
    assert [number for number, _ in replay.found(log)] == [1, 4]


def test_a_dictionary_line_is_no_text(replay: Replay) -> None:
    assert replay.found("3,1,2,-;usb\n DEVICE=NEURON_HW_ERR=DMA_ERROR \n") == []


def test_an_escaped_newline_before_the_code_is_one_line_and_matches(replay: Replay) -> None:
    assert len(replay.found(f"3,48221,1718549709,-;a\\x0a\\x09{DMA}\n")) == 1


def test_a_backslash_before_the_code_does_not_match(replay: Replay) -> None:
    assert replay.found("3,48222,1718549710,-;path C:\\x5cNEURON_HW_ERR=DMA_ERROR \n") == []


def test_other_instances_count_unless_ours_is_named(replay: Replay) -> None:
    log = f"{DMA}\n{neuron_line('DMA_ERROR', THEIRS)}\n"
    assert [number for number, _ in replay.found(log)] == [1, 2]
    assert [number for number, _ in replay.found(log, "--instance-id", OURS)] == [1]


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b"\n\n\n",
        b"\0" * 5_000,
        b"\xff\xfe\r\n\x80",
        b"a" * 3_000_000,
        b",,,;;;\n" * 100,
        b"3,1,2,-;" + b"\\x" * 1_000,
        b"3,99999999999999999999999,1,-;x\n",
        b" SUBSYSTEM=pci\n",
        b"\x1b[31mred\x1b[0m\n",
        os.urandom(20_000),
    ],
)
def test_garbage_is_judged_and_does_no_harm(replay: Replay, log: bytes) -> None:
    assert replay(log) == (0, [])
    code, matches = replay(log + b"\n" + DMA.encode())
    assert (code, len(matches)) == (1, 1)


def test_windows_line_ends_are_no_part_of_the_text(replay: Replay) -> None:
    assert replay(f"{DMA}\r\n")[1][0]["text"] == DMA


def test_text_that_would_move_the_cursor_is_made_harmless() -> None:
    done = chipwarden("replay", "-", given=b"\x1b]0;title\x07\x1b[2J NEURON_HW_ERR=DMA_ERROR \n")
    assert done.returncode == 1
    assert done.stdout.isprintable() or all(c.isprintable() or c == "\n" for c in done.stdout)


def test_a_file_is_read_like_standard_input(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(f"{DMA}\n")
    assert chipwarden("replay", log).returncode == 1


@pytest.mark.parametrize("path", ["/nowhere", "/", "/proc/self/mem"])
def test_a_log_that_cannot_be_read_is_told_in_one_sentence(path: str) -> None:
    done = chipwarden("replay", path)
    assert done.returncode == 2
    (told,) = done.stderr.splitlines()
    assert told.startswith(f"chipwarden-detector: {path}: cannot be read: ")


def shell(script: str, log: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run replay inside a line of shell, where it is called `"$@"`."""
    line = ["bash", "-o", "pipefail", "-c", script, "bash", *command("replay", *arguments)]
    return subprocess.run(line, input=log.encode(), capture_output=True, env=environment(), timeout=20, check=False)


@pytest.mark.parametrize("count", [1, 5_000])
def test_a_reader_that_leaves_ends_it_quietly(count: int) -> None:
    done = shell('"$@" | head -n 1', f"{DMA}\n" * count, "-", "--output", "json")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == b""


def test_closed_output_does_not_change_the_verdict() -> None:
    done = shell('"$@" >&- 2>&-', f"{DMA}\n", "-")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


def test_closed_input_is_refused_in_one_sentence() -> None:
    done = shell('"$@" <&-', "", "-")
    assert (done.returncode, done.stderr) == (2, b"chipwarden-detector: -: standard input is closed\n")


def on_a_terminal(*arguments: str) -> str:
    """Run replay with a terminal as its output."""
    ours, theirs = pty.openpty()
    log = f"{DMA}\n{neuron_line('NEW', OURS)}\n".encode()
    subprocess.run(
        command("replay", "-", *arguments), input=log, stdout=theirs, env=environment(), timeout=20, check=False
    )
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    return shown


def test_colours_are_for_terminals() -> None:
    assert "\033[31m" in on_a_terminal()
    assert "\033" not in on_a_terminal("--output", "json")


def test_a_rule_file_of_ones_own_is_used(replay: Replay, tmp_path: Path) -> None:
    rules = tmp_path / "own.yaml"
    rules.write_text(
        "apiVersion: chipwarden.io/v1\nkind: RuleSet\nmetadata: {name: own}\n"
        "rules: [{reason: Own, pattern: 'chip (?P<chip>[0-9]+) broke'}]\n"
    )
    _, (match,) = replay("chip 7 broke\n", "--rules", str(rules))
    assert (match["ruleSet"], match["details"]) == ("own", {"chip": "7"})


def test_rules_of_several_sets_are_told_one_by_one(replay: Replay, tmp_path: Path) -> None:
    rules = tmp_path / "own.yaml"
    rules.write_text(
        "apiVersion: chipwarden.io/v1\nkind: RuleSet\nmetadata: {name: own}\n"
        "rules: [{reason: Own, pattern: DMA_ERROR}]\n"
    )
    _, matches = replay(DMA, "--rules", "neuron", "--rules", str(rules))
    assert [match["ruleSet"] for match in matches] == ["neuron", "own"]
