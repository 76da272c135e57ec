"""Settings in layers: defaults < YAML file < environment < flags, for any settings struct.

A field says in its annotation where else it may be set: `Annotated[Duration, layer(env="X", flag="--x")]`. Every
refusal names the place, the key and what is allowed. Must never let a misspelt key pass.
"""

from __future__ import annotations

import difflib
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from runtime.documents import DocumentError, load_yaml
from runtime.durations import decode_hook, encode_hook

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

_BOOLEANS = {True: ("on", "true"), False: ("off", "false")}
_LARGEST_BYTES = 1 << 20
_Settings = TypeVar("_Settings", bound=msgspec.Struct)


class SettingsError(ValueError):
    """A setting is refused; the message names the place, the key and what is allowed."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One setting.

    Args:
        name: its attribute.
        key: its key in YAML.
        kind: its type.
        env: environment variables, the first that is set and not empty counts; () = YAML or flag only.
        flag: its flag; "" = none.
        about: one line of help.
    """

    name: str
    key: str
    kind: Any
    env: tuple[str, ...] = ()
    flag: str = ""
    about: str = ""

    @property
    def is_list(self) -> bool:
        """Whether it takes several values: a comma between them in the environment, the flag repeated."""
        kind = get_args(self.kind)[0] if get_origin(self.kind) is Annotated else self.kind
        return get_origin(kind) is tuple

    def convert(self, value: Any, place: str, *, written: bool) -> Any:
        """Turn a value from a file (typed) or from text into the field's type.

        Raises:
            SettingsError: the value is not allowed.
        """
        if any(_is_odd(text) for text in (value if isinstance(value, list) else [value])):
            raise SettingsError(f"{place}: {value!r} is not plain text (allowed: UTF-8 without a zero byte)")
        if isinstance(value, bool):
            value = next((name for name in _BOOLEANS[value] if name in _members(self.kind)), value)  # YAML reads `on`
        return _converted(value, self.kind, place, written=written)


def layer(*, env: str | tuple[str, ...] = (), flag: str = "", about: str = "") -> Meta:
    """Annotate a settings field with the places where it may be set."""
    return Meta(extra={"env": (env,) if isinstance(env, str) else env, "flag": flag, "about": about})


