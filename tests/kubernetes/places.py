"""Where a ledger may be kept: a namespace of a real API server, or a state directory.

It must not read or write what only a ledger may.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from recovery.ledger import KubeLedger
from recovery.ledger_file import FileLedger
from tests.kubernetes.asks import holder
from tests.kubernetes.recovering import RunningClock, rest_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_numbers = itertools.count()


class Place(Protocol):
    """Where a ledger is kept."""

    def make(self) -> KubeLedger | FileLedger: ...

    def put(self, text: str) -> None: ...

    def text(self) -> str: ...

    def remove(self) -> None: ...


class InCluster:
    """A namespace."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = holder(plane, plane.admin_token)
        self.namespace = f"ledger-{next(_numbers)}"
        self.path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        assert self.admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}}).code == 201

    def make(self, kubeconfig: Path | None = None) -> KubeLedger:
        return KubeLedger(rest_for(self.plane, kubeconfig=kubeconfig), self.namespace, RunningClock())

    def put(self, text: str) -> None:
        self.create("recovery-ledger", data={"ledger.json": text})

    def create(self, name: str, **content: Any) -> None:
        assert self.admin.ask("POST", self.path, {"metadata": {"name": name}, **content}).code == 201

    def get(self, name: str = "recovery-ledger") -> dict[str, Any]:
        found: dict[str, Any] = self.admin.ask("GET", f"{self.path}/{name}").body
        return found

    def text(self) -> str:
        return str(self.get()["data"]["ledger.json"])

    def remove(self) -> None:
        assert self.admin.ask("DELETE", f"{self.path}/recovery-ledger").code == 200


class InFolder:
    """A state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"

    def make(self) -> FileLedger:
        return FileLedger(str(self.folder), RunningClock())

    def put(self, text: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "ledger.json").write_text(text)

    def text(self) -> str:
        return (self.folder / "ledger.json").read_text()

    def remove(self) -> None:
        (self.folder / "ledger.json").unlink()
