"""A Node of a test's own on the real API server, as its administrator sees and changes it.

Its detector speaks through a ServiceAccount of its own with the rights of the contract, so that the audit log tells
what it asked for. Nothing here knows what a test is about.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from tests.detector.process import Detector, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from tests.kubernetes.audit import Request
    from tests.kubernetes.controlplane import ControlPlane

KIND = "NeuronHasError"
_NAMESPACE = "detectors"
_STRATEGIC = "application/strategic-merge-patch+json"
_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]


class State(NamedTuple):
    """A condition as a watch saw it."""

    at: float  # monotonic seconds
    status: str
    reason: str
    transition: str


class OwnNode:
    """A Node, the account of its detector, and the detectors started for it.

    Args:
        plane: the API server.
        folder: for the detector's files.
        provider_id: of the Node.
        exists: False = it will be created later.
        instance: of its detector; None = a new one.
    """

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        provider_id: str | None = None,
        exists: bool = True,
        instance: str | None = None,
    ) -> None:
        self.plane = plane
        self.name = f"node-{secrets.token_hex(5)}"
        self.path = f"/api/v1/nodes/{self.name}"
        self._provider_id = provider_id
        self._account()
        self.token_file = folder / f"{self.name}.token"
        self.token_file.write_text(self.token())
        self.kubeconfig = plane.kubeconfig_for(self.token_file)
        folder = folder / self.name
        folder.mkdir()
        self.detector = Detector(folder, instance=instance)
        self._since = plane.audit_offset()
        if exists:
            self.create()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detector.kill()

    def _account(self) -> None:
        group = {"kind": "Group", "name": f"system:serviceaccounts:{_NAMESPACE}", "apiGroup": _RBAC}
        role = {"kind": "ClusterRole", "name": _NAMESPACE, "apiGroup": _RBAC}
        self._make("/api/v1/namespaces", metadata={"name": _NAMESPACE})
        self._make(f"/apis/{_RBAC}/v1/clusterroles", metadata={"name": _NAMESPACE}, rules=_RULES)
        self._make(
            f"/apis/{_RBAC}/v1/clusterrolebindings", metadata={"name": _NAMESPACE}, roleRef=role, subjects=[group]
        )
        self._make(f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts", metadata={"name": self.name})

    def _make(self, path: str, **keys: Any) -> None:
        status, answer = self.ask("POST", path, keys)
        assert status in (201, 409), answer

    def token(self, *, secret: str | None = None) -> str:
        """Get a token for the detector.

        Args:
            secret: a Secret to make, whose end is the token's end too; None = for an hour.
        """
        spec: dict[str, Any] = {}
        if secret is not None:
            self._make(f"/api/v1/namespaces/{_NAMESPACE}/secrets", metadata={"name": secret})
            spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret}}
        path = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/{self.name}/token"
        return str(self.do("POST", path, {"spec": spec})["status"]["token"])

    def revoke(self, token: str, secret: str) -> None:
        """End a token, and wait until the API server, which remembers for 10 s, refuses it."""
        self.do("DELETE", f"/api/v1/namespaces/{_NAMESPACE}/secrets/{secret}")
        until(lambda: self.ask("GET", self.path, token=token)[0] == 401, seconds=20, what="refused")

    def ask(
        self,
        verb: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        token: str | None = None,
    ) -> tuple[int, Any]:
        """Ask the API server something; without a token as its administrator."""
        headers = {"Authorization": f"Bearer {token or self.plane.admin_token}", "Content-Type": content_type}
        with contextlib.closing(_connect(self.plane)) as connection:
            connection.request(verb, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def do(self, verb: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Ask for something that has to succeed."""
        status, answer = self.ask(verb, path, body, content_type)
        assert 200 <= status < 300, answer
        return answer

    def create(self) -> None:
        """Create the Node, as a kubelet does that has not said anything yet."""
        spec = {"providerID": self._provider_id} if self._provider_id else {}
        self.do("POST", "/api/v1/nodes", {"metadata": {"name": self.name}, "spec": spec})

    def delete(self) -> None:
        """Delete the Node object."""
        self.do("DELETE", self.path)

    def get(self) -> dict[str, Any]:
        """Read the Node."""
        return dict(self.do("GET", self.path))

    def patch(self, body: Any) -> None:
        """Change metadata or spec."""
        self.do("PATCH", self.path, body, _STRATEGIC)

    def patch_status(self, status: Any, annotations: dict[str, str] | None = None) -> None:
        """Change the status, as a kubelet or another agent does."""
        body = {"status": status, "metadata": {"annotations": annotations or {}}}
        self.do("PATCH", f"{self.path}/status", body, _STRATEGIC)

    def annotate(self, **annotations: str | None) -> None:
        """Set annotations of chipwarden.io; None removes one."""
        self.patch({"metadata": {"annotations": {f"chipwarden.io/{name}": v for name, v in annotations.items()}}})

    def annotation(self, name: str) -> str | None:
        """Read an annotation of chipwarden.io."""
        found = self.get()["metadata"].get("annotations", {}).get(f"chipwarden.io/{name}")
        return None if found is None else str(found)

    def conditions(self) -> dict[str, dict[str, str]]:
        """Read the conditions by type."""
        return {each["type"]: each for each in self.get()["status"].get("conditions") or ()}

    def condition(self, kind: str = KIND) -> dict[str, str]:
        """Read one condition; {} = there is none."""
        return self.conditions().get(kind, {})

    def status(self, kind: str = KIND) -> str | None:
        """Read one condition's status."""
        return self.condition(kind).get("status")

    def is_true(self) -> bool:
        """Tell whether the Node says that it is faulty."""
        return self.status() == "True"

    def events(self, reason: str | None = None) -> list[dict[str, Any]]:
        """List the Events about the Node."""
        which = quote(f"involvedObject.name={self.name}" + (f",reason={reason}" if reason else ""))
        return list(self.do("GET", f"/api/v1/namespaces/default/events?fieldSelector={which}")["items"])

    def asked(self, verb: str | None = None, part: str = "", since: int | None = None) -> list[Request]:
        """List what the detector has asked the API server.

        Args:
            verb: Kubernetes' own; None = all.
            part: of the path.
            since: from `mark`; None = everything.
        """
        user = f"system:serviceaccount:{_NAMESPACE}:{self.name}"
        found = self.plane.requests(since=self._since if since is None else since, user=user, verb=verb)
        return [each for each in found if part in each.uri]

    def patches(self, since: int | None = None) -> int:
        """Count the PATCHes of the Node's status."""
        return len(self.asked("patch", "/status", since))

    def mark(self) -> int:
        """Tell where the list of requests ends now."""
        return self.plane.audit_offset()

    def start(self, *arguments: str | Path, kubeconfig: Path | None = None, **options: Any) -> Detector:
        """Start the detector, with the same files as before."""
        env = {"KUBECONFIG": str(kubeconfig or self.kubeconfig), **options.pop("env", {})}
        return self.detector.start("--kubernetes", "on", "--node-name", self.name, *arguments, env=env, **options)

    def wait_for(self, status: str, kind: str = KIND, seconds: float = 10.0) -> dict[str, str]:
        """Wait until a condition has a status, and return it."""
        return self.wait_until(lambda condition: condition["status"] == status, kind, seconds)

    def wait_until(
        self, matches: Callable[[dict[str, str]], bool], kind: str = KIND, seconds: float = 10.0
    ) -> dict[str, str]:
        """Wait until a condition is as wanted, and return it."""

        def is_so() -> list[dict[str, str]]:
            return [found for found in (self.condition(kind),) if found and matches(found)]

        return until(is_so, seconds=seconds, what=f"{self.name}'s condition")[0]

    def watch(self, kind: str = KIND) -> Watch:
        """Watch a condition from now on."""
        return Watch(self, kind)


