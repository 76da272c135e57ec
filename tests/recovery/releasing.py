"""An operator who lets everything go on, in the in-memory world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery import entries
from recovery.model import LedgerBody

if TYPE_CHECKING:
    from tests.recovery.world import World


def release_all(world: World) -> None:
    """Reset all breakers and resume all groups."""
    body = world.ledger_text or LedgerBody()
    for reason in body.tripped:
        body = entries.reset_breaker(body, reason, world.now)
    for group in body.blocked_groups:
        body = entries.resume_group(body, group)
    world.ledger_text = body
    world.ledger_version += 1
