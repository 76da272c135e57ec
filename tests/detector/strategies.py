"""Random kernel logs and random patterns, hostile more often than chance would have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from detector.model import KernelMessage, Metadata, Rule, RuleSet
from detector.parse import to_record
from detector.patterns import PatternError, compile_one
from runtime.vocabulary import Facility

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBERS = st.integers(0, 2**64 - 1)
LONGEST_RECORD_BYTES = 2048

# Patterns that are easy to get wrong when anchors are dropped, records joined, or beginnings left out.
NASTY_PATTERNS: Sequence[str] = (
    r"^alpha",
    r"alpha$",
    r"^alpha$",
    r"\Aalpha",
    r"alpha\z",
    r"(?m)^beta",
    r"(?m)beta$",
    r"(?s)alpha.beta",
    r"(?s)\Aalpha.*beta\z",
    r"(?i)^ALPHA\b",
    r"\balpha\b",
    r"\Balpha\B",
    r"(?:^|[\s:\]])alpha(?:[\s,;.]|$)",
    r"[$^]alpha",
    r"[]^$]beta",
    r"[^]^$]beta$",
    r"[[:]alpha$",
    r"^[[:^alpha:]]beta",
    r"[\]^$]alpha$",
    r"\Q^alpha$\E$",
    r"^\Qa.b\E",
    r"(?:alpha|^beta){1,2}$",
    r"^{2}alpha",
    r"(?:^|x){1,2}beta",
    r"(?:x)?alpha",
    r"(?:x|^)?alpha",
    r"(?P<device>[0-9]+)? ?alpha",
    r"(?:(?:^|x)a|b)?^alpha",
    r"^alpha|beta$|gamma",
    r"(?:alpha|beta)?|x$",
    r"(?:)(?:^)(x*)beta",
    r"(?i:ALPHA)$",
    r"(?i)(?:^|beta)?gamma",
    r"(?-s)alpha.beta$",
    r"(?U)^alpha.*beta",
    r"\p{^L}alpha$",
    r"^\P{L}beta",
    r"\x{5e}alpha",
    r"\^alpha\$",
    r"\\alpha",
    r"\nalpha",
    r"alpha\s+beta$",
    r"alpha[^x]beta",
    r"\xffalpha",
    r"[\x80-\xff]+$",
    r";alpha",
    r" KEY=alpha",
    r"^(a*)*alpha$",
    r"(?:^|\n)(?:(?:\w*[^\n\w'\"]|\"[^\"\n]*\")*\w*[ \t\r:\]])?alpha(?:[\s,;]|$)",
)

_PIECES = (b"alpha", b"ALPHA", b"beta", b"gamma", b"a", b"x", b"^", b"$", b"]", b"[", b":", b".", b"7", b"_")
_ODD_PIECES = (b"\n", b"\t", b"\\", b"\xff", b"\xc3\xa9", b'"', b"'", b";", b",", b" ", b"alpha\nbeta", rb"\x61")
TEXTS = st.lists(st.sampled_from([*_PIECES, *_ODD_PIECES]), max_size=6).map(b"".join)
_RAW_PIECES = (
    *_PIECES,
    rb"\x",
    rb"\x0",
    rb"\xFF",
    rb"\x0a",
    rb"\x5c",
    rb"\x61lpha",
    rb"\xffalpha",
    b";",
    b" ",
    b"\xff",
)
_RAW_TEXTS = st.lists(st.sampled_from(_RAW_PIECES), max_size=6).map(b"".join)
_DICTIONARIES = st.dictionaries(
    st.sampled_from(["SUBSYSTEM", "DEVICE", "KEY", "alpha"]), st.sampled_from(["alpha", "beta", "a\nb", "é", ""])
)
_HEADERS = st.sampled_from(
    [
        b"3,1,5,-",
        b"3,1,5,c",
        b"11,2,6,-,caller=T1",
        b"30,3,7,-",
        b"6,18446744073709551615,0,-,caller=C3,new=1",
        b"3,1,5",
    ]
)
_BROKEN_HEADERS = st.sampled_from(
    [b"", b"3", b"3,1", b"3,1,x,-", b"x,1,5,-", b"3,1,99999999999999999999,-", b"alpha", b"11"]
)

messages = st.builds(
    KernelMessage,
    facility=st.integers(0, 2**29 - 1),
    level=st.integers(0, 7),
    sequence=NUMBERS,
    timestamp_us=NUMBERS,
    flags=st.sampled_from(["-", "c", "+", "\xff"]),
    text=st.binary(max_size=80) | TEXTS,
    dictionary=st.dictionaries(
        st.text(st.characters(codec="latin-1", exclude_characters="=\n"), max_size=9),
        st.text(st.characters(codec="utf-8"), max_size=9),
        max_size=3,
    ),
)


def _raw(header: bytes, text: bytes, dictionary: dict[str, str]) -> bytes:
    lines = b"".join(b" %s=%s\n" % (key.encode(), value.encode()) for key, value in dictionary.items())
    return header + b";" + text + b"\n" + lines


def _small(facility: int, seconds: int, text: bytes, dictionary: dict[str, str]) -> bytes:
    return to_record(
        KernelMessage(
            facility=facility, level=3, sequence=seconds, timestamp_us=seconds, text=text, dictionary=dictionary
        )
    )


def _cut(record: bytes, filler: int) -> bytes:
    """Cut a record as the kernel does: 2,048 bytes, the last of them the newline."""
    header, _, rest = record.partition(b";")
    return (header + b";" + rb"\xff" * filler + rest)[: LONGEST_RECORD_BYTES - 1] + b"\n"


_good_records = st.builds(_small, st.sampled_from([0, 0, 0, 1, 3]), st.integers(0, 9), TEXTS, _DICTIONARIES)
_raw_records = st.builds(_raw, _HEADERS | _BROKEN_HEADERS, _RAW_TEXTS, _DICTIONARIES)
_cut_records = st.builds(_cut, _good_records, st.integers(500, 512))
records = _good_records | _raw_records | _cut_records
batches = st.lists(records, max_size=12)
any_bytes = st.binary(max_size=60) | st.builds(
    _raw, st.binary(max_size=9) | _HEADERS, st.binary(max_size=60), st.just({})
)

_PLAIN_ATOMS = ("a", "b", "x", "alpha", ".", ";", " ", r"\w", r"\s", r"\S", r"\n", r"\\", r"\xff", r"\^", r"\$")
_EDGE_ATOMS = (r"\b", r"\B", "^", "$", r"\A", r"\z")
_CLASS_ATOMS = ("[ab]", "[^a]", "[$^x]", "[]a]", "[^]a]", r"[\]^]", "[[:]", "[[:alpha:]^]", r"\Q^a$\E", r"\p{^L}")
_ATOMS = st.sampled_from([*_PLAIN_ATOMS, *_EDGE_ATOMS, *_CLASS_ATOMS])
_REPEATS = st.sampled_from(["", "", "", "", "?", "*", "+", "??", "*?", "{2}", "{0,2}", "{1,}"])
_OPENINGS = st.sampled_from(["(?:", "(", "(?i:", "(?s:", "(?m:", "(?P<n>"])


def _repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(str.__add__, inner, _REPEATS)


def _composed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequences = st.lists(inner, min_size=1, max_size=4).map("".join)
    choices = st.lists(sequences, min_size=2, max_size=3).map("|".join)
    groups = st.builds("{}{})".format, _OPENINGS, choices | sequences | sequences.map("|{}".format))
    return choices | sequences | _repeated(groups)


def _is_usable(pattern: str) -> bool:
    """Tell whether rule files may hold the pattern: RE2 takes it and it does not match an empty text."""
    try:
        return compile_one(pattern).search(b"") is None
    except PatternError:
        return False


_grammar = st.recursive(_repeated(_ATOMS), _composed, max_leaves=12)
patterns = st.builds(str.__add__, st.sampled_from(["", "", "", "(?i)", "(?s)", "(?m)", "(?ms)"]), _grammar).filter(
    _is_usable
)
any_patterns = st.sampled_from(NASTY_PATTERNS) | patterns

_rules = st.builds(
    Rule,
    reason=st.sampled_from(["A", "B", "C"]),
    pattern=any_patterns,
    condition=st.sampled_from([None, "Bad"]),
    fallback=st.sampled_from([False, False, True]),
    facilities=st.sampled_from([(Facility.KERN, Facility.USER), (Facility.KERN,), (Facility.USER,)]),
)


def rule_sets(name: str) -> st.SearchStrategy[RuleSet]:
    """Make rule sets as the matcher takes them; their rules need not agree with each other."""
    return st.builds(
        RuleSet,
        api_version=st.just("chipwarden.io/v1"),
        kind=st.just("RuleSet"),
        metadata=st.just(Metadata(name=name)),
        ignore=st.lists(any_patterns, max_size=1).map(tuple),
        rules=st.lists(_rules, min_size=1, max_size=5).map(tuple),
    )
