"""Where the ledger and the pause switch are: in the cluster, or stand-alone in a directory.

Light on purpose: an operator's commands need no more than this, neither AWS nor detectors.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from recovery import api
from recovery.lease import NAME as LEASE
from recovery.ledger import LEDGER, KubeLedger, ledger_path
from recovery.ledger_file import FileLedger
from recovery.pods import DETECTOR_APP
from recovery.ports import Ledger, PortError
from recovery.settings import Kubernetes
from runtime.clock import SystemClock
from runtime.rest import WHOLE_SECONDS, Rest, is_configured

if TYPE_CHECKING:
    from recovery.settings import Settings


class Store(Ledger, Protocol):
    """A ledger and the switch that pauses recovery."""

    def pause(self, why: str) -> None:
        """Pause recovery. Raises PortError."""

    def resume(self) -> None:
        """Let recovery go on. Raises PortError."""


def is_online(settings: Settings) -> bool:
    """Tell whether there is an API server."""
    if settings.kubernetes is Kubernetes.AUTO:
        return is_configured(os.environ)
    return settings.kubernetes is Kubernetes.ON


def transport(whole_seconds: float = WHOLE_SECONDS) -> Rest:
    """Make a way to the API server for one thread.

    Args:
        whole_seconds: how long an answer may take.
    """
    return Rest(counted=lambda _verb, _code: None, environ=os.environ, whole_seconds=whole_seconds)


def store(settings: Settings) -> Store:
    """Open the ledger; nothing is read yet."""
    if is_online(settings):
        return KubeLedger(transport(), settings.namespace, SystemClock())
    return FileLedger(settings.state_dir, SystemClock())


def is_here(settings: Settings) -> bool:
    """Tell whether recovery or detectors are, or were, where a command is about; what cannot be read may be there.

    A pause in a wrong namespace pauses nobody, and whoever relies on it is worse off than without. A machine may be
    paused before recovery is started on it for the first time.
    """
    if not is_online(settings):
        return True
    rest, namespace = transport(), quote(settings.namespace, safe="")
    signs = (
        f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}",
        f"{ledger_path(settings.namespace)}/{LEDGER}",
        f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{DETECTOR_APP}",
    )
    return any(_may_be_there(rest, path) for path in signs)


def _may_be_there(rest: Rest, path: str) -> bool:
    try:
        api.ask(rest, "GET", path)
    except PortError as error:
        return not error.gone
    return True


def place(settings: Settings) -> str:
    """Say what a command was about."""
    return (
        f"the cluster, namespace {settings.namespace}" if is_online(settings) else f"this machine, {settings.state_dir}"
    )
