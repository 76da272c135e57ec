"""A stand-in for the AWS CLI: the operations of botocore's own models, by the names that the CLI gives them.

The CLI itself pins another botocore than recovery's. This one knows no commands of the CLI's own (`s3 cp`,
`eks update-kubeconfig`), only operations of the API; a misspelt operation, a missing or unknown option and a value of
the wrong type are refused, as there. It sends what moto plays; what moto does not know ends after that check.

Source: AWS CLI user guide, "Specifying parameter values", "Using shorthand syntax" (read 2026-11-29).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.validate import validate_parameters

_UNPLAYED = {("eks", "CreatePodIdentityAssociation"), ("eks", "DeletePodIdentityAssociation"), ("eks", "CreateAddon")}
_UNPLAYED |= {("cloudformation", "CreateStack"), ("cloudformation", "DeleteStack")}
_UNPLAYED |= {("eks", "UpdateNodegroupConfig"), ("eks", "DescribeAddon"), ("eks", "ListPodIdentityAssociations")}


class UsageError(Exception):
    """The command line is not one of the CLI's."""


def main(arguments: list[str]) -> int:
    """Run one command."""
    region = os.environ["AWS_REGION"]
    service, name, *rest = _without_global_options(arguments)
    session = botocore.session.get_session()
    model = session.get_service_model(service)
    by_name = {xform_name(each, "-"): each for each in model.operation_names}
    if name not in by_name:
        raise UsageError(f"{service} has no {name}")
    operation = model.operation_model(by_name[name])
    shape: Any = operation.input_shape  # None: an operation without parameters
    parameters = _parameters(rest, shape)
    if shape is not None:
        validate_parameters(parameters, shape)
    if (service, operation.name) in _UNPLAYED:
        sys.stdout.write("{}\n")
        return 0
    client = session.create_client(service, region, endpoint_url=os.environ["DOCS_AWS_URL"])
    answer = getattr(client, xform_name(operation.name))(**parameters)
    answer.pop("ResponseMetadata", None)
    sys.stdout.write(json.dumps(answer, default=str, indent=4) + "\n")
    return 0


def _without_global_options(arguments: list[str]) -> list[str]:
    """Leave out what says where to ask and how to show the answer; `--query` is not played, so its words are not."""
    left = list(arguments)
    for option in ("--region", "--output", "--query", "--max-items"):
        if option in left:
            at = left.index(option)
            del left[at : at + 2]
    return left


def _parameters(words: list[str], shape: Any) -> dict[str, Any]:
    members = {xform_name(name, "-"): (name, member) for name, member in shape.members.items()} if shape else {}
    given: dict[str, list[str]] = {}
    option = ""
    for word in words:
        if word.startswith("--"):
            option = word.removeprefix("--")
            given[option] = []
        else:
            given[option].append(word)
    result = {}
    for option, values in given.items():
        name = option.removeprefix("no-") if option not in members else option
        if option == "cli-input-json":
            result.update(json.loads(_text(values[0])))
        elif name not in members:
            raise UsageError(f"unknown option --{option} (there are: {', '.join(members)})")
        else:
            key, member = members[name]
            result[key] = option == name if member.type_name == "boolean" else _value(values, member)
    return result


def _value(values: list[str], shape: Any) -> Any:
    """Read an option's words as the type that the API wants."""
    texts = [_text(value) for value in values]
    if shape.type_name == "list" and not texts[0].startswith("["):
        return [_one(text, shape.member) for text in texts]
    if len(texts) != 1:
        raise UsageError(f"one value wanted, not {values}")
    return _one(texts[0], shape)


def _one(text: str, shape: Any) -> Any:
    if shape.type_name in ("structure", "map", "list"):
        return json.loads(text) if text[:1] in "[{" else _shorthand(text, shape)
    if shape.type_name in ("integer", "long"):
        return int(text)
    return text


def _shorthand(text: str, shape: Any) -> dict[str, Any]:
    """Read `Key=a,Value=b`; deeper structures are written as JSON."""
    if shape.type_name == "map":
        return dict(part.split("=", 1) for part in text.split(","))
    pairs = dict(part.split("=", 1) for part in text.split(","))
    if unknown := pairs.keys() - shape.members.keys():
        raise UsageError(f"unknown keys {sorted(unknown)} (there are: {', '.join(shape.members)})")
    return {key: _typed(value, shape.members[key]) for key, value in pairs.items()}


def _typed(value: str, shape: Any) -> Any:
    return value == "true" if shape.type_name == "boolean" else _one(value, shape)


def _text(value: str) -> str:
    return Path(value.removeprefix("file://")).read_text(encoding="utf-8") if value.startswith("file://") else value


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Exception as error:  # noqa: BLE001 - as the CLI: one sentence and an exit code
        sys.stderr.write(f"aws: {type(error).__name__}: {error}\n")
        sys.exit(252)
