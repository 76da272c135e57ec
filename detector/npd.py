r"""node-problem-detector's system-log-monitor files to rule sets that behave as they do there. Pure.

Must never guess: a key, plugin or pattern that it does not understand is refused by name.

As there: a pattern ends where the newest message ends, `(?:pattern)\z`; spaces around a message do not count; it is
searched in the last `bufferSize` messages, joined by newlines and filled up with empty ones at the start; `skipList` is
for other plugins; other keys that it knows (`logPath`, `metricsReporting`, ...) need no effect here. Meant to differ:

- Patterns see the unescaped text of a record without its dictionary lines. There they see the escaped text, and the
  dictionary lines of a device print keep most patterns from matching it.
- A pattern that asks for spaces around a message finds them; there they are gone.
- `^` and `\A` match at the start of a record in a file whose patterns all stay within one line. There, and in any other
  file, they match at the start of the oldest kept message only, so that such a rule does not fire.
- Only the kernel and users count, not daemons: our defaults hold for all that the format does not say.

Source: kubernetes/node-problem-detector pkg/systemlogmonitor/{config,log_buffer,log_monitor}.go, types/types.go,
logwatchers/types/log_watcher.go, logwatchers/kmsg/log_watcher_linux.go, pkg/util/helpers.go, and pull request 1338,
which put the group around the pattern (read 2026-11-29).
"""

from __future__ import annotations

import re
import string
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from detector.model import ConditionDefault, ConditionName, Metadata, NonEmpty, NpdRuleSet, Rule
from detector.patterns import PatternError, compile_one, tokens
from runtime.durations import Duration

_DEFAULT_LINES = 10
_MOST_NAME = 63
# Go's time.ParseDuration, https://pkg.go.dev/time#ParseDuration (read 2026-11-29); U+00B5 and U+03BC are both micro.
_SECONDS = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_SECONDS)})")
_LONGEST_SECONDS = 2**63 / 1e9
_STARTS = ("^", r"\A")
_NEWLINES = ("\n", r"\n", r"\s")
_NARROW_ESCAPES = frozenset(string.punctuation) | frozenset("dwSbBAztfrv")  # what these match is no newline, or nothing
_NARROW_MEMBERS = frozenset(string.punctuation) | frozenset("dwS")  # a control character could begin a range
_MEMBER = re.compile(r"\\.|.", re.DOTALL)


class NpdError(ValueError):
    """A node-problem-detector file is refused; the message names the key or the rule. Says nothing about the log."""


class _Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    type: Literal["temporary", "permanent"]
    reason: ConditionName
    pattern: NonEmpty
    condition: str = ""
    pattern_generated_message_suffix: str = ""  # only more words in their message


class _Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    type: ConditionName
    reason: ConditionName
    message: str = ""
    status: Any = None  # both are overwritten at the start, there too
    transition: Any = None


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    plugin: str
    rules: tuple[dict[str, Any], ...]
    conditions: tuple[_Condition, ...] = ()
    source: str = ""
    lookback: str = ""
    delay: str = ""
    buffer_size: Annotated[int, Meta(ge=0, le=1000)] = 0
    plugin_config: dict[str, str] = {}
    skip_list: tuple[str, ...] = ()
    log_path: str = ""
    metrics_reporting: bool | None = None


def load(text: bytes | str, name: str) -> NpdRuleSet:
    """Read one file.

    A set whose patterns all stay within one line gets `buffer_lines` 1: a newest message that matches is then found
    without its forerunners. Otherwise it is the file's `bufferSize`.

    Args:
        text: the JSON.
        name: the file's name or path; its stem names the set if the file has no `source`.

    Raises:
        NpdError: anything in it is wrong, unknown or not supported.
    """
    file = _decode(text)
    if _duration("delay", file.delay).seconds:
        raise NpdError(f"delay {file.delay!r} is not supported (allowed: 0); lookback limits how old a record may be")
    declared = [condition.type for condition in file.conditions]
    rules = tuple(_rule(number, given, declared) for number, given in enumerate(file.rules))
    return NpdRuleSet(
        api_version="chipwarden.io/v1",
        kind="RuleSet",
        metadata=Metadata(name=_name(file.source, name)),
        conditions=tuple(ConditionDefault(type=c.type, reason=c.reason, message=c.message) for c in file.conditions),
        rules=rules,
        lookback=_duration("lookback", file.lookback),
        buffer_lines=1 if all(_is_narrow(rule.pattern) for rule in rules) else file.buffer_size or _DEFAULT_LINES,
    )


