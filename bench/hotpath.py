"""CPU per record of reading and deciding, as a ratio to a bare read loop over the same ring buffer in the same run."""

from __future__ import annotations

import os
import statistics
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bench.lines import ACCELERATOR, INSTANCE, MIXED, PLAIN, RULES, Writer, fault
from detector.health import NodeHealth
from detector.kmsg import KmsgReader
from detector.matcher import Matcher
from detector.rulefiles import load_all

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 9
PASSES = 12
RECORDS = 3_000  # more than the ring buffer holds


def bare() -> int:
    """Read the ring buffer and do nothing."""
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    count = 0
    while True:
        try:
            os.read(fd, 8192)
            count += 1
        except BrokenPipeError:
            continue
        except BlockingIOError:
            os.close(fd)
            return count


class Whole:
    """Reader, matcher and health, as the loop uses them."""

    def __init__(self) -> None:
        catalog = load_all(RULES)
        self.rules = sum(len(rule_set.rules) for rule_set in catalog.rule_sets)
        self._matcher = Matcher(catalog.rule_sets)
        self._now = datetime.now(UTC)
        self._health = NodeHealth(catalog, boot="bench", instance=INSTANCE, now=self._now)

    def __call__(self) -> int:
        """Read the ring buffer and decide."""
        reader = KmsgReader("/dev/kmsg")
        reader.open()
        while records := reader.batch():
            for hit in self._matcher.batch(records):
                self._health.apply(hit, first_at=self._now, last_at=self._now, now=self._now)
        reader.close()
        return reader.records


def cpu(work: Callable[[], int]) -> float:
    """Measure CPU seconds per record over some passes."""
    start = time.process_time()
    records = sum(work() for _ in range(PASSES))
    return (time.process_time() - start) / records


def ratio(texts: list[str], whole: Whole) -> tuple[float, float, float]:
    """Fill the ring buffer and compare, rounds interleaved: median, least and most."""
    Writer().burst(texts, RECORDS)
    ratios = []
    for _ in range(ROUNDS):
        reference = cpu(bare)
        ratios.append(cpu(whole) / reference)
    return statistics.median(ratios), min(ratios), max(ratios)


def main() -> None:
    whole = Whole()
    print(f"CPU per record, {whole.rules} rules, x bare read loop: median of {ROUNDS} (least - most)")
    cases = {
        "plain text": PLAIN,
        "mixed accelerator text": MIXED,
        "accelerator text only": ACCELERATOR,
        "10 % fault lines": (PLAIN * 9 + [fault(n) for n in range(10)]),
        "all the same fault": [fault()],
        "10 % with escaped bytes": [*(PLAIN[:9]), "caf\u00e9 \\ path"],
    }
    for name, texts in cases.items():
        median, least, most = ratio(texts, whole)
        print(f"| {name} | {median:.2f} ({least:.2f} - {most:.2f}) |")


if __name__ == "__main__":
    main()
