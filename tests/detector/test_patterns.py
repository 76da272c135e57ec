"""RE2 patterns: what is refused, and that a loosened pattern never dismisses what the strict one finds."""

from __future__ import annotations

import re

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from detector.patterns import Automaton, PatternError, compile_one, group_names, options, relax, tokens
from tests.detector.strategies import NASTY_PATTERNS, TEXTS, any_patterns

REFUSED = (
    (r"(?=a)b", "invalid perl operator"),
    (r"(a)\1", "invalid escape sequence"),
    (r"a{1001}", "invalid repetition size"),
    (r"a++", "bad repetition operator"),
    (r"a\Z", "invalid escape sequence"),
    ("(a", "missing )"),
    ("[a", "missing ]"),
    ("a\\", "trailing"),
    (r"\p{Klingon}", "invalid character class range"),
    (r"(?P<n>a)(?P<n>b)", "group name used twice: n"),
    (r"(?P<n>a)|(?<n>b)", "group name used twice: n"),
    (r"((.{100}){100}){100}", "invalid repetition size"),
    ("\u2192", "only characters up to U"),
    ("Ger\u00e4t", r"write \xc3\xa4 for it"),
)


@pytest.mark.parametrize(("pattern", "why"), REFUSED)
def test_a_pattern_that_re2_cannot_take_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=re.escape(why)):
        compile_one(pattern)


def test_patterns_that_need_too_much_memory_together_are_refused() -> None:
    with pytest.raises(PatternError, match="more than 2 MiB"):
        Automaton([f"(?:a{n}.{{200}}){{4}}" for n in range(60)])


def test_an_automaton_without_patterns_matches_nothing() -> None:
    assert Automaton([]).match(bytes(range(256))) == []


def test_an_automaton_tells_all_patterns_that_match() -> None:
    assert sorted(Automaton(["a", "b$", "^b"]).match(b"ab")) == [0, 1]


@pytest.mark.parametrize("pattern", [r"NVRM: .*Reset", r"NVRM: [^a]+Reset"])
def test_an_invalid_utf8_byte_hides_no_match(pattern: str) -> None:
    assert Automaton([pattern]).match(b"NVRM: \xff Reset") == [0]
    assert compile_one(pattern).search(b"NVRM: \xff Reset")


def test_every_pattern_is_matched_by_re2_which_is_linear() -> None:
    assert type(compile_one("(a*)*b")) is type(re2.compile(b"a", options()))
    assert not compile_one("(a*)*(a*)*(a|aa)*b").search(b"a" * 100_000)
    assert Automaton(["(a*)*(a*)*(a|aa)*b"]).match(b"a" * 100_000) == []


def test_group_names_are_listed_in_order() -> None:
    assert group_names(r"(?P<a>x)(?<b>y)(?:z)[(?P<c>](\(?P<d>)\Q(?P<e>\E(?i)(?P<f") == ["a", "b"]


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (r"a\.b", ["a", r"\.", "b"]),
        (r"[]a][^]a][\]a]", ["[]a]", "[^]a]", r"[\]a]"]),
        (r"[[:]^", ["[[:]", "^"]),
        (r"[[:]]^", ["[[:]", "]", "^"]),
        (r"[[:alpha:]^]$", ["[[:alpha:]^]", "$"]),
        (r"\Q^\E^\Q$", [r"\Q^\E", "^", r"\Q$"]),
        (r"\p{^Greek}\pL\p{L}$", [r"\p{^Greek}", r"\p", "L", r"\p{L}", "$"]),
        (r"(?P<n>a)(?P<n", ["(?P<n>", "a", ")", "(", "?", "P", "<", "n"]),
        ("a\\", ["a", "\\"]),
        ("[a", ["[a"]),
    ],
)
def test_a_pattern_falls_into_its_tokens(pattern: str, parts: list[str]) -> None:
    assert tokens(pattern) == parts


@pytest.mark.parametrize(
    ("strict", "loose"),
    [
        (r"^alpha$", "alpha(?:)"),
        (r"\Aalpha\z", "alpha(?:)"),
        (r"(?:^|[\s:\]])alpha(?:\s|$)", r"alpha(?:\s|(?:))"),
        (r"(?:^|x)??alpha", "alpha"),
        (r"(?:^|x)+alpha", "(?:(?:)|x)+alpha"),
        (r"(x)*?(y)?(?P<n>z)?alpha", "alpha"),
        (r"(^|x)(?P<n>^|y)alpha", "alpha"),
        (r"(x)alpha", "(x)alpha"),
        (r"(?:x|^)alpha", "(?:x|(?:))alpha"),
        (r"^{2}alpha", "(?:){2}alpha"),
        (r"^*alpha", "(?:)*alpha"),
        (r"(?:x)?alpha|beta", "(?:x)?alpha|beta"),
        (r"(?:x)?(?i)alpha", "(?:x)?(?i)alpha"),
        (r"(?:x)?", "(?:x)?"),
        (r"[$^]\$\^\Q^$\E", r"[$^]\$\^\Q^$\E"),
        (r"\p{^L}^alpha", r"\p{^L}(?:)alpha"),
    ],
)
def test_anchors_and_beginnings_that_may_match_nothing_are_dropped(strict: str, loose: str) -> None:
    assert relax(strict) == loose


def test_a_pattern_with_unbalanced_brackets_is_loosened_without_a_crash() -> None:
    assert relax("(?:^|(a") == "(?:(?:)|(a"


@pytest.mark.parametrize("pattern", NASTY_PATTERNS)
def test_each_nasty_pattern_can_be_loosened(pattern: str) -> None:
    compile_one(pattern)
    Automaton([relax(pattern)])


@settings(deadline=None, max_examples=400)
@given(any_patterns, TEXTS, st.binary(max_size=9), st.binary(max_size=9))
@example("[[:]^alpha", b":alpha", b"", b"")
@example(r"(?:^|x)alpha", b"alpha", b"", b"")
def test_loosening_never_dismisses(pattern: str, text: bytes, before: bytes, after: bytes) -> None:
    """What the strict pattern finds in a text, the loose one finds behind a header and among other records."""
    if compile_one(pattern).search(text):
        joined = before + b"3,1,5,-;" + text + b"\n" + after
        assert Automaton([relax(pattern)]).match(joined) == [0]
        assert compile_one(relax(pattern)).search(joined)
