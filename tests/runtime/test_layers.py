"""Settings in layers: which one counts, and how each kind of mistake is refused."""

from __future__ import annotations

import argparse
import enum
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from runtime.durations import Duration
from runtime.layers import Layers, SettingsError, layer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Colour(enum.StrEnum):
    RED = "red"
    OFF = "off"


class Inner(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An object among the settings."""

    much: Annotated[int, Meta(le=10)] | None = None
    pause: Duration | None = None
    colour: Colour | None = None

    def __post_init__(self) -> None:
        if self.much == 7:
            raise ValueError("much: 7 is never right (allowed: any other)")


class Example(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One setting of each kind."""

    file_name: Annotated[str, layer(env="X_FILE", flag="--file", about="a text")] = "plain"
    dry_run: Annotated[bool, layer(env="X_DRY", flag="--dry", about="a switch")] = False
    wait: Annotated[Duration, layer(env="X_WAIT", flag="--wait")] = Duration(300)
    names: Annotated[tuple[str, ...], Meta(min_length=1), layer(env="X_NAMES", flag="--names")] = ("a",)
    colour: Annotated[Colour, layer(env="X_COLOUR", flag="--colour")] = Colour.RED
    level: Annotated[Literal["low", "high"], layer(env="X_LEVEL", flag="--level")] = "low"
    region: Annotated[str, layer(env=("X_REGION", "X_DEFAULT_REGION"))] = ""
    percent: Annotated[int, Meta(ge=1, le=100), layer(env="X_PERCENT")] = 20
    hidden: str = "from YAML only"
    inner: Inner = Inner()
    many: dict[str, Inner] = {}

    def __post_init__(self) -> None:
        if self.percent == 13:
            raise ValueError("percent: 13 brings bad luck (allowed: any other)")


LAYERS = Layers(Example, config_env="X_CONFIG")


def resolve(*flags: str, **environ: str) -> Example:
    """Put the layers together; the config file is among the flags."""
    parser = argparse.ArgumentParser()
    LAYERS.add_flags(parser)
    return LAYERS.resolve(parser.parse_args(flags), environ)


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], list[str]]:
    """Write a config file and give the flags that name it."""

    def write(yaml: str) -> list[str]:
        (tmp_path / "config.yaml").write_text(yaml)
        return ["--config", str(tmp_path / "config.yaml")]

    return write


def test_without_anything_the_defaults_count() -> None:
    assert resolve() == Example()


def test_each_layer_counts_more_than_the_one_before(config: Callable[[str], list[str]]) -> None:
    file = config("fileName: yaml\nregion: yaml\nlevel: high\n")
    assert resolve(*file).file_name == "yaml"
    assert resolve(*file, X_FILE="environment").file_name == "environment"
    settings = resolve(*file, "--file", "flag", X_FILE="environment")
    assert (settings.file_name, settings.region, settings.level) == ("flag", "yaml", "high")


@pytest.mark.parametrize(
    ("yaml", "variable", "expected"),
    [
        ("fileName: x y", "X_FILE=x y", Example(file_name="x y")),
        ("dryRun: true", "X_DRY=true", Example(dry_run=True)),
        ("dryRun: true", "X_DRY=1", Example(dry_run=True)),
        ("dryRun: on", "X_DRY=True", Example(dry_run=True)),
        ("wait: 1m30s", "X_WAIT=1m30s", Example(wait=Duration(90))),
        ("names: [b, c]", "X_NAMES=b, c,", Example(names=("b", "c"))),
        ("colour: 'off'", "X_COLOUR=off", Example(colour=Colour.OFF)),
        ("colour: off", "X_COLOUR=off", Example(colour=Colour.OFF)),
        ("level: high", "X_LEVEL=high", Example(level="high")),
        ("percent: 100", "X_PERCENT=100", Example(percent=100)),
    ],
)
def test_a_setting_means_the_same_in_the_file_and_in_the_environment(
    config: Callable[[str], list[str]], yaml: str, variable: str, expected: Example
) -> None:
    name, _, text = variable.partition("=")
    assert resolve(*config(yaml)) == expected
    assert resolve(**{name: text}) == expected


