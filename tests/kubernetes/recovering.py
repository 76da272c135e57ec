"""Recovery's hands on a real API server: transports, entries of the ledger, Nodes without a machine, a clock to turn.

It must not stand in for anything of recovery's own.
"""

from __future__ import annotations

import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from recovery.drain import Drain
from recovery.events import Events
from recovery.kube import KubeNodes
from recovery.model import Entry, LedgerBody, State
from runtime.rest import Rest
from runtime.vocabulary import Action, FaultClass
from tests.kubernetes.asks import holder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.client import Client

NOW = datetime(2026, 11, 29, 10, 15, 30, tzinfo=UTC)
PROVIDER = "aws:///us-east-2b/i-0123456789abcdef0"
INSTANCE = "i-0123456789abcdef0"
_numbers = itertools.count()


class TurnedClock:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return 1000.0 + self.passed


class RunningClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def rest_for(plane: Client, *, kubeconfig: Path | None = None, whole_seconds: float = 15.0) -> Rest:
    """Make a transport.

    Args:
        plane: the API server.
        kubeconfig: None = the administrator's.
        whole_seconds: as `Rest` takes it.
    """
    environ = {"KUBECONFIG": str(kubeconfig or plane.kubeconfig)}
    return Rest(counted=lambda _verb, _code: None, environ=environ, whole_seconds=whole_seconds)


def rest_to(url: str, folder: Path) -> Rest:
    """Make a transport to a stand-in.

    Args:
        url: where it listens.
        folder: for the kubeconfig.
    """
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return Rest(counted=lambda _verb, _code: None, environ={"KUBECONFIG": str(path)})


def entry(**changes: Any) -> Entry:
    """Make an entry of the ledger; each has an id of its own."""
    values: dict[str, Any] = {
        "id": f"e{next(_numbers)}",
        "node": "n",
        "uid": "u",
        "instance": INSTANCE,
        "group": "g",
        "reason": "NeuronHasError_DMA_ERROR",
        "class_": FaultClass.DEAD,
        "action": Action.REPLACE,
        "state": State.FENCED,
        "fenced_at": NOW,
        **changes,
    }
    return Entry(**values)


def ledger(*entries: Entry, **changes: Any) -> LedgerBody:
    """Make a ledger."""
    return LedgerBody(entries=entries, **changes)


class Hands:
    """Nodes and Events on a real API server.

    Args:
        plane: the API server.
        kubeconfig: None = the administrator's.
    """

    def __init__(self, plane: Client, *, kubeconfig: Path | None = None) -> None:
        self.plane = plane
        self.clock = TurnedClock()
        self.rest = rest_for(plane, kubeconfig=kubeconfig)
        self.events = Events(rest_for(plane, kubeconfig=kubeconfig), self.clock)
        self.drain = Drain(self.rest, self.clock)
        self.nodes = KubeNodes(self.rest, drain=self.drain, events=self.events)
        self.events.start()

    def close(self) -> None:
        """End the thread."""
        self.events.close()


class OnNode:
    """A Node that no kubelet stands behind.

    Args:
        plane: the API server.
        provider_id: None for none.
        spec: more of its spec.
        annotations: of its metadata.
        labels: of its metadata.
        name: None = a new one.
    """

    def __init__(
        self,
        plane: Client,
        *,
        provider_id: str | None = PROVIDER,
        spec: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or f"recovered-{next(_numbers)}"
        self.path = f"/api/v1/nodes/{self.name}"
        self.admin = holder(plane, plane.admin_token)
        metadata: dict[str, Any] = {"name": self.name, "labels": labels or {}}
        if annotations is not None:
            metadata["annotations"] = annotations
        body = {"metadata": metadata, "spec": {**({"providerID": provider_id} if provider_id else {}), **(spec or {})}}
        made = self.admin.ask("POST", "/api/v1/nodes", body)
        assert made.code == 201, made.text
        self.uid: str = made.body["metadata"]["uid"]
        self.patch({"spec": {"taints": (spec or {}).get("taints", [])}})  # the server adds not-ready to a new Node

    def get(self) -> dict[str, Any]:
        """Return the object."""
        found: dict[str, Any] = self.admin.ask("GET", self.path).body
        return found

    def annotations(self) -> dict[str, str]:
        """Return its annotations."""
        return self.get()["metadata"].get("annotations") or {}

    def taints(self) -> list[dict[str, str]]:
        """Return its taints."""
        return self.get()["spec"].get("taints") or []

    def is_cordoned(self) -> bool:
        """Tell whether it is cordoned."""
        return bool(self.get()["spec"].get("unschedulable"))

    def patch(self, body: Any, subresource: str = "") -> None:
        """Change it as somebody else would."""
        done = self.admin.patch(self.path + subresource, body)
        assert done.code == 200, done.text

    def delete(self) -> None:
        """Delete it."""
        self.admin.ask("DELETE", self.path)