_RBAC = "rbac.authorization.k8s.io"


def _connect(plane: ControlPlane) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=plane.authority)
    return http.client.HTTPSConnection(plane.url.removeprefix("https://"), timeout=60, context=context)


class Watch:
    """A watch of one Node, which misses nothing while the API server runs.

    Args:
        node: the Node.
        kind: the condition.
    """

    def __init__(self, node: OwnNode, kind: str) -> None:
        self.states: list[State] = []
        self._kind = kind
        version = node.get()["metadata"]["resourceVersion"]
        which = f"watch=1&fieldSelector=metadata.name={node.name}&resourceVersion={version}"
        self._connection = _connect(node.plane)
        self._connection.request(
            "GET", f"/api/v1/nodes?{which}", headers={"Authorization": f"Bearer {node.plane.admin_token}"}
        )
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._answer.close()
        self._connection.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while line := self._answer.readline():
                at, node = time.monotonic(), json.loads(line)["object"]
                for each in node.get("status", {}).get("conditions") or ():
                    if each["type"] == self._kind:
                        self.states.append(State(at, each["status"], each["reason"], each["lastTransitionTime"]))

    def statuses(self) -> set[str]:
        """Tell which statuses it has seen."""
        return {state.status for state in self.states}

    def first(self, matches: Callable[[State], bool], seconds: float = 10.0) -> State:
        """Wait for a state and return it."""
        found = until(lambda: [state for state in list(self.states) if matches(state)], seconds=seconds)
        return found[0]
