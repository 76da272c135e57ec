"""`chipwarden-detector`: the command line, and the only place where edges and core meet."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from detector.model import ClearRequest
from detector.rulefiles import load_all
from detector.rules import RulesError
from detector.run import run
from detector.settings import LAYERS
from detector.source import KmsgError
from detector.statefile import StateFile, StateFileError
from runtime.commands import EXIT_BAD_SETTINGS, EXIT_NOT_DONE, complete
from runtime.identity import IdentityError
from runtime.layers import SettingsError
from runtime.pages import PagesError
from runtime.vocabulary import SHIPPED_RULE_SETS, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from detector.model import Rule
    from detector.settings import Settings

NAME: Final = "chipwarden-detector"
EXIT_NO_KMSG: Final = 3
_EXITS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (KmsgError, EXIT_NO_KMSG),
    (StateFileError, EXIT_NOT_DONE),
    (SettingsError, EXIT_BAD_SETTINGS),
    (RulesError, EXIT_BAD_SETTINGS),
    (PagesError, EXIT_BAD_SETTINGS),
    (IdentityError, EXIT_BAD_SETTINGS),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: the arguments; None = the process's.
    """
    words = LAYERS.spelled_out(sys.argv[1:] if argv is None else argv)
    return complete(NAME, lambda: _start(_parser().parse_args(words)), _EXITS)


def _start(arguments: argparse.Namespace) -> int:
    if getattr(arguments, "print_settings", False):  # which every command takes but `rules check`
        print(LAYERS.show(_settings(arguments)), end="")
        return 0
    command: Callable[[argparse.Namespace], int] = arguments.command
    return command(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Finds accelerator faults in the kernel log.")
    parser.add_argument("--version", action="version", version=f"{NAME} {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(commands, "run", _run, "watch the kernel log")
    rules = commands.add_parser("rules", help="work on rule files").add_subparsers(required=True, metavar="COMMAND")
    _add_check(rules)
    _add_inject(commands)
    _add_replay(commands)
    _add_bundle(commands)
    clear = _add(commands, "clear", _clear, "end a fault because you know better; stand-alone only")
    clear.add_argument("reason", help="the fault's reason, or all")
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: Callable[[argparse.Namespace], int],
    about: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
    parser.set_defaults(command=command)
    LAYERS.add_flags(parser)
    return parser


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "check that rule files load and stay quick"
    parser = commands.add_parser("check", help=about, description=about[0].upper() + about[1:] + ".")
    parser.set_defaults(command=_check)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a rule file, or the name of a shipped set")
    _add_output(parser)


def _add_inject(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "inject", _inject, "write a fault line into the kernel log, to see what happens")
    parser.add_argument("reason", help="the reason of a rule, such as NeuronHasError_DMA_ERROR")
    parser.add_argument("--count", type=_positive, default=1, help="how many lines (1)")
    parser.add_argument("--rate", type=_positive, default=None, help="lines per second (as fast as it goes)")
    parser.add_argument("--device", type=int, default=0, help="nd-id of a Neuron line (0)")
    parser.add_argument("--core", type=int, default=0, help="nc-id of a Neuron line (0)")
    parser.add_argument("--serial", default=None, help="serial-num of a Neuron line")
    parser.add_argument("--detector-url", default="http://127.0.0.1:20257", help="the detector that is to see it")


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "replay", _replay, "judge a recorded kernel log")
    parser.add_argument("file", metavar="FILE|-", help="raw records or dmesg text; - = standard input")
    _add_output(parser)


def _add_bundle(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "bundle", _bundle, "write one redacted archive for a support case; give it run's settings")
    parser.add_argument(
        "--output", metavar="FILE|-", default=None, help="where to; - = standard output (a new file in this directory)"
    )
    parser.add_argument(
        "--keep-names",
        action="store_true",
        help="leave host names, and user names in home paths; secrets and addresses go all the same",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the output (text)")


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _settings(arguments: argparse.Namespace) -> Settings:
    return LAYERS.resolve(arguments, os.environ)


def _run(arguments: argparse.Namespace) -> int:
    run(_settings(arguments))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from detector.check import check  # noqa: PLC0415 - `run` does not pay for other commands

    check(arguments.files, as_json=arguments.output == "json")
    return 0


def _inject(arguments: argparse.Namespace) -> int:
    from detector.inject import InjectError, Order, fields_of_this_machine, inject  # noqa: PLC0415 - the same

    settings = _settings(arguments)
    fields = fields_of_this_machine(arguments.detector_url, settings.instance_id)
    fields |= {"nd-id": str(arguments.device), "nc-id": str(arguments.core)}
    if arguments.serial:
        fields["serial-num"] = arguments.serial
    rule = _rule(arguments.reason, settings)
    order = Order(rule=rule, fields=fields, count=arguments.count, rate=arguments.rate, kmsg=settings.kmsg)
    try:
        text = inject(order)
    except InjectError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return EXIT_NOT_DONE
    print(f"{arguments.count} written to {settings.kmsg} and read back: {text}")
    print(f"look at {arguments.detector_url}/conditions, or: kubectl describe node {settings.node_name or 'NODE'}")
    return 0


def _rule(reason: str, settings: Settings) -> Rule:
    """Find a rule among those of the settings and the shipped ones."""
    names = dict.fromkeys([*settings.rules, *SHIPPED_RULE_SETS])
    rules = {rule.reason: rule for rule in reversed(load_all(list(names)).rules)}
    if reason not in rules:
        close = difflib.get_close_matches(reason, sorted(rules), n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "allowed: those that docs/reference.md lists"
        raise SettingsError(f"{reason}: no rule has this reason ({hint})")
    return rules[reason]


def _replay(arguments: argparse.Namespace) -> int:
    from detector.replay import ReplayError, replay  # noqa: PLC0415 - the same

    settings = _settings(arguments)
    with _input(arguments.file) as stream:
        try:
            return replay(
                stream,
                load_all(settings.rules),
                kernel_only=settings.kernel_only,
                instance=settings.instance_id or None,
                as_json=arguments.output == "json",
            )
        except ReplayError as error:
            raise SettingsError(f"{arguments.file}: {error}") from error


def _input(name: str) -> BinaryIO:
    if name == "-" and sys.stdin is None:
        raise SettingsError("-: standard input is closed")
    try:
        return sys.stdin.buffer if name == "-" else Path(name).open("rb")
    except OSError as error:
        raise SettingsError(f"{name}: cannot be read: {error.strerror}") from error


def _bundle(arguments: argparse.Namespace) -> int:
    from detector.bundle import STDOUT, BundleError, bundle  # noqa: PLC0415 - the same

    settings = _settings(arguments)
    try:
        told = bundle(settings, arguments.output, keep_names=arguments.keep_names)
    except BundleError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return EXIT_NOT_DONE
    print(told, file=sys.stderr if arguments.output == STDOUT else sys.stdout)
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    file = StateFile(settings.state_dir)
    state = file.read()
    active = sorted({fault.reason for fault in state.faults}) if state else []
    if not active or arguments.reason not in ("all", *active):
        nothing = "nothing is active" if state else "there is no state file: is --state-dir the detector's?"
        allowed = f"active: {', '.join(active)}" if active else nothing
        print(f"{NAME}: {arguments.reason}: there is no such fault in {file.path} ({allowed})", file=sys.stderr)
        return EXIT_NOT_DONE
    file.leave_clear_request(ClearRequest(reason=arguments.reason, faults=state.faults if state else ()))
    print(f"asked the detector to clear {arguments.reason}; it does so within 30 s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
