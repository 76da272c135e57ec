"""A caller of the transport, with a kubeconfig of its own and a count of what it was told."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from runtime.rest import Rest, RestError

if TYPE_CHECKING:
    from pathlib import Path


class Caller:
    """A transport with a kubeconfig of its own, and what it has counted."""

    def __init__(self, folder: Path, url: str, **options: float) -> None:
        self.token_file = folder / "token"
        self.token_file.write_text("first")
        self.kubeconfig = folder / "kubeconfig"
        user = {"tokenFile": str(self.token_file)}
        config: dict[str, Any] = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(json.dumps(config))
        self.counted: Counter[tuple[str, str]] = Counter()
        self.rest = Rest(counted=self._count, environ={"KUBECONFIG": str(self.kubeconfig)}, **options)

    def _count(self, verb: str, code: str) -> None:
        self.counted[verb, code] += 1

    def get(self, read_seconds: float = 5.0) -> bytes:
        return self.rest.request("GET", "/api/v1/nodes/n", read_seconds=read_seconds)

    def fails(self, read_seconds: float = 5.0) -> RestError:
        with pytest.raises(RestError) as caught:
            self.get(read_seconds)
        return caught.value
