"""Detector pages as the detector itself writes them, and edits of them."""

from __future__ import annotations

from runtime.exposition import Family, Sample, render

DMA = ("NeuronHasError", "NeuronHasError_DMA_ERROR")
SRAM = ("NeuronHasError", "NeuronHasError_SRAM_UNCORRECTABLE_ERROR")
HANG = ("NeuronHasError", "NeuronHasError_HANG_ON_COLLECTIVES")
OTHER = ("", "NeuronHasError_OTHER")
RULES = {SRAM: ("poisoned", "replace"), DMA: ("dead", "replace"), HANG: ("suspect", "none"), OTHER: ("suspect", "none")}
SINCE = 1795992678.25
INSTANCE = "i-0123456789abcdef0"


def page(
    *active: tuple[str, str],
    instance: str | None = INSTANCE,
    enabled: bool = False,
    platform_repair: bool = False,
    reader_up: bool = True,
) -> str:
    """Write a page.

    Args:
        active: type and reason of each active fault.
        instance: own instance id; None = unknown to the detector.
        enabled: its ENABLE_RECOVERY.
        platform_repair: it publishes AcceleratedHardwareReady.
        reader_up: it can read the kernel log.
    """
    own = "chipwarden_detector_"
    typed = [key for key in RULES if key[0]]
    return render(
        [
            Family("problem_gauge", "gauge", "", [Sample(_labels(key), key in active) for key in typed]),
            Family("problem_counter", "counter", "", [Sample({"reason": reason}, 0) for _, reason in RULES]),
            Family(own + "fault_since_timestamp_seconds", "gauge", "", [Sample(_labels(key), SINCE) for key in active]),
            Family(
                own + "rule_info",
                "gauge",
                "",
                [
                    Sample(_labels(key) | {"fault_class": kind, "action": action}, 1)
                    for key, (kind, action) in RULES.items()
                ],
            ),
            Family(own + "recovery_enabled", "gauge", "", [Sample({}, enabled)]),
            Family(own + "reader_up", "gauge", "", [Sample({}, reader_up)]),
            Family(own + "instance_info", "gauge", "", [Sample({"instance": instance}, 1)] if instance else []),
            Family(own + "platform_repair", "gauge", "", [Sample({}, platform_repair)]),
        ]
    ).decode()


def _labels(key: tuple[str, str]) -> dict[str, str]:
    return {"type": key[0], "reason": key[1]}
