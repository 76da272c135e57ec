"""One line per log record: JSON in a container, text on a terminal, on the standard library's logging.

An event is a constant text and everything that varies is a field, so that a search for the event finds every case of
it. Much of what is logged comes from outside (kernel lines, answers of servers), and a log must never harm its program:
no value can break a line, and a reader that went away or does not keep up costs lines, never an exception or a wait.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import select
import sys
import time
import traceback
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TextIO

FORMATS: Final = ("auto", "json", "text")
LEVELS: Final = ("debug", "info", "warning", "error")
MAX_VALUE_CHARACTERS: Final = 2_048
MAX_LINE_CHARACTERS: Final = 32_768

_OURS: Final = "chipwarden"  # the parent of all our loggers: libraries below it are only heard from warning up
_RESERVED: Final = frozenset({"time", "level", "logger", "event", "error", "traceback", "lines_dropped"})
_MAX_TRACEBACK_CHARACTERS: Final = 8_192
_MAX_KEY_CHARACTERS: Final = 64
_MAX_ITEMS: Final = 32
_MAX_DEPTH: Final = 2
_PATIENCE_MS: Final = 20  # how long a line waits for a full pipe, once: while lines are being dropped none waits
_SHORT_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_BARE = re.compile(r'[^\s"=\\]+')

_Plain = str | int | float | bool | None | list["_Plain"] | dict[str, "_Plain"]


class Log:
    """Writes events with fields: `log.info("kernel log overrun", lost=3)`.

    The event is constant text; a value in it would hide the event from every search. An exception is given as
    `error=...`: it is written on one line, with its traceback when the level is debug. Nothing here raises.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{_OURS}.{name}")

    def debug(self, event: str, /, **fields: object) -> None:
        """Write what only a developer looks for."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Write a normal event of the program's life."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Write what an operator may have to look at, while the program goes on as designed."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Write what failed and needs somebody."""
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """Write an error together with the exception being handled."""
        self._write(logging.ERROR, event, {"error": sys.exception()} | fields)

    def _write(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


def get(name: str) -> Log:
    """Make the log of a module.

    Args:
        name: the module's `__name__`; it becomes the field `logger`.
    """
    return Log(name)


def setup(*, log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Send all log records to one stream; a second call replaces the first.

    Our own loggers get the level asked for; libraries never get below warning, because at debug level HTTP clients
    print whole answers, and with them secrets.

    Args:
        log_format: json, text, or auto: text if the stream is a terminal, else json.
        level: debug, info, warning or error.
        stream: None means standard error. Lines go to its file descriptor, if it has one, past its buffer.

    Raises:
        ValueError: an unknown format or level; the message says what is allowed.
    """
    if log_format not in FORMATS:
        raise ValueError(f"{log_format!r} is not a log format (allowed: {', '.join(FORMATS)})")
    if level not in LEVELS:
        raise ValueError(f"{level!r} is not a log level (allowed: {', '.join(LEVELS)})")
    target = sys.stderr if stream is None else stream
    as_text = log_format == "text" or (log_format == "auto" and _is_terminal(target))
    threshold = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _LineHandler)]:
        root.removeHandler(old)
    root.addHandler(_LineHandler(_Sink(target), as_text=as_text, tracebacks=threshold <= logging.DEBUG))
    root.setLevel(max(threshold, logging.WARNING))
    logging.getLogger(_OURS).setLevel(threshold)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


class _LineHandler(logging.Handler):
    """Turns a record into one line and hands it to the sink; whatever fails on the way costs only that line."""

    def __init__(self, sink: _Sink, *, as_text: bool, tracebacks: bool) -> None:
        super().__init__()
        self._sink = sink
        self._line = _text_line if as_text else _json_line
        self._tracebacks = tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):  # a log line is never worth an exception in its caller
            fields = _fields(record, tracebacks=self._tracebacks)
            if self._sink.dropped:
                fields["lines_dropped"] = self._sink.dropped
            line = self._line(record, fields)
            if len(line) > MAX_LINE_CHARACTERS:
                line = self._line(record, {"fields_left_out": f"{len(line)} characters are too long for one line"})
            self._sink.write(line)


class _Sink:
    """Puts whole lines into a stream and drops what the other end does not take."""

    def __init__(self, stream: TextIO | None) -> None:
        self.dropped = 0
        self._torn = False
        self._stream = stream
        self._descriptor: int | None = None
        self._poll = select.poll()
        with contextlib.suppress(AttributeError, OSError, ValueError):  # a stream in memory has no descriptor
            self._descriptor = stream.fileno() if stream is not None else None
        if self._descriptor is not None:
            self._poll.register(self._descriptor, select.POLLOUT)

    def write(self, line: str) -> None:
        try:
            if self._descriptor is not None:
                self._write_bytes(self._descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
            elif self._stream is not None:
                self._stream.write(f"{line}\n")
                self._stream.flush()
        except (OSError, ValueError):  # nobody reads, or too slowly
            self.dropped += 1
        else:
            self.dropped = 0

    def _write_bytes(self, descriptor: int, line: bytes) -> None:
        # A pipe that poll reports as writable takes PIPE_BUF bytes without blocking, whoever opened it and how.
        rest = memoryview(b"\n" + line if self._torn else line)
        patience_ms = 0 if self.dropped else _PATIENCE_MS
        while rest:
            if not self._poll.poll(patience_ms):
                raise TimeoutError
            rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]
            self._torn = bool(rest)


def _json_line(record: logging.LogRecord, fields: Mapping[str, _Plain]) -> str:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    head = {
        "time": when.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name.removeprefix(f"{_OURS}."),
        "event": _event(record),
    }
    return json.dumps(head | dict(fields), allow_nan=False, separators=(",", ":"))


def _text_line(record: logging.LogRecord, fields: Mapping[str, _Plain]) -> str:
    # Local time: whoever sits at the terminal has a clock there.
    when = time.strftime("%H:%M:%S", time.localtime(record.created))
    level = _SHORT_LEVELS.get(record.levelname, record.levelname)
    event = _event(record)
    head = f"{when} {level:<5} {event if event.isprintable() else json.dumps(event)}"
    return "  ".join([head, " ".join(f"{_shown(key)}={_shown(value)}" for key, value in fields.items())]).rstrip()


def _shown(value: _Plain) -> str:
    """Quote a value, unless it is one printable word."""
    if not isinstance(value, str) or not value.isprintable():
        return json.dumps(value)
    return value if _BARE.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def _event(record: logging.LogRecord) -> str:
    try:
        return _cut(record.getMessage())
    except Exception:  # noqa: BLE001 - a library's arguments do not fit its text: the text alone still says something
        return _cut(str(record.msg))


def _fields(record: logging.LogRecord, *, tracebacks: bool) -> dict[str, _Plain]:
    given = getattr(record, "fields", None)
    rest = dict(given) if isinstance(given, Mapping) else {}
    fields: dict[str, _Plain] = {}
    error = rest.pop("error", record.exc_info[1] if record.exc_info else None)
    if error is not None:
        fields["error"] = _guarded(error)
    if tracebacks and isinstance(error, BaseException):
        fields["traceback"] = _cut("".join(traceback.format_exception(error, limit=-10)), _MAX_TRACEBACK_CHARACTERS)
    for key, value in rest.items():
        fields[_free_key(key, fields)] = _guarded(value)
    return fields


def _free_key(key: object, taken: Mapping[str, _Plain]) -> str:
    name = _cut(str(key), _MAX_KEY_CHARACTERS)
    while name in _RESERVED or name in taken:
        name += "_"
    return name


def _guarded(value: object) -> _Plain:
    try:
        return _plain(value)
    except Exception:  # noqa: BLE001 - a value whose own methods raise must not cost the line
        return f"<{type(value).__name__} that cannot be written>"


def _plain(value: object, depth: int = 0) -> _Plain:
    """Reduce a value to what JSON can hold, bounded in every direction."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray) and depth < _MAX_DEPTH:
        return _items(value, depth + 1)
    return _cut(_text(value))


def _items(values: Collection[object], depth: int) -> _Plain:
    more = len(values) - _MAX_ITEMS
    mark = f"... ({more} more)"
    if isinstance(values, Mapping):
        named = {_cut(str(key)): _plain(item, depth) for key, item in islice(values.items(), _MAX_ITEMS)}
        return named | {mark: None} if more > 0 else named
    listed = [_plain(item, depth) for item in islice(values, _MAX_ITEMS)]
    return [*listed, mark] if more > 0 else listed


def _text(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, BaseException):
        return " ".join(f"{type(value).__name__}: {value}".split())
    return str(value)


def _number(value: float) -> _Plain:
    if isinstance(value, int):
        return int(value) if abs(value) < 2**63 else hex(value)[:MAX_VALUE_CHARACTERS]
    return float(value) if math.isfinite(value) else str(value)


def _cut(text: str, limit: int = MAX_VALUE_CHARACTERS) -> str:
    kept = text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} characters more)"
    # Halves of surrogate pairs have no UTF-8 form; JSON readers refuse or change them.
    return kept if kept.isascii() else kept.encode("utf-8", "backslashreplace").decode()
