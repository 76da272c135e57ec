"""Processes that want to lead, and the Lease that they want, on a real API server.

It must not decide who leads.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from recovery.lease import NAME, WHOLE_SECONDS, Lease
from tests.kubernetes.asks import holder
from tests.kubernetes.recovering import rest_for

if TYPE_CHECKING:
    from tests.kubernetes.controlplane import ControlPlane
    from tests.kubernetes.faults import FaultProxy

_numbers = itertools.count()


class Replicas:
    """Processes that want to lead, one namespace for each test."""

    def __init__(self, plane: ControlPlane, proxy: FaultProxy) -> None:
        self.namespace = f"lead-{next(_numbers)}"
        self.seconds = 100.0
        self.proxy = proxy
        self._plane = plane
        self._admin = holder(plane, plane.admin_token)
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        assert self._admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}}).code == 201

    def make(self, name: str, *, proxied: bool = False, real_time: bool = False) -> Lease:
        """Make a process that is not started yet."""
        url = self.proxy.url if proxied else None
        kubeconfig = self._plane.kubeconfig_for(self._plane.admin_token, url=url)
        rest = rest_for(self._plane, kubeconfig=kubeconfig, whole_seconds=WHOLE_SECONDS)
        clock: dict[str, Any] = {} if real_time else {"seconds": lambda: self.seconds}
        return Lease(rest, self.namespace, name, **clock)

    def get(self) -> dict[str, Any]:
        """Return the Lease."""
        found: dict[str, Any] = self._admin.ask("GET", f"{self._path}/{NAME}").body
        return found

    def patch(self, body: dict[str, Any]) -> None:
        """Change the Lease as somebody else would."""
        done = self._admin.ask("PATCH", f"{self._path}/{NAME}", body, content_type="application/merge-patch+json")
        assert done.code == 200, done.text

    def delete(self) -> None:
        """Delete the Lease."""
        self._admin.ask("DELETE", f"{self._path}/{NAME}")
