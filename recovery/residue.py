"""What is to become of a fence whose entry is closed. Pure.

A fence outlives its entry: a crash came between closing and lifting, or the node is still faulty and nobody replaces
it. It is lifted when the fault or the machine has gone, never before, and forgotten with its Node.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from recovery.confirm import Health
from recovery.entries import FINAL, LIFTED_AT_ONCE
from recovery.guard import identity, is_enabled, is_opted_out

if TYPE_CHECKING:
    from recovery.model import Entry
    from recovery.moves import View
    from recovery.policy import Rules


class Residue(enum.StrEnum):
    """What is done with a fence that was left."""

    KEEP = "keep"
    LIFT = "lift"
    FORGET = "forget"


def residue(entry: Entry, view: View, rules: Rules) -> Residue:
    """Tell what is to become of a fence.

    Args:
        entry: closed, its fence not lifted.
        view: what is known of its node.
        rules: for whether recovery is enabled there.
    """
    if view.is_gone:
        return Residue.FORGET
    facts = view.facts
    if facts is None:
        return Residue.KEEP
    if facts.uid != entry.uid:
        return Residue.FORGET
    is_another = identity(facts) not in (None, entry.instance)
    if is_another or entry.outcome in LIFTED_AT_ONCE or is_opted_out(facts):
        return Residue.LIFT
    is_unwanted = is_enabled(view.seen, rules) is False and entry.outcome not in FINAL
    return Residue.LIFT if is_unwanted or _is_healed(entry, view) else Residue.KEEP


def _is_healed(entry: Entry, view: View) -> bool:
    if view.judgement.health is Health.HEALTHY:
        return True
    if view.judgement.health is not Health.IGNORED or view.seen is None:
        return False
    return all(fault.reason != entry.reason for fault in view.seen.faults)
