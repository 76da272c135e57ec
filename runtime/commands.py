"""How a command of either program ends: with a documented exit code and one sentence, whatever its reader does."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXIT_NOT_DONE: Final = 1
EXIT_BAD_SETTINGS: Final = 2


def complete(program: str, command: Callable[[], int], exits: Sequence[tuple[type[Exception], int]]) -> int:
    """Run a command to its end and return the exit code.

    Args:
        program: its name, in front of what is said on standard error.
        command: reads the arguments and does the work.
        exits: errors that are told in one sentence, each with its exit code; any other one is a defect and is raised.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # somebody's odd text must not end a command
    try:
        code = command()
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a reader who left can still be noticed
    except tuple(kind for kind, _ in exits) as error:
        print(f"{program}: {error}", file=sys.stderr)  # noqa: T201 - this is what the user is told
        return next(code for kind, code in exits if isinstance(error, kind))
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_NOT_DONE
    except KeyboardInterrupt:
        return EXIT_NOT_DONE
    return code