@pytest.mark.parametrize(
    ("flags", "key", "value"),
    [
        (["--file", "x"], "file_name", "x"),
        (["--dry"], "dry_run", True),
        (["--dry", "false"], "dry_run", False),
        (["--wait", "10s"], "wait", Duration(10)),
        (["--names", "b", "--names", "c"], "names", ("b", "c")),
        (["--colour=off"], "colour", Colour.OFF),
    ],
)
def test_flags_set_what_they_say(flags: list[str], key: str, value: object) -> None:
    assert getattr(resolve(*flags), key) == value


@pytest.mark.parametrize(
    ("argv", "spelled_out"),
    [
        (["--dry", "file"], ["--dry=true", "file"]),
        (["--dry"], ["--dry=true"]),
        (["--dry", "false", "file"], ["--dry", "false", "file"]),
        (["--dry=off", "file"], ["--dry=off", "file"]),
        (["--file", "true"], ["--file", "true"]),
        ([], []),
    ],
)
def test_a_switch_does_not_swallow_what_follows_it(argv: list[str], spelled_out: list[str]) -> None:
    assert LAYERS.spelled_out(argv) == spelled_out


def test_a_flag_that_is_not_given_takes_nothing_back() -> None:
    assert resolve(X_DRY="true").dry_run


def test_of_several_variables_the_first_that_is_set_counts() -> None:
    assert resolve(X_REGION="first", X_DEFAULT_REGION="second").region == "first"
    assert resolve(X_DEFAULT_REGION="second").region == "second"
    assert resolve(X_REGION="", X_DEFAULT_REGION="second").region == "second"


def test_an_empty_variable_is_not_set() -> None:
    assert resolve(X_FILE="", X_WAIT="", X_NAMES="") == Example()


def test_the_config_file_may_be_named_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("fileName: yaml\n")
    assert resolve(X_CONFIG=str(file)).file_name == "yaml"


def test_the_flag_names_the_config_file_that_counts(config: Callable[[str], list[str]]) -> None:
    assert resolve(*config("fileName: flag"), X_CONFIG="/nowhere").file_name == "flag"


