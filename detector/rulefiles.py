"""Where rule files come from: the shipped ones by name, others by path. An edge."""

from __future__ import annotations

import os
import re
import stat
from importlib import resources
from typing import TYPE_CHECKING

from detector.rules import Catalog, RulesError, combine, load
from runtime.vocabulary import SHIPPED_RULE_SETS

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST_BYTES = 1 << 20
_LIKE_ONE = re.compile(
    rb"""(?m)^[ \t{]{0,8}["']?(?:apiVersion["']?[ \t]{0,8}:[ \t]{0,8}["']?chipwarden|plugin["']?:)"""
)


def load_all(names: Sequence[str]) -> Catalog:
    """Load rule sets.

    Args:
        names: a shipped set's name, or a path (with a `/`, or ending in .yaml, .yml or .json).

    Raises:
        RulesError: a name is unknown, a file cannot be read, or its content is refused.
    """
    return combine(tuple(load(read(name), name) for name in names))


def read(name: str) -> bytes:
    """Read a rule file's bytes; never waits, as for a pipe.

    Raises:
        RulesError: there is no such set or file, it is no regular file, or it is larger than 1 MiB.
    """
    if name in SHIPPED_RULE_SETS:
        return resources.files("detector").joinpath("rulesets", f"{name}.yaml").read_bytes()
    if "/" not in name and not name.endswith((".yaml", ".yml", ".json")):
        raise RulesError(
            f"{name}: no such rule set (allowed: {', '.join(SHIPPED_RULE_SETS)}, "
            "or a path with a / or ending in .yaml, .yml, .json)"
        )
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise RulesError(f"{name}: cannot be read: not a regular file")
            text = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise RulesError(f"{name}: cannot be read: {error.strerror}") from error
    if len(text) > _LARGEST_BYTES:
        raise RulesError(f"{name}: larger than {_LARGEST_BYTES} bytes")
    return text


def looks_like_one(text: bytes) -> bool:
    """Tell whether a text that does not load was meant as a rule file, of ours or of node-problem-detector.

    Somebody's kubeconfig or password file, named by mistake, is none.
    """
    return _LIKE_ONE.search(text) is not None
