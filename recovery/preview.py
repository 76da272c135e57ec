"""The command `plan`: two passes that only tell what they would do.

It reads what recovery reads, with the rights of whoever calls it, and neither leads nor writes.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from recovery.confirm import POLLS_TO_AGREE
from recovery.controller import Controller
from recovery.lease import Alone
from recovery.parts import make, rules_of
from recovery.pods import DetectorPods
from recovery.progress import Progress
from recovery.proxied import ProxiedFleet
from recovery.store import is_online, transport
from runtime import logs
from runtime.clock import SystemClock

if TYPE_CHECKING:
    from recovery.decision import Snapshot
    from recovery.parts import Parts
    from recovery.ports import Fleet
    from recovery.settings import Settings

_BETWEEN_SECONDS: Final = 0.2


class _NoPoints:
    """In place of CloudWatch."""

    def publish(self, counts: dict[str, int], nodes: dict[str, tuple[str, ...]]) -> None:
        """Send nothing."""


def preview(settings: Settings) -> Snapshot:
    """Tell what would be done now.

    Raises:
        SettingsError: the Region cannot be found out.
    """
    logs.setup(log_format=settings.log_format, level="error")
    progress = Progress()
    parts = make(settings, lambda _call, _outcome: None, is_dry=True)
    controller = Controller(
        rules=rules_of(settings),
        fleet=_fleet(settings, parts, progress),
        nodes=parts.nodes,
        ledger=parts.ledger,
        lead=Alone(),
        cloud=parts.cloud,
        karpenter=parts.karpenter,
        points=_NoPoints(),
        is_dry=True,
    )
    for number in range(POLLS_TO_AGREE):
        if number:
            time.sleep(_BETWEEN_SECONDS)
        progress.show(f"looking ({number + 1} of {POLLS_TO_AGREE})")
        controller.step()
    progress.end()
    return controller.snapshot


def _fleet(settings: Settings, parts: Parts, progress: Progress) -> Fleet:
    """Read pages through the API server where pods cannot be reached."""
    is_outside = is_online(settings) and not os.environ.get("KUBERNETES_SERVICE_HOST")
    if settings.prometheus_url or not is_outside:
        return parts.fleet
    rest = transport()
    return ProxiedFleet(
        rest,
        DetectorPods(rest, settings.namespace),
        namespace=settings.namespace,
        stale_after=settings.stale_after,
        clock=SystemClock(),
        progress=lambda asked, whole: progress.show(f"{asked} of {whole} detectors"),
    )
