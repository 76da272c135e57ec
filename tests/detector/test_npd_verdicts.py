"""Rules from node-problem-detector's files fire, and stay quiet, for the same messages as there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.matcher import Matcher
from detector.parse import parse
from detector.patterns import compile_one
from tests.detector.npd_files import made, shipped

pytestmark = pytest.mark.pure

NEURON_FIELDS = "instance-id=i-0a1b2c3d4e5f60718 nd-id=11 nc-id=1 serial-num=1a2b action=TERMINATE_INSTANCE"
# Lines that must fire, with the reasons; in QUIET, lines like them that must not.
FIRES = (
    (
        "kernel",
        "Memory cgroup out of memory: Killed process 123 (foo) total-vm:100kB, anon-rss:20kB, file-rss:3kB",
        ["OOMKilling"],
    ),
    (
        "kernel",
        "Killed process 123 (foo bar) total-vm:1048576kB, anon-rss:20480kB, file-rss:3072kB, shmem-rss:0kB, UID:0",
        ["OOMKilling"],
    ),
    ("kernel", "INFO: task kworker/u8:2:1234 blocked for more than 120 seconds.", ["TaskHung"]),
    ("kernel", "INFO: task tmux: server:1234 blocked for more than 241 seconds.", ["TaskHung"]),
    ("kernel", "INFO: task docker:20744 blocked for more than 120 seconds.", ["TaskHung", "DockerHung"]),
    (
        "kernel",
        "unregister_netdevice: waiting for lo to become free. Usage count = 1",
        ["UnregisterNetDevice"],
    ),
    ("kernel", "BUG: unable to handle kernel NULL pointer dereference at 0000000000000018", ["KernelOops"]),
    ("kernel", "divide error: 0000 [#1] SMP", ["KernelOops"]),
    ("kernel", "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm sh", ["Ext4Error"]),
    ("kernel", "EXT4-fs warning (device sda1): ext4_end_bio:317: I/O error -5", ["Ext4Warning"]),
    ("kernel", "Buffer I/O error on dev nvme1n1, logical block 0, async page read", ["IOError"]),
    ("kernel", "XFS (nvme1n1): Log I/O Error Detected. Shutting down filesystem", ["XfsHasShutdown"]),
    ("kernel", "XFS (nvme1n1): Corruption of in-memory data detected. Shutting down filesystem.", ["XfsHasShutdown"]),
    (
        "kernel",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1)",
        ["MemoryReadError"],
    ),
    ("kernel", "{1}[Hardware Error]: event severity: corrected", ["CperHardwareErrorCorrected"]),
    ("kernel", "{2}[Hardware Error]: event severity: recoverable", ["CperHardwareErrorRecoverable"]),
    ("kernel", "mce: [Hardware Error]: event severity: fatal", ["CperHardwareErrorFatal"]),
    ("readonly", "EXT4-fs (sda1): Remounting filesystem read-only", ["FilesystemIsReadOnly"]),
    *(
        ("neuron", f"2026-11-29T10:15:30Z NEURON_HW_ERR={code} {NEURON_FIELDS}", [f"NeuronHasError_{code}"])
        for code in ("SRAM_UNCORRECTABLE_ERROR", "NC_UNCORRECTABLE_ERROR", "HBM_UNCORRECTABLE_ERROR", "DMA_ERROR")
    ),
    ("several-lines", "EXT4-fs error (device sda1): ext4_find_entry:1455", ["Ext4Error"]),
)
QUIET = (
    ("kernel", "Killed process 123 (foo), UID 0, total-vm:100kB, anon-rss:20kB"),
    ("kernel", "INFO: task kworker/u8:2:1234 blocked for more than 120 seconds. Not tainted"),
    ("kernel", "INFO: task dockerd:20744 is blocked for long"),
    ("kernel", "unregister_netdevice: waiting for lo to become free. Usage count = 1 ref_tracker: x"),
    ("kernel", "BUG: kernel NULL pointer dereference, address: 0000000000000018"),  # newer kernels say this
    ("kernel", "divide error: 0000 [#1] SMP PTI"),
    ("kernel", "EXT4-fs (sda1): mounted filesystem with ordered data mode"),
    ("kernel", "Buffer I/O errors: none"),
    ("kernel", "XFS (nvme1n1): Ending clean mount"),
    ("kernel", "XFS (nvme1n1): Shutting down filesystem, please unmount"),
    ("kernel", "EDAC MC0: 1 UE memory read error on DIMM_A1"),
    ("kernel", "{3}[Hardware Error]: event severity: fatal, ignored"),
    ("kernel", "{3}[Hardware Error]: event severity: info"),
    ("readonly", "EXT4-fs (sda1): Remounting filesystem read-only, as asked"),
    ("neuron", f"NEURON_HW_ERR=DMA_ERROR {NEURON_FIELDS}"),  # no blank before it
    ("neuron", "2026-11-29T10:15:30Z NEURON_HW_ERR=DMA_ERROR"),  # none behind it
    ("neuron", f"2026-11-29T10:15:30Z NEURON_HW_ERR=HANG_ON_COLLECTIVES {NEURON_FIELDS}"),
    ("neuron", f"2026-11-29T10:15:30Z NEURON_HW_ERR=DMA_ERRORS {NEURON_FIELDS}"),
    ("several-lines", "Killed process 123 (foo) total-vm:100kB, anon-rss:20kB, file-rss:3kB"),
)


def record(text: str, at_us: int = 0, facility: int = 0) -> bytes:
    return b"%d,1,%d,-;%s\n" % (facility << 3 | 6, at_us, text.encode("latin-1"))


def found(matcher: Matcher, *texts: str) -> list[list[str]]:
    return [[f.rule.reason for f in hit.findings] for text in texts for hit in matcher.batch([record(text)])]


@pytest.mark.parametrize(("stem", "line", "reasons"), FIRES)
def test_a_line_fires_as_there(stem: str, line: str, reasons: list[str]) -> None:
    matcher = Matcher([shipped(stem)])
    assert found(matcher, line) == [reasons]
    assert [finding.rule.reason for finding in matcher.judge(parse(record(line)))] == reasons


@pytest.mark.parametrize(("stem", "line"), QUIET)
def test_a_line_stays_quiet_as_there(stem: str, line: str) -> None:
    matcher = Matcher([shipped(stem)])
    assert found(matcher, line) == []
    assert matcher.judge(parse(record(line))) == ()


def test_every_rule_has_a_line_that_fires() -> None:
    fired = {(stem, reason) for stem, _, reasons in FIRES for reason in reasons}
    single = {(stem, rule.reason) for stem in ("kernel", "readonly", "neuron") for rule in shipped(stem).rules}
    assert single <= fired


def test_the_details_of_a_neuron_line_are_read() -> None:
    (hit,) = Matcher([shipped("neuron")]).batch([record(f"2026 NEURON_HW_ERR=DMA_ERROR {NEURON_FIELDS}")])
    assert hit.findings[0].details["nd-id"] == "11"
    assert (hit.findings[0].rule_set, hit.findings[0].rule.condition) == ("kernel-monitor", "NeuronHealth")


def test_a_neuron_pattern_without_blanks_also_takes_a_bare_line() -> None:
    assert found(Matcher([made(".*NEURON_HW_ERR=DMA_ERROR.*")]), "NEURON_HW_ERR=DMA_ERROR") == [["R0"]]


def test_every_alternative_ends_where_the_message_ends() -> None:
    matcher = Matcher([made("oom-kill|Out of memory")])
    assert found(matcher, "oom-kill:constraint=NONE", "kubelet: ready") == []
    assert found(matcher, "x oom-kill", "x Out of memory") == [["R0"], ["R0"]]


def test_spaces_around_a_message_do_not_count() -> None:
    for rule_set in (made("task hung"), made("task hung", r"a\nb")):
        assert found(Matcher([rule_set]), "  task hung   ", "task hung!") == [["R0"]]


def test_dictionary_lines_of_a_device_print_do_not_hide_a_fault() -> None:
    raw = b"3,1,1,-;EXT4-fs error (device sda1)\n SUBSYSTEM=block\n DEVICE=b8:1\n"
    assert len(Matcher([shipped("kernel")]).batch([raw])) == 1


def test_a_daemon_cannot_make_a_rule_fire() -> None:
    matcher = Matcher([shipped("readonly")])
    line = "Remounting filesystem read-only"
    assert matcher.batch([record(line, facility=3)]) == []
    assert len(matcher.batch([record(line, facility=1)])) == 1


def test_a_pattern_over_three_records_fires_once_with_the_last() -> None:
    matcher = Matcher([shipped("several-lines")])
    texts = ["NETDEV WATCHDOG: eth0 (ena): transmit queue 1 timed out", "ena: reset adapter", "ena: reset failed"]
    (hit,) = matcher.batch([record(text) for text in texts])
    assert [finding.rule.reason for finding in hit.findings] == ["WatchdogReset"]
    assert (hit.message.text, hit.findings[0].details) == (b"ena: reset failed", {"device": "eth0"})
    assert found(matcher, "ena: up") == []


def test_a_pattern_over_three_records_stays_quiet_when_one_is_missing() -> None:
    matcher = Matcher([shipped("several-lines")])
    assert found(matcher, "NETDEV WATCHDOG: eth0 (ena): timed out", "ena: reset failed", "ena: reset adapter") == []


def test_the_old_two_line_message_of_the_oom_killer_fires() -> None:
    killed = "Killed process 12 (foo) total-vm:1kB, anon-rss:2kB, file-rss:3kB"
    matcher = Matcher([shipped("several-lines")])
    assert found(matcher, "Out of memory: Kill process 12 (foo) score 9 or sacrifice child", killed) == [["OOMKilling"]]
    assert found(matcher, killed) == []


def test_records_from_before_the_lookback_do_not_count() -> None:
    started_us = 3_600_000_000
    matcher = Matcher([shipped("readonly")], started_us=started_us)
    line = "Remounting filesystem read-only"
    cut = started_us - 5 * 60 * 1_000_000
    assert matcher.batch([record(line, cut - 1)]) == []
    assert len(matcher.batch([record(line, cut)])) == 1


@pytest.mark.parametrize("escaped", ["", r"\x09"])
def test_a_record_from_before_the_lookback_is_no_part_of_a_later_match(escaped: str) -> None:
    matcher = Matcher([made(r"bad.*\nworse")], started_us=1000)
    assert matcher.batch([record(f"bad{escaped}", 999), record("worse", 1000)]) == []
    assert len(matcher.batch([record(f"bad{escaped}", 1001), record("worse", 1002)])) == 1


def test_the_details_are_those_of_the_record_that_matches() -> None:
    matcher = Matcher([made(r".*NEURON_HW_ERR=DMA_ERROR.*", r"a\nb")])
    lines = [f"x NEURON_HW_ERR=DMA_ERROR nd-id={device}" for device in (1, 2)]
    hits = matcher.batch([record(line) for line in lines])
    assert [hit.findings[0].details["nd-id"] for hit in hits] == ["1", "2"]


def test_without_lookback_only_what_comes_after_the_start_counts() -> None:
    matcher = Matcher([made("bad")], started_us=1000)
    assert [len(matcher.batch([record("bad", at_us)])) for at_us in (999, 1000)] == [0, 1]


def test_start_anchors_match_at_the_start_of_a_record_in_a_file_of_one_line_patterns() -> None:
    for anchor in ("^", r"\A", "(?m)^"):
        assert found(Matcher([made(f"{anchor}bad")]), "first", "bad", "  bad", "x bad") == [["R0"], ["R0"]]


def test_start_anchors_match_at_the_oldest_line_in_other_files() -> None:
    matcher = Matcher([made("^bad", r"a\nb", bufferSize=2), made(r"(?m)^bad", r"a\nb", bufferSize=2)])
    assert found(matcher, "first", "bad", "x bad") == [["R0"]]


class Upstream:
    """What node-problem-detector does with a message, written down from its log_buffer.go and log_watcher_linux.go."""

    def __init__(self, patterns: list[str], lines: int) -> None:
        self._searches = [compile_one(rf"(?:{pattern})\z") for pattern in patterns]
        self._kept = [""] * lines

    def push(self, text: str) -> list[str]:
        self._kept = [*self._kept[1:], text.strip()]
        joined = "\n".join(self._kept).encode("latin-1")
        return [f"R{at}" for at, search in enumerate(self._searches) if search.search(joined)]


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            ["bad", "bad .*", "bad|worse", r"bad\nworse", r"(?s)bad.*worse", "bad[^x]*worse", r"\bbad$", "(?m)^bad"]
        ),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    st.integers(1, 4),
    st.lists(st.sampled_from(["bad", "worse", "bad x", "bad worse", " bad", "worse ", "x", ""]), max_size=12),
)
def test_verdicts_are_those_of_node_problem_detector(patterns: list[str], lines: int, texts: list[str]) -> None:
    upstream = Upstream(patterns, lines)
    matcher = Matcher([made(*patterns, bufferSize=lines)])
    for text in texts:
        assert found(matcher, text) == [reasons for reasons in [upstream.push(text)] if reasons]
