from __future__ import annotations

import io
import json
import logging
import os
import pty
import subprocess
import sys
import time
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import logs

LOG = logs.get("detector.agent")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.characters()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
HOSTILE = 'x\n{"level":"error"}\r\x00\x1b[31m\u2028\u202e\udcff"='


def lines_of(stream: io.StringIO) -> list[str]:
    return stream.getvalue().split("\n")[:-1]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def decoded(line: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(line, parse_constant=refuse)
    return value


def written(event: str = "something happened", log_format: str = "json", /, **fields: Any) -> str:
    stream = io.StringIO()
    logs.setup(log_format=log_format, level="info", stream=stream)
    LOG.info(event, **fields)
    (line,) = lines_of(stream)
    return line


def test_record_becomes_one_json_line_with_its_fields() -> None:
    line = decoded(written("kernel log overrun", lost=3, source="/dev/kmsg", up=True, rate=0.5, last=None))
    when = line.pop("time")
    assert when.endswith("Z")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(when)).total_seconds()) < 5
    assert len(when) == len("2026-11-29T10:15:30.123Z")
    assert line == {
        "level": "info",
        "logger": "detector.agent",
        "event": "kernel log overrun",
        "lost": 3,
        "source": "/dev/kmsg",
        "up": True,
        "rate": 0.5,
        "last": None,
    }


def test_levels_below_the_one_asked_for_stay_quiet() -> None:
    stream = io.StringIO()
    logs.setup(log_format="json", level="warning", stream=stream)
    LOG.debug("a")
    LOG.info("b")
    LOG.warning("c")
    LOG.error("d")
    assert [decoded(line)["level"] for line in lines_of(stream)] == ["warning", "error"]


def test_library_is_heard_from_warning_up_even_at_level_debug() -> None:
    stream = io.StringIO()
    logs.setup(log_format="json", level="debug", stream=stream)
    LOG.debug("ours")
    logging.getLogger("urllib3").debug("response body: %s", "a secret")
    logging.getLogger("urllib3").warning("retrying %s", "/api")
    assert [decoded(line)["event"] for line in lines_of(stream)] == ["ours", "retrying /api"]


def test_library_record_whose_arguments_do_not_fit_is_still_written() -> None:
    stream = io.StringIO()
    logs.setup(log_format="json", level="info", stream=stream)
    record = logging.LogRecord("library", logging.WARNING, __file__, 1, "%d of %d", ("one",), None)
    logging.getLogger().handlers[-1].handle(record)
    assert decoded(stream.getvalue())["event"] == "%d of %d"


def test_second_setup_replaces_the_first() -> None:
    first = io.StringIO()
    logs.setup(log_format="json", level="info", stream=first)
    assert written()
    assert first.getvalue() == ""


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_hostile_text_cannot_break_the_line(log_format: str) -> None:
    line = written(HOSTILE, log_format, text=HOSTILE, raw=HOSTILE.encode("utf-8", "surrogatepass"))
    assert line.splitlines() == [line]
    assert line.isprintable()
    assert line.encode("utf-8")


def test_hostile_text_is_still_readable_in_json() -> None:
    assert decoded(written(text="a\n\udcff\u00e9"))["text"] == "a\n\\udcff\u00e9"


@given(fields=st.dictionaries(st.text(), VALUES))
def test_any_field_becomes_one_line_of_strict_json(fields: dict[str, Any]) -> None:
    line = written(**fields)
    assert line.isascii()
    assert line.isprintable()
    assert len(decoded(line)) == 4 + len(fields)


@given(fields=st.dictionaries(st.text(), VALUES))
def test_any_field_becomes_one_line_of_text(fields: dict[str, Any]) -> None:
    line = written("something happened", "text", **fields)
    assert line.isprintable()
    assert "INFO  something happened" in line


def test_huge_value_is_cut_with_a_mark() -> None:
    line = decoded(written(text="x" * 5_000, listed=list(range(100)), named=dict.fromkeys(map(str, range(100)))))
    assert line["text"] == "x" * logs.MAX_VALUE_CHARACTERS + "... (2952 characters more)"
    assert line["listed"][-1] == "... (68 more)"
    assert "... (68 more)" in line["named"]


def test_huge_record_keeps_its_event_and_says_what_is_missing() -> None:
    line = decoded(written("big", values=["x" * 2_000] * 30))
    assert line["event"] == "big"
    assert "too long" in line["fields_left_out"]


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Kind(StrEnum):
    DEAD = "dead"


class Code(IntEnum):
    THREE = 3


def test_values_without_a_json_form_are_written_as_text() -> None:
    line = decoded(
        written(broken=Broken(), huge=10**5_000, ratio=float("nan"), kind=Kind.DEAD, code=Code.THREE, names={"a"})
    )
    assert line["broken"] == "<Broken that cannot be written>"
    assert line["huge"].startswith("0x")
    assert (line["ratio"], line["kind"], line["code"], line["names"]) == ("nan", "dead", 3, ["a"])


def test_value_that_contains_itself_is_written() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert decoded(written(loop=loop))["loop"] == [["[[...]]"]]


def test_fields_never_overwrite_reserved_keys() -> None:
    stream = io.StringIO()
    logs.setup(log_format="json", level="info", stream=stream)
    LOG.info("something happened", event_="mine", time=1, level=2, logger=3, event=4, traceback=5)
    line = decoded(stream.getvalue())
    assert (line["level"], line["logger"], line["event"]) == ("info", "detector.agent", "something happened")
    assert (line["time_"], line["level_"], line["logger_"], line["traceback_"]) == (1, 2, 3, 5)
    assert {line["event_"], line["event__"]} == {"mine", 4}


