"""CloudWatch: sends the points that are due, from a thread of its own.

An edge: `ports.Points`. One attempt for each point, dropped if that fails: a second could count a node twice, and
nothing here is worth a wait. It sends only what was handed over just now, so that a loop that hangs is silence.

Source: docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html (read 2026-11-29).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from recovery.cloud import Empty
from recovery.cloud_errors import CloudError
from recovery.points import MOST_IN_A_CALL, Schedule, refusal
from recovery.sending import Sending
from runtime import logs
from runtime.latest import Latest

if TYPE_CHECKING:
    from recovery.cloud import Sdk
    from runtime.clock import Clock

NAMESPACE: Final = "NeuronHealthCheck"
_CALL_SECONDS: Final = 10.0
_CLOSING_SECONDS: Final = 1.0
_LOG = logs.get(__name__)


class CloudWatch:
    """Publishes how many nodes are faulty.

    Args:
        sdk: makes the calls.
        schedule: tells what is due.
        clock: its wall clock decides which minute it is.
    """

    def __init__(self, sdk: Sdk, schedule: Schedule, clock: Clock) -> None:
        self._sdk = sdk
        self._schedule = schedule
        self._clock = clock
        self._latest: Latest[tuple[dict[str, int], dict[str, tuple[str, ...]]]] = Latest()
        self._is_failing = False
        self._refused: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="cloudwatch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def publish(self, counts: dict[str, int], nodes: dict[str, tuple[str, ...]]) -> None:
        """Hand over what holds now; returns at once, never raises.

        Args:
            counts: metric name (a reason, ReplacementBlocked, RecoveryBlocked) to how many nodes; 0 = none.
            nodes: reason to the nodes it is active on.
        """
        self._latest.put((dict(counts), dict(nodes)))

    def close(self) -> None:
        """End; what has not been sent is dropped, if it cannot be within a second."""
        self._latest.close()
        self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        while (handed := self._latest.take()) is not None:
            due = list(filter(self._is_sendable, self._schedule.due(*handed, self._clock.now())))
            for start in range(0, len(due), MOST_IN_A_CALL):
                self._send(due[start : start + MOST_IN_A_CALL])

    def _send(self, data: list[dict[str, Any]]) -> None:
        failure: CloudError | None = None
        try:
            self._sdk.ask(
                "cloudwatch",
                "PutMetricData",
                Empty,
                {"Namespace": NAMESPACE, "MetricData": data},
                sending=Sending(time.monotonic() + _CALL_SECONDS),
                attempts=1,
            )
        except CloudError as error:
            failure = error
        self._sdk.count("PutMetricData", failure)
        if failure and not self._is_failing:
            _LOG.warning("points are dropped, CloudWatch does not take them", error=str(failure))
        elif self._is_failing and not failure:
            _LOG.info("CloudWatch takes points again")
        self._is_failing = failure is not None

    def _is_sendable(self, datum: dict[str, Any]) -> bool:
        """Hold back what would have the whole call refused."""
        why = refusal(datum)
        if why is not None and datum["MetricName"] not in self._refused:
            self._refused.add(datum["MetricName"])
            _LOG.error("a point is dropped, CloudWatch would refuse it", metric=datum["MetricName"], why=why)
        return why is None