def _decode(text: bytes | str) -> _File:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NpdError(f"not JSON: {error}") from error
    if isinstance(document, dict) and (plugin := document.get("plugin")) != "kmsg":
        raise NpdError(f"plugin {plugin!r} does not read the kernel log (allowed: 'kmsg')")
    try:
        return msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        raise NpdError(str(error)) from error


def _rule(number: int, given: dict[str, Any], declared: list[str]) -> Rule:
    where = f"rule {number} ({given.get('reason', 'without a reason')})"
    try:
        rule = msgspec.convert(given, _Rule)
        compile_one(rule.pattern)
        pattern = _anchored(rule.pattern)
        compile_one(pattern)  # an open \Q would swallow the end of the group
    except msgspec.ValidationError as error:
        raise NpdError(f"{where}: {error}") from error
    except PatternError as error:
        raise NpdError(f"{where}: pattern {rule.pattern!r}: {error}") from error
    if rule.type == "temporary":
        return Rule(reason=rule.reason, pattern=pattern)
    if rule.condition not in declared:
        allowed = ", ".join(declared) or "none is declared"
        raise NpdError(f"{where}: condition {rule.condition!r} is not among the file's conditions ({allowed})")
    return Rule(reason=rule.reason, pattern=pattern, condition=rule.condition)


def _anchored(pattern: str) -> str:
    """Let the pattern end where the text ends, and neither end mind the spaces that are trimmed there."""
    return "(?:" + "".join(f"(?:{part} *)" if part in _STARTS else part for part in tokens(pattern)) + r") *\z"


def _duration(key: str, text: str) -> Duration:
    digits = text.removeprefix("+")
    if digits in ("", "0", "-0"):
        return Duration(0)
    parts = _PART.findall(digits)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != digits or seconds > _LONGEST_SECONDS:
        raise NpdError(f"{key} {text!r} is not a duration (allowed: numbers with ns, us, ms, s, m or h, such as 1h30m)")
    return Duration(seconds)


def _name(source: str, origin: str) -> str:
    stem = origin.rpartition("/")[2].removesuffix(".json")
    names = (re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip(".-") for text in (source, stem, "npd"))
    return next(name for name in names if name)[:_MOST_NAME].rstrip(".-")


def _is_narrow(pattern: str) -> bool:
    """Tell whether the pattern provably cannot match a newline; each token must be one of those known to be safe."""
    parts = tokens(pattern)
    for at, part in enumerate(parts):
        if part == "(" and parts[at + 1 : at + 2] == ["?"]:
            if not "".join(parts[at + 2 :]).lstrip("imU-").startswith((":", ")")):
                return False  # `(?s)` lets the dot match a newline
        elif not _is_narrow_part(part):
            return False
    return True


def _is_narrow_part(part: str) -> bool:
    if part.startswith("["):
        return _is_narrow_class(part[1:-1])
    if part.startswith("\\") and not part.startswith(r"\Q"):
        return part[1:] in _NARROW_ESCAPES
    return "\n" not in part


def _is_narrow_class(inner: str) -> bool:
    members = _MEMBER.findall(inner)
    if members[0] == "^":
        return any(member in _NEWLINES for member in members)
    if "[:" in inner:
        return False
    return all(member[1:] in _NARROW_MEMBERS if member[0] == "\\" else member >= " " for member in members)
