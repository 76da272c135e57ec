"""`chipwarden-recovery`: the command line, and the only place where edges and core meet."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recovery.controls import ALL, NotDoneError
from recovery.ports import PortError
from recovery.settings import LAYERS, Kubernetes
from runtime.commands import EXIT_BAD_SETTINGS, EXIT_NOT_DONE, complete
from runtime.layers import SettingsError
from runtime.pages import PagesError
from runtime.rest import is_configured
from runtime.vocabulary import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recovery.settings import Settings

NAME: Final = "chipwarden-recovery"
_EXITS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (SettingsError, EXIT_BAD_SETTINGS),
    (PagesError, EXIT_BAD_SETTINGS),
    (NotDoneError, EXIT_NOT_DONE),
    (PortError, EXIT_NOT_DONE),
)
_ABOUT: Final = "Replaces or reboots the right machine, in order and within a budget, or says why not."
_ACCESS: Final = (
    "Inside the cluster it uses the pod's account, elsewhere the kubeconfig that KUBECONFIG names (or, with"
    " --kubernetes on, ~/.kube/config); without either it is about this machine alone."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: the arguments; None = the process's.
    """
    return complete(NAME, lambda: _start(_parser().parse_args(argv)), _EXITS)


def _start(arguments: argparse.Namespace) -> int:
    settings = LAYERS.resolve(arguments, os.environ)
    if arguments.print_settings:
        print(LAYERS.show(settings), end="")
        return 0
    command: Callable[[Settings, argparse.Namespace], int] = arguments.command
    if command is not _run:
        _check_place(settings)
    return command(settings, arguments)


def _check_place(settings: Settings) -> None:
    """Refuse to guess: a pause of this machine alone, taken for one of the cluster, would be worse than none.

    Raises:
        SettingsError: both may be meant.
    """
    unsaid = settings.kubernetes is Kubernetes.AUTO and not is_configured(os.environ)
    if unsaid and Path("~/.kube/config").expanduser().exists():
        raise SettingsError(
            "kubernetes: is the cluster of ~/.kube/config meant, or this machine alone?"
            " (allowed: --kubernetes on, --kubernetes off, or KUBECONFIG)"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description=_ABOUT)
    parser.add_argument("--version", action="version", version=f"{NAME} {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(commands, "run", _run, "watch the fleet and act")
    plan = _add(commands, "plan", _plan, "show what would be done now, what blocks it and until when; changes nothing")
    _add_output(plan)
    ledger = _add(commands, "ledger", _ledger, "show what was begun and what came of it")
    _add_output(ledger)
    pause = _add(commands, "pause", _pause, "begin nothing and go on with nothing, until resume")
    pause.add_argument("why", nargs="?", default="", help="for others to read")
    resume = _add(commands, "resume", _resume, "end a pause, or with --group what blocks a group")
    resume.add_argument("--group", help="let recovery act on a group again that was blocked (RecursAfterReplacement)")
    reset = _add(commands, "reset-breaker", _reset_breaker, "act again on a reason whose storm breaker has tripped")
    reset.add_argument("reason", help=f"such as NeuronHasError_DMA_ERROR, or {ALL}")
    _add_cleanup(commands)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: Callable[[Settings, argparse.Namespace], int],
    about: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}. {_ACCESS}")
    parser.set_defaults(command=command)
    LAYERS.add_flags(parser)
    return parser


def _add_cleanup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "take taints, cordons, annotations and conditions of ours off all Nodes, before an uninstall"
    parser = _add(commands, "cleanup", _cleanup, about)
    parser.add_argument(
        "--condition",
        action="append",
        default=[],
        metavar="TYPE",
        help="a condition type of your own rules; may be repeated",
    )
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the output (text)")


def _run(settings: Settings, _: argparse.Namespace) -> int:
    from recovery.run import run  # noqa: PLC0415 - other commands do not pay for it

    run(settings)
    return 0


def _plan(settings: Settings, arguments: argparse.Namespace) -> int:
    from recovery.plan import is_complete, plan_json, plan_text  # noqa: PLC0415 - the same
    from recovery.preview import preview  # noqa: PLC0415 - the same
    from recovery.store import place  # noqa: PLC0415 - the same

    snapshot = preview(settings)
    print(plan_json(snapshot) if arguments.output == "json" else f"{place(settings)}\n{plan_text(snapshot)}", end="")
    return 0 if is_complete(snapshot) else EXIT_NOT_DONE


def _ledger(settings: Settings, arguments: argparse.Namespace) -> int:
    from recovery.plan import ledger_json, ledger_text  # noqa: PLC0415 - the same
    from recovery.store import place, store  # noqa: PLC0415 - the same

    ledger = store(settings)
    body, paused = ledger.load(), ledger.paused()
    if arguments.output == "json":
        print(ledger_json(body, paused), end="")
    else:
        print(f"{place(settings)}\n{ledger_text(body, paused, ledger.now())}", end="")
    return 0


def _pause(settings: Settings, arguments: argparse.Namespace) -> int:
    from recovery.store import is_here, place, store  # noqa: PLC0415 - the same

    if not is_here(settings):
        raise NotDoneError(f"not paused: neither recovery nor a detector is or was in {place(settings)}")
    store(settings).pause(arguments.why)
    print(f"paused: {place(settings)}; end it with: {NAME} resume")
    return 0


def _resume(settings: Settings, arguments: argparse.Namespace) -> int:
    from recovery.controls import resume_group  # noqa: PLC0415 - the same
    from recovery.store import place, store  # noqa: PLC0415 - the same

    ledger = store(settings)
    if arguments.group is not None:
        resume_group(ledger, arguments.group)
        print(f"group {arguments.group} is acted on again")
        return 0
    why = ledger.paused()
    ledger.resume()
    was = "was not paused" if why is None else f"goes on, it was paused: {why}"
    print(f"recovery of {place(settings)} {was}")
    return 0


def _reset_breaker(settings: Settings, arguments: argparse.Namespace) -> int:
    from recovery.controls import reset_breaker  # noqa: PLC0415 - the same
    from recovery.store import store  # noqa: PLC0415 - the same

    for reason in reset_breaker(store(settings), arguments.reason):
        print(f"{reason} is acted on again")
    return 0


def _cleanup(settings: Settings, arguments: argparse.Namespace) -> int:
    from recovery.sweep import sweep  # noqa: PLC0415 - the same

    text, is_clean = sweep(settings, arguments.condition, as_json=arguments.output == "json")
    print(text)
    return 0 if is_clean else EXIT_NOT_DONE


if __name__ == "__main__":
    sys.exit(main())
