"""Kernel log lines for the benches: plain, of accelerator drivers that are well, and faults."""

from __future__ import annotations

import os
import time
from typing import Final

INSTANCE: Final = "i-0be0c4a5e00000001"
RULES: Final = ("neuron", "nvidia", "amd", "gaudi", "efa")

PLAIN: Final = [
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth1a2b3c4d: link becomes ready",
    "docker0: port 1(veth1a2b3c4) entered forwarding state",
    "EXT4-fs (nvme1n1): mounted filesystem with ordered data mode. Opts: (null)",
    "TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies.",
    "nvme nvme1: 4/0/0 default/read/poll queues",
    "systemd-journald[512]: Data hash table has a fill level at 75.0, suggesting rotation.",
    "perf: interrupt took too long (2509 > 2500), lowering kernel.perf_event_max_sample_rate",
    "overlayfs: idmapped layers are currently not supported",
    "cgroup: fork rejected by pids controller in /kubepods/burstable/pod1234",
    "ena 0000:00:05.0 eth0: Local page cache is disabled for less than 16 channels",
]
ACCELERATOR: Final = [
    "neuron:npid_attach: neuron:npid_attach: pid=90193, slot=0",
    "neuron:npid_detach: neuron:npid_detach: pid=90193, slot=0",
    "nvidia-nvswitch3: open (major=510)",
    "amdgpu 0000:c1:00.0: amdgpu: GPU reset succeeded, trying to resume",
    "amdgpu 0000:e3:00.0: amdgpu: MEM ECC is active.",
    "habanalabs hl0: Found GAUDI2 device with 96GB DRAM",
    "efa 0000:a0:1a.0 rdmap160s26: Failed to process command DEREG_MR (opcode 8) comp_status 7 err -22",
    "infiniband efa_0: IB device registered",
]
MIXED: Final = PLAIN[:6] + ACCELERATOR
FAULT: Final = (
    "NEURON_HW_ERR=DMA_ERROR instance-id={instance} hostname=ip-10-0-12-34 nd-id={device} nc-id=0 "
    "serial-num=1a2b3c4d5e6f7a8b action=TERMINATE_INSTANCE"
)


def fault(device: int | str = 0) -> str:
    """Write a fault line of the benches' own instance."""
    return FAULT.format(instance=INSTANCE, device=device)


class Writer:
    """Writes lines into the kernel log."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/kmsg", os.O_WRONLY)

    def write(self, text: str) -> None:
        """Write one record."""
        os.write(self._fd, f"<6>{text}\n".encode())

    def burst(self, texts: list[str], count: int, *, rate: float | None = None) -> float:
        """Write many records and return the seconds it took.

        Args:
            texts: repeated in turn.
            count: how many.
            rate: records per second; None = as fast as it goes.
        """
        records = [f"<6>{text}\n".encode() for text in texts]
        fd, write, many = self._fd, os.write, len(records)
        start = time.perf_counter()
        for number in range(count):
            write(fd, records[number % many])
            if rate and number % 64 == 0:
                while time.perf_counter() - start < number / rate:
                    pass
        return time.perf_counter() - start