class Layers(Generic[_Settings]):
    """The ways to one settings struct.

    Args:
        settings: the struct, its fields annotated with `layer`, defaults for all of them.
        config_env: the environment variable that may name the YAML file.
    """

    def __init__(self, settings: type[_Settings], config_env: str = "CHIPWARDEN_CONFIG") -> None:
        self._settings = settings
        self._config_env = config_env
        hints = get_type_hints(settings, include_extras=True)
        self.fields = [_field(name, key, hints[name]) for name, key in _keys(settings)]

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add a flag for each setting that has one, and --config and --print-settings."""
        group = parser.add_argument_group("settings (defaults < YAML file < environment < flags)")
        group.add_argument("--config", metavar="FILE", help=f"YAML file with settings [{self._config_env}]")
        group.add_argument("--print-settings", action="store_true", help="print the effective settings and exit")
        for field in self.fields:
            if not field.flag:
                continue
            extra: dict[str, Any] = {"action": "append"} if field.is_list else {}
            if field.kind is bool:
                extra = {"nargs": "?", "const": "true", "metavar": "true|false"}
            else:
                extra["metavar"] = "|".join(_members(field.kind)) or field.key.upper()
            env = f" [{' or '.join(field.env)}]" if field.env else ""
            group.add_argument(field.flag, dest=f"setting_{field.name}", help=f"{field.about}{env}", **extra)

    def spelled_out(self, argv: Sequence[str]) -> list[str]:
        """Write `--switch` as `--switch=true`, so that what follows it is not taken for its value.

        Args:
            argv: a command line.
        """
        switches = {field.flag for field in self.fields if field.flag and field.kind is bool}
        values = {"true", "false", "1", "0"}
        following = [*argv, ""][1:]
        return [
            f"{word}=true" if word in switches and after not in values else word
            for word, after in zip(argv, following, strict=True)
        ]

    def resolve(self, arguments: argparse.Namespace, environ: Mapping[str, str]) -> _Settings:
        """Put the layers together.

        Raises:
            SettingsError: a layer holds something that is not allowed.
        """
        values: dict[str, Any] = {}
        path = arguments.config or environ.get(self._config_env)
        if path:
            values |= self._from_file(path)
        for field in self.fields:
            variable = next((name for name in field.env if environ.get(name)), None)
            if variable:
                text = environ[variable]
                value = [part.strip() for part in text.split(",") if part.strip()] if field.is_list else text
                values[field.name] = field.convert(value, f"environment {variable}", written=True)
            given = getattr(arguments, f"setting_{field.name}", None)
            if given is not None:
                values[field.name] = field.convert(given, f"flag {field.flag}", written=True)
        try:
            return self._settings(**values)
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def show(self, settings: _Settings) -> str:
        """Write settings as the YAML that would give them."""
        plain = msgspec.to_builtins(settings, enc_hook=encode_hook)
        lines = [f"{field.key}: {msgspec.json.encode(plain[field.key]).decode()}" for field in self.fields]
        return "\n".join(lines) + "\n"

    def _from_file(self, path: str) -> dict[str, Any]:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a path from a person, opened once
                text = file.read(_LARGEST_BYTES + 1)
        except OSError as error:
            raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
        if len(text) > _LARGEST_BYTES:
            raise SettingsError(f"{path}: larger than {_LARGEST_BYTES} bytes")
        try:
            document = load_yaml(text)
        except DocumentError as error:
            raise SettingsError(f"{path}: {error}") from error
        if document is None:
            return {}
        if not isinstance(document, dict):
            raise SettingsError(f"{path}: expected keys and values at the top, got {type(document).__name__}")
        by_key = {field.key: field for field in self.fields}
        values = {}
        for key, value in document.items():
            if key not in by_key:
                raise SettingsError(f"{path}: unknown key {key!r}{_meant(str(key), list(by_key))}")
            values[by_key[key].name] = by_key[key].convert(value, f"{path}: {key}", written=False)
        return values


def _keys(settings: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return list(zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True))


def _field(name: str, key: str, annotated: Any) -> Field:
    extra: dict[str, Any] = {}
    constraints = []
    for meta in getattr(annotated, "__metadata__", ()):
        extra |= meta.extra or {}
        if not meta.extra:
            constraints.append(meta)
    kind = getattr(annotated, "__origin__", annotated) if extra else annotated
    return Field(name=name, key=key, kind=Annotated[kind, *constraints] if constraints else kind, **extra)


def _converted(value: Any, kind: Any, place: str, *, written: bool) -> Any:
    """Convert a value; what is refused inside an object is named by its own key."""
    try:
        return msgspec.convert(value, kind, strict=not written, dec_hook=decode_hook)
    except (msgspec.ValidationError, ValueError) as error:
        for key, part, inner in _inside(value, kind, place):
            _converted(part, inner, f"{place}.{key}", written=written)
        reason = _uncapitalized(str(error))
        has_value = reason.startswith((f"{value!r} ", f"invalid enum value {value!r}")) or isinstance(value, dict)
        got = "" if has_value else f", got {value!r}"
        allowed = "" if "(allowed" in reason else _allowed(kind)
        raise SettingsError(f"{place}: {reason}{got}{allowed}") from error


def _inside(value: Any, kind: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is in an object: keys, values and the types that these are to have; nothing for any other value."""
    if not isinstance(value, dict):
        return
    if get_origin(kind) is dict:
        yield from ((key, part, get_args(kind)[1]) for key, part in value.items())
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        kinds = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        for key, part in value.items():
            if key not in kinds:
                raise SettingsError(f"{place}: unknown key {key!r}{_meant(str(key), list(kinds))}")
            yield key, part, kinds[key]


def _is_odd(value: Any) -> bool:
    """Tell whether a text cannot be printed or handed to the system: bytes of another encoding, a zero byte."""
    return isinstance(value, str) and ("\0" in value or value != value.encode("utf-8", "replace").decode())


def _uncapitalized(text: str) -> str:
    return text[:1].lower() + text[1:]


def _meant(key: str, allowed: list[str]) -> str:
    close = difflib.get_close_matches(key, allowed, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (allowed: {', '.join(allowed)})"


def _members(kind: Any) -> list[str]:
    """List the values of an enumeration or a Literal, or of one that may be left out; [] for any other type."""
    if isinstance(kind, UnionType):
        return [name for part in get_args(kind) for name in _members(part)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    return [str(value) for value in get_args(kind)] if get_origin(kind) is Literal else []


def _parts(kind: Any) -> list[str]:
    """List the keys of a struct; [] for any other type."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return list(kind.__struct_encode_fields__)
    return []


def _allowed(kind: Any) -> str:
    names = ["true", "false"] if kind is bool else _members(kind) or _parts(kind)
    if get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind) is tuple:
        names = ["a list, such as [a, b]"]
    return f" (allowed: {', '.join(names)})" if names else ""
