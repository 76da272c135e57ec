"""NodeHealth: what is wrong with this node, from findings, boots, replacements and an operator's word. Pure.

A fault never heals by silence: it ends only by the cause that its rule names, by a replacement, or because an
operator says so. A verdict belongs to an instance and a boot. Time is passed in.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from detector.adoption import Kept
from detector.book import MOST_ENTRIES, Book, key_of
from detector.model import Announcement, State, View
from detector.tally import Tally
from detector.verdicts import Verdicts
from detector.whose import Whose
from detector.wording import cleared_message, fault_message
from runtime.vocabulary import ClearsOn, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from detector.book import Key
    from detector.matcher import Hit
    from detector.model import ClearRequest, Condition, Fault, Finding
    from detector.rules import Catalog

NOTHING_CLEARED: Final = "nothing cleared: there is no such fault, or it came again after the request"


class NodeHealth:
    """The faults and conditions of one node.

    Args:
        catalog: the rules loaded.
        boot: id of this boot.
        instance: id of this instance; None = unknown.
        now: when the program started (aware UTC).
        state: what an earlier run left; None = nothing. What a reboot or a replacement has ended since then is
            cleared, and nothing is announced twice. A state whose instance is unknown, or met while ours is unknown,
            counts as ours: it lies on our own disk.
    """

    def __init__(
        self, catalog: Catalog, *, boot: str, instance: str | None, now: datetime, state: State | None = None
    ) -> None:
        rules = {rule.reason: rule for rule in catalog.rules}
        self.has_news = False  # something to announce that was never announced before
        self._whose = Whose(instance, state.instance if state else None)
        self._boot = boot
        self._book = Book(rules)
        self._verdicts = Verdicts(catalog.conditions, self._book)
        self._kept = Kept(state, instance)
        self._tally = Tally(MOST_ENTRIES)
        self._told_until: datetime | None = None
        self._problems = dict.fromkeys(rules, 0)
        self._foreign = 0
        self._untold: dict[Key, tuple[Finding, bytes, int, datetime]] = {}
        self._announcements: dict[str, Announcement] = {}
        if state is not None:
            self._restore(state, now)
        self._update(now)

    def _restore(self, state: State, now: datetime) -> None:
        for fault in state.faults:
            self._book.restore(fault)
        kinds = self._verdicts.types
        for condition in (condition for condition in state.conditions if condition.type in kinds):
            self._verdicts.take_over(condition)
        if not self._kept.is_ours:
            self._end(lambda _: True, "the instance was replaced", now)
        elif state.boot != self._boot:
            self._end(lambda fault: fault.clears_on is ClearsOn.REBOOT, "the node was rebooted", now)
        else:
            self._tally.restore(state.pending)
            self._book.restore_mentioned(state.mentioned)

    def adopt(self, conditions: Iterable[Condition], now: datetime, *, boot: str | None) -> tuple[Fault, ...]:
        """Take over what this very instance has published and the state file does not know: it was lost, or is old.

        The devices may be unknown until their lines are read again, which may have been before this or comes later;
        those lines are not announced again.

        Args:
            conditions: as the Node object has them; other people's are passed over.
            now: aware UTC.
            boot: the boot that they were published in; None = unknown.

        Returns:
            The faults that an earlier run has announced already, though this one may have done so too.
        """
        for condition in (condition for condition in conditions if condition.type in self.kinds):
            named = self._book.named(condition)
            if not self._kept.lacks(condition, named):
                continue
            self._verdicts.take_over(condition)
            told_until = min(condition.last_heartbeat_at, now)  # a clock that was set back may have written it
            self._told_until = max(told_until, self._told_until or told_until)
            self._book.adopt(named, self._kept.keys)
        self._kept.awaits_node = False
        if boot not in (None, self._boot):
            adopted = self._book.placeholders
            rebooted = lambda fault: fault.clears_on is ClearsOn.REBOOT and key_of(fault) in adopted  # noqa: E731 - short
            self._end(rebooted, "the node was rebooted", now)
        self._update(now)
        told = tuple(fault for fault in self._book.faults if self._was_told(fault.last_at))
        self._forget_news(told)
        return told

    def _forget_news(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self._untold.pop(key_of(fault), None)

    def _was_told(self, at: datetime) -> bool:
        return self._told_until is not None and at.replace(microsecond=0) <= self._told_until

    def learn_instance(self, instance: str, now: datetime) -> bool:
        """Take in which instance this is, if that becomes known only later.

        Until then every line counted as ours. Faults of which each line named another instance end.

        Args:
            instance: our own id.
            now: aware UTC.

        Returns:
            Whether it is believed.
        """
        if not self._whose.learn(instance):
            return False
        ended = self._end(self._whose.is_anothers, "the line spoke about another instance", now)
        self._foreign += sum(fault.count for fault in ended)
        self._forget_news(ended)
        self._update(now)
        return True

    def apply(self, hit: Hit, *, first_at: datetime, last_at: datetime, now: datetime) -> None:
        """Count lines that rules matched.

        Args:
            hit: lines of one body.
            first_at: when the first of them was written (aware UTC).
            last_at: when the last was.
            now: when a condition that changes by it changes.
        """
        ours = [finding for finding in hit.findings if not self._whose.speaks_of_another(finding.details)]
        self._foreign += len(hit.records) if len(ours) < len(hit.findings) else 0
        told = self._was_told(last_at)
        for finding in ours:
            rule, key = finding.rule, self._book.key(finding)
            active = key in self._book
            counts_at_once = active or rule.threshold.count == 1
            stamps = hit.stamps_us if counts_at_once else self._tally.add(finding, hit.stamps_us)
            if not stamps:
                continue
            lines = len(stamps)
            began_at = first_at - timedelta(microseconds=max(0, hit.stamps_us[0] - stamps[0]))
            self._problems[rule.reason] += lines
            total = self._book.count(key, finding, lines, began_at, last_at, again=told)
            self._whose.remember(key, finding.details)
            if not told:
                self.has_news = self.has_news or total == lines
                self._untold[key] = (finding, hit.message.text, total, now)
            if rule.condition and not active:
                self._verdicts.update([rule.condition], now)

    def clear(self, request: ClearRequest, now: datetime) -> bool:
        """End faults because an operator says so, and tell whether there was one.

        A fault that came since the request was made, or came again, stays: nobody has seen it yet. No clock is asked,
        for clocks step.

        Args:
            request: what the operator wants, and what there was to see.
            now: aware UTC.
        """
        seen = set(map(_occurrence, request.faults))
        asked = lambda fault: request.reason in ("all", fault.reason) and _occurrence(fault) in seen  # noqa: E731 - short
        ended = self._end(asked, "an operator cleared it", now)
        self._update(now)
        return bool(ended)

    def set_blind(self, why: str, now: datetime) -> None:
        """Say that the kernel log cannot be read: no condition is False any more, and a True one stays True."""
        if self._verdicts.blind is None:
            self._verdicts.blind = f"the kernel log cannot be read: {why}"
            self._announce(Reason.DETECTOR_BLIND, self._verdicts.blind, now, warning=True)
            self._update(now)

    def set_seeing(self, now: datetime) -> None:
        """Say that the kernel log is read again."""
        if self._verdicts.blind is not None:
            self._verdicts.blind = None
            self._announce(Reason.DETECTOR_SEES_AGAIN, "the kernel log is read again", now)
            self._update(now)

    def heartbeat(self, now: datetime) -> bool:
        """Say that the conditions still hold, counts brought up to date; False, and nothing said, while blind."""
        if self._verdicts.blind is not None:
            return False
        self._verdicts.beat(now)
        return True

    @property
    def revision(self) -> int:
        """Grows when a condition changes in more than counts and times."""
        return self._verdicts.revision

    @property
    def instance(self) -> str | None:
        """The instance that all of this belongs to; None = unknown."""
        return self._whose.instance

    @property
    def is_certain(self) -> bool:
        """Whether more than the state file tells which instance this is."""
        return self._whose.is_certain

    @property
    def has_grown(self) -> bool:
        """Whether a count that was announced has grown since."""
        return bool(self._untold)

    @property
    def kinds(self) -> list[str]:
        """The condition types of the rules loaded."""
        return self._verdicts.kinds

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The active faults."""
        return self._book.faults

    def view(self) -> View:
        """Show everything as it is now."""
        return View(
            revision=self.revision,
            conditions=self._verdicts.conditions,
            faults=self._book.faults,
            problems=dict(self._problems),
            foreign=self._foreign,
        )

    def state(self, sequence: int | None) -> State:
        """Show what must survive a restart.

        Args:
            sequence: number of the last record read; None = none.
        """
        return State(
            boot=self._boot,
            instance=self.instance,
            seq=sequence,
            conditions=self._verdicts.conditions,
            faults=self._book.faults,
            pending=self._tally.pending(),
            awaits_node=self._kept.awaits_node,
            mentioned=self._book.mentioned(),
        )

    def announcements(self) -> list[Announcement]:
        """Hand out what is to be told since the last call, in order, one announcement a key with the newest count."""
        for key, (finding, text, count, at) in self._untold.items():
            message = fault_message(finding, text)
            self._announce(finding.rule.reason, message, at, key=str(key), count=count, warning=True)
        self._untold = {}
        told, self._announcements = sorted(self._announcements.values(), key=_order), {}
        self.has_news = False
        return told

    def _update(self, now: datetime) -> None:
        self._verdicts.update(self._verdicts.types, now)

    def _end(self, ends: Callable[[Fault], bool], cause: str, now: datetime) -> list[Fault]:
        ended = self._book.end(ends)
        for fault in ended:
            self._whose.forget(key_of(fault))
            text = cleared_message(fault, cause)
            self._announce(Reason.FAULT_CLEARED, text, now, key=f"cleared {fault.reason} {fault.details}")
        return ended

    def _announce(
        self, reason: str, message: str, now: datetime, *, key: str = "", count: int = 1, warning: bool = False
    ) -> None:
        self.has_news = True
        self._announcements[key or reason] = Announcement(
            reason=reason, message=message, warning=warning, key=key or reason, count=count, at=now
        )


def _occurrence(fault: Fault) -> tuple[Key, int, datetime]:
    """Tell one occurrence of a fault from the next: a line more is another."""
    return key_of(fault), fault.count, fault.last_at


def _order(announcement: Announcement) -> tuple[datetime, bool]:
    """Tell the time, and of one moment the lines read before what became of them."""
    return announcement.at, not announcement.warning
