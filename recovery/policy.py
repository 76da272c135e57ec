"""What an operator may decide about recovery: policies per reason, and the budget. Pure.

The structs are written in settings as the contract's section 8 shows them; what nobody sets comes from the fault's
class.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from runtime.durations import Duration
from runtime.vocabulary import Action, FaultClass

DEFAULT: Final = "default"  # the policy of reasons that have none of their own
# When one chip dies every other worker of the job prints it, and the one must still be replaced.
NEVER_REPLACES: Final = "NeuronHasError_HANG_ON_COLLECTIVES"
_GRAVE: Final = (FaultClass.DEAD, FaultClass.POISONED)
_CONFIRM_GRAVE: Final = Duration(10)
_CONFIRM_LIGHT: Final = Duration(600)
_DRAIN: Final = Duration(300)
_NO_DRAIN: Final = Duration(0)
_SHORTEST_WINDOW: Final = Duration(1)

_Count = Annotated[int, Meta(ge=1)]
_Percent = Annotated[int, Meta(ge=1, le=100)]


class Policy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What an operator says about one reason, or about all others.

    Args:
        action: None = as the rule advises. In `default` it changes only what the rules advise to do something about.
        confirm_for: how long a fault must have lasted; None = 10 s if dead or poisoned, else 10 min.
        drain_timeout: how long pods are evicted before going on; None = 0 if dead, else 5 min.
    """

    action: Action | None = None
    confirm_for: Duration | None = None
    drain_timeout: Duration | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How much may be taken away at once.

    Args:
        max_concurrent: open entries in all.
        max_per_group: open entries of one group.
        max_unhealthy_percent: of a group's desired capacity, at least one instance.
        max_per_hour: admissions; None = 10 % of the fleet, at least 3.
        storm_nodes: so many nodes with a reason that began within stormWindow are still no storm; None = 10 % of the
            fleet, at least 3, at most 50.
        storm_window: see there.
        replacement_timeout: how long a replacement may take before `ReplacementBlocked`.
        force_terminate: terminate after replacementTimeout what a group launches first for, without a spare.
        respect_scale_in_protection: never replace what is protected from scale-in.
    """

    max_concurrent: _Count = 3
    max_per_group: _Count = 1
    max_unhealthy_percent: _Percent = 20
    max_per_hour: _Count | None = None
    storm_nodes: _Count | None = None
    storm_window: Duration = Duration(300)
    replacement_timeout: Duration = Duration(1200)
    force_terminate: bool = False
    respect_scale_in_protection: bool = False

    def __post_init__(self) -> None:
        """Refuse spans that switch a limit off.

        Raises:
            ValueError: the message names the key.
        """
        for key, value in (("stormWindow", self.storm_window), ("replacementTimeout", self.replacement_timeout)):
            if value < _SHORTEST_WINDOW:
                raise ValueError(f"{key}: {value} is too short (allowed: {_SHORTEST_WINDOW} or more)")


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """All that an operator has decided.

    Args:
        policies: by reason, and `default`.
        budget: see there.
        enabled: True, False = for all nodes; None = as each node's detector says.
        hold_seconds: stand-alone: the random part of standaloneWait, waited for after a fault is confirmed.
    """

    policies: dict[str, Policy] = {}
    budget: Budget = Budget()
    enabled: bool | None = None
    hold_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no single policy can know.

        Raises:
            ValueError: the message names the key and what is allowed.
        """
        refuse_impossible(self.policies)

    def action(self, reason: str, advised: Action | None) -> Action:
        """Tell what is to be done about a reason.

        Args:
            reason: of the fault.
            advised: what its rule says; None = that is not known, so that nothing is done unless a policy names it.
        """
        own = self.policies.get(reason)
        if own is not None and own.action is not None:
            return own.action
        if advised in (None, Action.NONE) or reason == NEVER_REPLACES:
            return Action.NONE
        return self.policies.get(DEFAULT, Policy()).action or advised

    def confirm_for(self, reason: str, fault_class: FaultClass) -> Duration:
        """Tell how long a fault must have lasted."""
        for policy in (self.policies.get(reason), self.policies.get(DEFAULT)):
            if policy is not None and policy.confirm_for is not None:
                return policy.confirm_for
        return _CONFIRM_GRAVE if fault_class in _GRAVE else _CONFIRM_LIGHT

    def drain_timeout(self, reason: str, fault_class: FaultClass) -> Duration:
        """Tell how long pods are evicted before going on."""
        for policy in (self.policies.get(reason), self.policies.get(DEFAULT)):
            if policy is not None and policy.drain_timeout is not None:
                return policy.drain_timeout
        return _NO_DRAIN if fault_class is FaultClass.DEAD else _DRAIN


def refuse_impossible(policies: dict[str, Policy]) -> None:
    """Refuse a policy that would take whole jobs away.

    Raises:
        ValueError: the message names the key and what is allowed.
    """
    own = policies.get(NEVER_REPLACES)
    if own is not None and own.action is Action.REPLACE:
        raise ValueError(
            f"policies.{NEVER_REPLACES}.action: replace would take every worker of a job whose one chip died"
            " (allowed: none, reboot)"
        )
