"""`python -m demo`: choose the tour, take signals, and leave nothing behind."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from demo.parts import DemoError
from demo.screen import Screen
from demo.stage import Stage, StoppedError

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "demo"
EXIT_FAILED: Final = 1
_PACE_SECONDS: Final = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Play a tour and return the exit code.

    Args:
        argv: the arguments; None = the process's.
    """
    arguments = _parser().parse_args(argv)
    screen = Screen(sys.stdout)
    pace = arguments.pace if arguments.pace is not None else _PACE_SECONDS if screen.is_live else 0.0
    stage = Stage(screen, pace)
    stage.listen()
    screen.waiting("starting")
    try:
        _play(stage, arguments)
    except StoppedError as stopped:
        screen.leave()
        print(f"{NAME}: stopped; everything that was started has ended", file=sys.stderr)
        return 128 + stopped.number
    except DemoError as error:
        screen.clear()
        print(f"{NAME}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        print(f"{NAME}: the Python package {package} is missing: run `make demo`, which installs it", file=sys.stderr)
        return EXIT_FAILED
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except (OSError, AssertionError) as error:
        screen.clear()
        print(f"{NAME}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {NAME}", description="Shows what Chipwarden does, in a minute.")
    parser.add_argument("--cluster", action="store_true", help="play on a real Kubernetes API server")
    parser.add_argument("--recorded", action="store_true", help="use a recorded kernel log even with root")
    parser.add_argument("--pace", type=float, help="seconds to read a scene in (2 on a terminal, else 0)")
    return parser


def _play(stage: Stage, arguments: argparse.Namespace) -> None:
    from demo.clustertour import ClusterTour  # noqa: PLC0415 - takes seconds, in which a Ctrl-C is to count
    from demo.kernellog import choose  # noqa: PLC0415 - the same
    from demo.tour import Tour  # noqa: PLC0415 - the same

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chipwarden-demo-")))
        log, why = choose(folder, recorded=arguments.recorded)
        if why:
            stage.screen.note(why)
        tour = ClusterTour if arguments.cluster else Tour
        tour(stage, log, folder, stack).play()


if __name__ == "__main__":
    sys.exit(main())
