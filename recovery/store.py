"""Where the ledger and the pause switch are: in the cluster, or stand-alone in a directory.

Light on purpose: an operator's commands need no more than this, neither AWS nor detectors.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from recovery.ledger import KubeLedger
from recovery.ledger_file import FileLedger
from recovery.ports import Ledger
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


def place(settings: Settings) -> str:
    """Say what a command was about."""
    return (
        f"the cluster, namespace {settings.namespace}" if is_online(settings) else f"this machine, {settings.state_dir}"
    )
