"""YAML files that people write, read strictly: what looks like a mistake is refused, with its place."""

from __future__ import annotations

from typing import Any

import yaml


class DocumentError(ValueError):
    """The text is not one plain YAML document; the message says where. It says nothing about the keys in it."""


class _StrictLoader(yaml.CSafeLoader):
    """A safe loader that refuses a key written twice, which YAML loaders otherwise resolve without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a dict of a mapping node.

        Raises:
            yaml.constructor.ConstructorError: a key stands twice.
        """
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def load_yaml(text: bytes) -> Any:
    """Read one YAML document (JSON is YAML too).

    Raises:
        DocumentError: not YAML, not UTF-8, several documents, or a key that stands twice.
    """
    try:
        text.decode("utf-8")  # else two bytes that mark UTF-16 would be an empty document
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8 at byte {error.start + 1}") from error
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a safe loader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise DocumentError(f"{where}{error.problem}") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise DocumentError(str(error).replace("\n", " ") or "not YAML") from error
