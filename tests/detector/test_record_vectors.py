"""Raw records of the field through the shipped Neuron rules: which of them are a fault."""

from __future__ import annotations

import pytest

from detector.matcher import Matcher
from detector.rulefiles import load_all

NEURON = load_all(["neuron"]).rule_sets
DMA, HBM, DRIVER = (f"NeuronHasError_{code}" for code in ("DMA_ERROR", "HBM_UNCORRECTABLE_ERROR", "DRIVER"))
FAULT = b"NEURON_HW_ERR=DMA_ERROR nd-id=0"
RECORDS: tuple[tuple[bytes, list[str]], ...] = (
    (b"3,48213,1718549701,-;NEURON_HW_ERR=DMA_ERROR nd-id=0 action=TERMINATE_INSTANCE\n", [DMA]),
    (b"3,48214,1718549702,-,caller=T4242;NEURON_HW_ERR=DMA_ERROR nd-id=0\n", [DMA]),
    (b"3,48215,1718549703,-,caller=C3,future=1;x;NEURON_HW_ERR=DMA_ERROR ;y\n", []),
    (b"3,48215,1718549703,-,caller=C3,future=1;x; NEURON_HW_ERR=DMA_ERROR ;y\n", [DMA]),
    (b"11,48216,1718549704,-;NEURON_HW_ERR=DMA_ERROR nd-id=0\n", [DMA]),
    (b"30,48216,1718549704,-;NEURON_HW_ERR=DMA_ERROR nd-id=0\n", []),
    (b"4294967295,1,0,-;NEURON_HW_ERR=DMA_ERROR nd-id=0\n", []),
    (b"3,48217,1718549705,c;NEURON_HW_ERR=HBM_UNCORR\n", ["NeuronHasError_OTHER"]),
    (b"3,48218,1718549706,c;ECTABLE_ERROR nd-id=0\n", []),
    (
        b"3,48219,1718549707,-;neuron 0000:a0:1e.0: No usable DMA configuration.\n SUBSYSTEM=pci\n DEVICE=+pci:0\n",
        [DRIVER],
    ),
    (b"3,48219,1718549707,-;fine\n DEVICE=NEURON_HW_ERR=DMA_ERROR\n", []),
    (b"6,48220,1718549708,-;  NEURON_HW_ERR=DMA_ERROR indented\n", [DMA]),
    (rb"3,48221,1718549709,-;a\x0a\x09NEURON_HW_ERR=DMA_ERROR nd-id=0" + b"\n", [DMA]),
    (rb"3,48222,1718549710,-;path C:\x5cNEURON_HW_ERR=DMA_ERROR " + b"\n", []),
    (rb"3,48223,1718549711,-;NEURON_HW_ERR=DMA\x5fERROR nd-id=0" + b"\n", [DMA]),
    (rb"3,48223,1718549711,-;NEURON_HW_ERR=DMA\x5cx5fERROR nd-id=0" + b"\n", []),
    (b"3,1,5,-;" + FAULT + b" " + rb"\xff" * 501 + rb"\xf" + b"\n", [DMA]),
    (b"3,18446744073709551615,0,-;" + FAULT + b"\n", [DMA]),
    (b"no semicolon at all " + FAULT + b"\n", []),
    (b";" + FAULT + b"\n", []),
    (b"a,b,c;" + FAULT + b"\n", []),
    (b"3,1;" + FAULT + b"\n", []),
)


@pytest.mark.parametrize(("raw", "reasons"), RECORDS)
def test_a_record_is_a_fault_or_none_whatever_stands_around_it(raw: bytes, reasons: list[str]) -> None:
    benign = b"6,1,1,-;usb 1-1: new high-speed USB device number 2\n"
    for batch in ([raw], [benign, raw, benign], [rb"6,2,2,-;a\x09b" + b"\n", raw]):
        hits = Matcher(NEURON).batch(batch)
        assert [found.rule.reason for hit in hits for found in hit.findings] == reasons


def test_fragments_of_a_line_are_not_put_together() -> None:
    """Unrelated lines may stand between them. The first one counts as an unknown code, which is an Event."""
    fragments = [b"3,48217,1718549705,c;NEURON_HW_ERR=HBM_UNCORR\n", b"3,48218,1718549706,c;ECTABLE_ERROR nd-id=0\n"]
    assert HBM not in [found.rule.reason for hit in Matcher(NEURON).batch(fragments) for found in hit.findings]


def test_a_person_is_not_believed_if_the_operator_says_so() -> None:
    matcher = Matcher(NEURON, kernel_only=True)
    assert matcher.batch([b"11,48216,1718549704,-;" + FAULT + b"\n"]) == []
    assert len(matcher.batch([b"3,48216,1718549704,-;" + FAULT + b"\n"])) == 1


def test_time_stamps_may_go_back() -> None:
    """Each processor has a clock of its own; order is by number."""
    (hit,) = Matcher(NEURON).batch([b"3,5,2000,-;" + FAULT + b"\n", b"3,6,1999,-;" + FAULT + b"\n"])
    assert hit.stamps_us == [2000, 1999]
