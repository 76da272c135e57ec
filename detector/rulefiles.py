"""Where rule files come from: the shipped ones by name, others by path. An edge."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from detector.rules import Catalog, RulesError, combine, load
from runtime.vocabulary import SHIPPED_RULE_SETS

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST_BYTES = 1 << 20


def load_all(names: Sequence[str]) -> Catalog:
    """Load rule sets.

    Args:
        names: a shipped set's name, or a path (with a `/`, or ending in .yaml, .yml or .json).

    Raises:
        RulesError: a name is unknown, a file cannot be read, or its content is refused.
    """
    return combine(tuple(load(read(name), name) for name in names))


def read(name: str) -> bytes:
    """Read a rule file's bytes.

    Raises:
        RulesError: there is no such set or file, or it is larger than 1 MiB.
    """
    if name in SHIPPED_RULE_SETS:
        return resources.files("detector").joinpath("rulesets", f"{name}.yaml").read_bytes()
    if "/" not in name and not name.endswith((".yaml", ".yml", ".json")):
        raise RulesError(f"{name}: no such rule set (allowed: {', '.join(SHIPPED_RULE_SETS)}, or a file)")
    try:
        with Path(name).open("rb") as file:
            text = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise RulesError(f"{name}: cannot be read: {error.strerror}") from error
    if len(text) > _LARGEST_BYTES:
        raise RulesError(f"{name}: larger than {_LARGEST_BYTES} bytes")
    return text
