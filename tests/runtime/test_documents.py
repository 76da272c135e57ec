"""YAML that people write, read strictly."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.documents import DocumentError, load_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", None),
        (b"# only a comment\n", None),
        (b"a: 1\nb: [x, 'y']\n", {"a": 1, "b": ["x", "y"]}),
        (b'{"a": {"b": true}}', {"a": {"b": True}}),
        (b"- a\n- a\n", ["a", "a"]),
        (b"a: {x: 1}\nb: {x: 1}\n", {"a": {"x": 1}, "b": {"x": 1}}),
        ("a: é\n".encode(), {"a": "é"}),
        (b"\xef\xbb\xbfa: 1\n", {"a": 1}),
    ],
)
def test_one_document_is_read(text: bytes, value: object) -> None:
    assert load_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"a: 1\nb: 2\na: 3\n", "line 3, column 1: key 'a' stands twice"),
        (b"x:\n  a: 1\n  a: 1\n", "line 3, column 3: key 'a' stands twice"),
        (b'{"a": 1, "a": 2}', "key 'a' stands twice"),
        (b"1: x\n1: y\n", "key 1 stands twice"),
        (b"a: 1\n---\nb: 2\n", "but found another document"),
        (b"a: [1, 2\n", "line 2, column 1: did not find expected ',' or ']'"),
        (b"\ta: 1\n", "line 1, column 1: found character that cannot start any token"),
        (b"a: *nowhere\n", "found undefined alias"),
        (b"a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        (b"a: \xff\n", "not UTF-8 at byte 4"),
        (b"\xff\xfe", "not UTF-8 at byte 1"),
        (b"a: \x00\n", "control characters are not allowed"),
        (b"? [a]\n: b\n", "unhashable"),
        (b"when: 2026-13-45\n", "month must be in 1..12"),
        (b"[" * 100_000, "exceeded maximum nesting depth"),
    ],
)
def test_what_looks_like_a_mistake_is_refused_with_its_place(text: bytes, says: str) -> None:
    with pytest.raises(DocumentError) as refused:
        load_yaml(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@given(text=st.one_of(st.binary(), st.text(alphabet="ab:-[]{}'\"&*!|>%@`#,? \n\t0.").map(str.encode)))
def test_no_bytes_whatever_do_more_than_be_refused(text: bytes) -> None:
    with contextlib.suppress(DocumentError):
        load_yaml(text)
