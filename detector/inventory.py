"""What this machine, its software and the running detector are, as far as a support case needs it.

An edge: it reads files of /proc, /sys and /etc; what cannot be had is None. Must never read a process's environment.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import stat
import time
from pathlib import Path
from typing import Any, Final

from runtime.vocabulary import VERSION

_PACKAGES: Final = ("google-re2", "kubernetes", "msgspec", "pyyaml", "urllib3")
_DRIVERS: Final = ("neuron", "nvidia", "amdgpu", "habanalabs", "efa")
_SETTINGS: Final = ("dmesg_restrict", "printk_devkmsg", "printk")
_STATUS: Final = (
    "VmRSS",
    "VmHWM",
    "Threads",
    "CapEff",
    "NoNewPrivs",
    "Seccomp",
    "voluntary_ctxt_switches",
    "nonvoluntary_ctxt_switches",
)
_PROGRAM: Final = "chipwarden-detector"
_MOST_PROCESSES: Final = 16
_SMALL_BYTES: Final = 1 << 14
_SIZE_BUFFER: Final = 10  # SYSLOG_ACTION_SIZE_BUFFER; source: syslog(2), read 2026-11-30
_TICKS_AT: Final = (11, 12, 19)  # utime, stime, starttime behind the name; source: proc_pid_stat(5), read 2026-11-30


def beginning(path: Path, most: int = _SMALL_BYTES, *, follow: bool = True) -> bytes:
    """Read the beginning of a regular file; never waits, as for a pipe.

    Args:
        path: the file.
        most: how many bytes.
        follow: a symbolic link; False = it is something else.

    Raises:
        OSError: it cannot be read, or is something else.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(most)


def versions() -> dict[str, str | None]:
    """Tell the versions of the program and of what it stands on."""
    found: dict[str, str | None] = {"chipwarden": VERSION, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def machine() -> dict[str, Any]:
    """Tell about kernel, system, drivers, and what this process may do."""
    kernel = os.uname()
    return {
        "kernel": {"release": kernel.release, "version": kernel.version, "architecture": kernel.machine},
        "system": _system(),
        "drivers": {name: _line(f"/sys/module/{name}/version") for name in _DRIVERS if _has_module(name)},
        "kernel_settings": {name: _line(f"/proc/sys/kernel/{name}") for name in _SETTINGS},
        "kernel_log_bytes": ring_bytes(),
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "monotonic_seconds": round(time.monotonic(), 3),  # what the kernel stamps its records with, nearly
        "as_user": os.geteuid(),
    }


def ring_bytes() -> int | None:
    """Tell the size of the kernel's log buffer; None if this process may not ask."""
    size = ctypes.CDLL(None).klogctl(_SIZE_BUFFER, None, 0)
    return size if size >= 0 else None


def detectors() -> list[dict[str, Any]]:
    """Tell about the detectors that run, as far as this process can see them: arguments and use of resources."""
    found = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
        try:
            arguments = [part.decode("utf-8", "replace") for part in beginning(folder / "cmdline").split(b"\0")[:-1]]
            if _is_detector(arguments):
                found.append(_process(folder, arguments))
        except OSError:  # it has just ended
            continue
    return found[:_MOST_PROCESSES]


def _is_detector(arguments: list[str]) -> bool:
    module = "-m" in arguments and "detector" in arguments
    return "run" in arguments and (module or any(Path(part).name == _PROGRAM for part in arguments[:2]))


def _process(folder: Path, arguments: list[str]) -> dict[str, Any]:
    lines = beginning(folder / "status").decode("utf-8", "replace").splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    ticks = beginning(folder / "stat").rpartition(b")")[2].split()
    user, system, start = (int(ticks[place]) / os.sysconf("SC_CLK_TCK") for place in _TICKS_AT)
    return {
        "pid": int(folder.name),
        "arguments": arguments,
        "status": {name: status[name].strip() for name in _STATUS if name in status},
        "processor_seconds": {"user": user, "system": system},
        "started_seconds_after_boot": start,
        "open_files": _count(folder / "fd"),
        "oom_score_adj": _line(f"{folder}/oom_score_adj"),
    }


def _count(folder: Path) -> int | None:
    try:
        return len(list(folder.iterdir()))
    except OSError:  # another user's
        return None


def _system() -> dict[str, str]:
    try:
        found = platform.freedesktop_os_release()
    except OSError:
        return {}
    return {name: found[name] for name in ("ID", "VERSION_ID", "PRETTY_NAME") if name in found}


def _has_module(name: str) -> bool:
    return Path(f"/sys/module/{name}").is_dir()


def _line(path: str) -> str | None:
    try:
        return beginning(Path(path)).decode("utf-8", "replace").strip()
    except OSError:
        return None