def failure() -> ValueError:
    try:
        int("x\ny")
    except ValueError as error:
        return ValueError(f"first line\nsecond line: {error}")
    raise AssertionError


def test_exception_is_one_line_and_shows_its_traceback_only_at_level_debug() -> None:
    line = decoded(written(error=failure()))
    assert line["error"].startswith("ValueError: first line second line: invalid literal")
    assert "traceback" not in line


def test_traceback_is_a_field_at_level_debug() -> None:
    stream = io.StringIO()
    logs.setup(log_format="json", level="debug", stream=stream)
    try:
        int("x")
    except ValueError as error:
        LOG.warning("failed", error=error)
        LOG.exception("failed too")
        logging.getLogger("library").exception("failed as well")
    assert len(lines_of(stream)) == 3
    for line in map(decoded, lines_of(stream)):
        assert line["error"] == "ValueError: invalid literal for int() with base 10: 'x'"
        assert "test_logs.py" in line["traceback"]


def test_error_text_stays_a_field() -> None:
    assert decoded(written(error="connection refused"))["error"] == "connection refused"


def test_text_line_shows_time_level_event_and_quoted_fields() -> None:
    line = written(
        "something happened", "text", reason="a b", lost=3, path="/dev/kmsg", empty="", names=["x"], quote='"'
    )
    head, rest = line[:8], line[8:]
    time.strptime(head, "%H:%M:%S")
    assert rest == ' INFO  something happened  reason="a b" lost=3 path=/dev/kmsg empty="" names=["x"] quote="\\""'


def test_text_line_without_fields_has_no_trailing_space() -> None:
    assert written("something happened", "text")[8:] == " INFO  something happened"


@pytest.mark.parametrize(
    ("log_format", "level", "named"),
    [("xml", "info", "'xml' is not a log format (allowed: auto, json, text)"), ("json", "loud", "'loud' is not a log")],
)
def test_unknown_format_or_level_is_refused_with_what_is_allowed(log_format: str, level: str, named: str) -> None:
    with pytest.raises(ValueError, match=r"allowed: ") as refused:
        logs.setup(log_format=log_format, level=level)
    assert str(refused.value).startswith(named)


def test_auto_is_text_on_a_terminal_and_json_in_a_pipe() -> None:
    leader, follower = pty.openpty()
    read_end, write_end = os.pipe()
    with os.fdopen(follower, "w") as terminal, os.fdopen(write_end, "w") as pipe:
        for stream in (terminal, pipe):
            logs.setup(log_format="auto", level="info", stream=stream)
            LOG.info("started", version="1")
    assert b" INFO  started  version=1" in os.read(leader, 4_096)
    assert decoded(os.read(read_end, 4_096).decode())["event"] == "started"
    os.close(leader)
    os.close(read_end)


def test_reader_that_went_away_costs_lines_and_nothing_else() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stream:
        logs.setup(log_format="json", level="info", stream=stream)
        for _ in range(1_000):
            LOG.info("unheard")


def test_full_pipe_drops_lines_and_the_next_one_says_how_many() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream, os.fdopen(read_end, "rb", buffering=0) as reader:
        logs.setup(log_format="json", level="info", stream=stream)
        began = time.monotonic()
        for number in range(1_000):
            LOG.info("flood", number=number, text="x" * 1_000)
        assert time.monotonic() - began < 5
        os.set_blocking(read_end, False)
        taken = b"".join(iter(lambda: reader.read(65_536) or b"", b""))
        LOG.info("heard again")
        taken += reader.read(65_536) or b""
    *flood, torn, last = taken.decode().splitlines()
    assert [decoded(line)["number"] for line in flood] == list(range(len(flood)))
    assert decoded(last)["event"] == "heard again"
    assert decoded(last)["lines_dropped"] == 1_000 - len(flood) - (torn.endswith("}"))


def test_line_that_was_torn_by_a_full_pipe_does_not_spoil_the_next() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream, os.fdopen(read_end, "rb", buffering=0) as reader:
        logs.setup(log_format="json", level="info", stream=stream)
        os.write(write_end, b"\n" * 61_440)
        LOG.info("torn", values=["x" * 1_500] * 10)
        os.set_blocking(read_end, False)
        taken = b"".join(iter(lambda: reader.read(65_536) or b"", b""))
        LOG.info("whole")
        taken += reader.read(65_536) or b""
    torn, last = taken.decode().strip().splitlines()
    assert torn.startswith('{"time"')
    assert len(torn) == 4_096
    assert decoded(last)["event"] == "whole"
    assert decoded(last)["lines_dropped"] == 1


def test_stream_that_was_closed_costs_lines_and_nothing_else() -> None:
    stream = io.StringIO()
    logs.setup(log_format="auto", level="info", stream=stream)
    stream.close()
    LOG.info("unheard")
    logs.setup(log_format="auto", level="info", stream=stream)
    LOG.info("unheard")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_program_without_a_usable_standard_error_runs_on(redirection: str) -> None:
    program = "from runtime import logs; logs.setup(log_format='auto', level='info'); logs.get('x').info('y'); print(1)"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, program],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "1\n"