@pytest.mark.parametrize("empty", ["", "# nothing\n", "{}", "---\n"])
def test_an_empty_file_sets_nothing(config: Callable[[str], list[str]], empty: str) -> None:
    assert resolve(*config(empty)) == Example()


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("filename: x", "config.yaml: unknown key 'filename' (did you mean 'fileName'?)"),
        ("zzz: x", "config.yaml: unknown key 'zzz' (allowed: fileName, dryRun, wait, names,"),
        ("file_name: x", "unknown key 'file_name' (did you mean 'fileName'?)"),
        ("1: x", "unknown key 1 (allowed: "),
        ("fileName: 7", "config.yaml: fileName: expected `str`, got `int`, got 7"),
        ("fileName:", "config.yaml: fileName: expected `str`, got `null`"),
        ("fileName: yes", "fileName: expected `str`, got `bool`"),
        ("dryRun: 'true'", "dryRun: expected `bool`, got `str`, got 'true' (allowed: true, false)"),
        ("dryRun: 1", "dryRun: expected `bool`, got `int`, got 1 (allowed: true, false)"),
        ("wait: 5", "wait: 5 is not a duration (allowed: a number and ms, s, m, h or d, such as 10s, 5m, 24h)"),
        ("wait: -5s", "wait: '-5s' is not a duration (allowed: a number and ms, s, m, h or d, such as 10s, 5m, 24h)\n"),
        ("inner: {colour: blue}", "config.yaml: inner.colour: invalid enum value 'blue' (allowed: red, off)\n"),
        ("inner: {pause: 5x}", "inner.pause: '5x' is not a duration (allowed: a number and ms, s, m, h or d, such as"),
        ("inner: {much: 11}", "inner.much: expected `int` <= 10, got 11"),
        ("inner: {much: 7}", "config.yaml: inner: much: 7 is never right (allowed: any other)\n"),
        ("inner: {puase: 5s}", "config.yaml: inner: unknown key 'puase' (did you mean 'pause'?)"),
        ("inner: 5", "inner: expected `object`, got `int`, got 5 (allowed: much, pause, colour)"),
        ("many: {a: {}, b: {colour: 1}}", "many.b.colour: expected `str | null`, got `int`, got 1 (allowed: red, off)"),
        ("many: {a: [1]}", "many.a: expected `object`, got `array`, got [1] (allowed: much, pause, colour)"),
        ("many: {1: {}}", "config.yaml: many: expected `str`, got `int`"),
        ("names: a", "names: expected `array`, got `str`, got 'a' (allowed: a list, such as [a, b])"),
        ("names: []", "names: expected `array` of length >= 1, got []"),
        ("names: [1]", "names: expected `str`, got `int` - at `$[0]`"),
        ("colour: blue", "colour: invalid enum value 'blue' (allowed: red, off)"),
        ("colour: on", "colour: expected `str`, got `bool`, got True (allowed: red, off)"),
        ("level: [low]", "level: expected `str`, got `array`, got ['low'] (allowed: low, high)"),
        ("percent: 101", "percent: expected `int` <= 100, got 101"),
        ("percent: 20.5", "percent: expected `int`, got `float`, got 20.5"),
        ("percent: 13", "percent: 13 brings bad luck (allowed: any other)"),
        ("- a", "config.yaml: expected keys and values at the top, got list"),
        ("just text", "config.yaml: expected keys and values at the top, got str"),
        ("fileName: a\nfileName: b", "config.yaml: line 2, column 1: key 'fileName' stands twice"),
        ('fileName: "a\\0b"', "fileName: 'a\\x00b' is not plain text"),
        ("#" * (2 << 20), "config.yaml: larger than 1048576 bytes"),
    ],
)
def test_a_mistake_in_the_file_is_refused_with_its_key_and_what_is_allowed(
    config: Callable[[str], list[str]], yaml: str, says: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        resolve(*config(yaml))
    assert says in f"{refused.value}\n"


@pytest.mark.parametrize("path", ["/nowhere/config.yaml", "/", "/dev/null/x"])
def test_a_file_that_cannot_be_read_is_refused_by_name(path: str) -> None:
    with pytest.raises(SettingsError, match=f"^{path}: cannot be read: "):
        resolve("--config", path)


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("X_DRY", "maybe", "environment X_DRY: expected `bool`, got `str`, got 'maybe' (allowed: true, false)"),
        ("X_WAIT", "10", "environment X_WAIT: '10' is not a duration"),
        ("X_NAMES", " , ,", "environment X_NAMES: expected `array` of length >= 1, got []"),
        ("X_COLOUR", "RED", "environment X_COLOUR: invalid enum value 'RED' (allowed: red, off)"),
        ("X_LEVEL", "mid", "environment X_LEVEL: invalid enum value 'mid' (allowed: low, high)"),
        ("X_PERCENT", "0", "environment X_PERCENT: expected `int` >= 1, got '0'"),
        ("X_PERCENT", "many", "environment X_PERCENT: expected `int`, got `str`, got 'many'"),
        ("X_PERCENT", "13", "percent: 13 brings bad luck"),
        ("X_FILE", "\udcff", "environment X_FILE: '\\udcff' is not plain text"),
        ("X_NAMES", "a,\udcff", "environment X_NAMES: ['a', '\\udcff'] is not plain text"),
    ],
)
def test_a_mistake_in_the_environment_is_refused_with_the_variable(variable: str, text: str, says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        resolve(**{variable: text})
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--dry", "maybe"], "flag --dry: expected `bool`"),
        (["--wait", "soon"], "flag --wait: 'soon' is not a duration"),
        (["--level", "mid"], "flag --level: invalid enum value 'mid' (allowed: low, high)"),
        (["--names", "\udcff"], "flag --names: ['\\udcff'] is not plain text"),
    ],
)
def test_a_mistake_in_a_flag_is_refused_with_the_flag(flags: list[str], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        resolve(*flags)
    assert says in str(refused.value)


def test_what_is_shown_gives_the_same_settings_again(config: Callable[[str], list[str]]) -> None:
    odd = Example(
        file_name='quotes " and \\, é, # no comment',
        dry_run=True,
        wait=Duration(90),
        names=("x", "y, z"),
        colour=Colour.OFF,
        percent=1,
    )
    shown = LAYERS.show(odd)
    assert resolve(*config(shown)) == odd
    assert shown.splitlines()[:3] == ['fileName: "quotes \\" and \\\\, é, # no comment"', "dryRun: true", 'wait: "90s"']


def test_help_tells_flags_variables_and_what_is_allowed() -> None:
    parser = argparse.ArgumentParser()
    LAYERS.add_flags(parser)
    text = parser.format_help()
    for part in (
        "--file FILENAME",
        "[X_FILE]",
        "--dry [true|false]",
        "--colour red|off",
        "--config FILE",
        "[X_CONFIG]",
    ):
        assert part in text
    assert "--region" not in text
