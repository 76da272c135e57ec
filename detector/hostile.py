"""How long a text made to be slow keeps the patterns busy.

RE2 is linear in the text, but not cheap: pieces of the patterns themselves, repeated, keep all of them half matched.
An edge, for it reads a clock. Source: docs/benchmarks.md, "hostile text".
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from detector.patterns import Automaton, compile_one, relax, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from detector.model import RuleSet

SLOWEST_MS_PER_KB: Final = 1.0
_TEXT_BYTES = 2048  # the longest record
_TEXTS = 30
_ROUNDS = 3
_FEW_TEXTS = 3
_HOPELESS_SECONDS = 4 * SLOWEST_MS_PER_KB / 1000 * _TEXT_BYTES / 1024  # no further text makes this fast enough
_STANDS_FOR = {"d": "1", "w": "a", "s": " ", "S": "a", "D": "a", "W": " ", "n": "\n", "t": "\t"}
_ANY = "."
_SYNTAX = frozenset("()|*+?{}^$")


def milliseconds_per_kb(rule_set: RuleSet) -> float:
    """Measure how long hostile texts, each met for the first time, take; in ms per KB, the best of several rounds."""
    patterns = [rule.pattern for rule in rule_set.rules] + list(rule_set.ignore)
    samples = [sample(pattern) for pattern in patterns]
    mixed = _texts(samples)
    worst = max(
        _best(lambda: Automaton(patterns).match, mixed),
        _best(lambda: Automaton(relax(rule.pattern) for rule in rule_set.rules).match, mixed),
    )
    for pattern, own in zip(patterns, samples, strict=True):
        worst = max(worst, _best(lambda pattern=pattern: compile_one(pattern).search, _texts([own])))  # type: ignore[misc]
    return worst * 1000 / (_TEXT_BYTES / 1024)


def sample(pattern: str) -> str:
    """Write a text that looks like what a pattern looks for."""
    parts = []
    for token in tokens(pattern):
        if token.startswith("\\") and len(token) > 1:
            parts.append(_STANDS_FOR.get(token[1], token[1]))
        elif token.startswith("[") and len(token) > 1:
            parts.append("x" if token[1] == "^" else token[1])
        elif token == _ANY:
            parts.append("x")
        elif len(token) == 1 and token not in _SYNTAX:
            parts.append(token)
    return "".join(parts)


def _texts(samples: list[str]) -> list[bytes]:
    """Glue beginnings of the samples together in ever new orders, so that the automaton meets new states all along."""
    chance = random.Random(1)  # noqa: S311 - the same texts every time
    texts = []
    for _ in range(_TEXTS):
        pieces: list[str] = []
        length = 0
        while length < _TEXT_BYTES:
            whole = chance.choice(samples) or "x"
            pieces.append(whole[: chance.randint(1, len(whole))])
            length += len(pieces[-1])
        texts.append("".join(pieces).encode("latin-1", "replace")[:_TEXT_BYTES])
    return texts


def _best(fresh: Callable[[], Callable[[bytes], object]], texts: list[bytes]) -> float:
    """Take the mean seconds per text with a fresh automaton, the best of some rounds; what is hopeless at once.

    The processor time of this thread, for other programs would be measured too.
    """
    best = float("inf")
    for _ in range(_ROUNDS):
        match = fresh()
        start = time.thread_time()
        for count, text in enumerate(texts, 1):
            match(text)
            if (mean := (time.thread_time() - start) / count) > _HOPELESS_SECONDS and count >= _FEW_TEXTS:
                return mean
        best = min(best, mean)
    return best
