"""One cgroup in every hierarchy of the machine, for all that a sandbox runs.

Why here: runc leaves a cgroup behind for each container that was killed together with its supervisor. Below one parent
they can all be found again. Both versions of cgroups are served, and a machine that mounts both.
"""

import os
from pathlib import Path


class Cgroup:
    """A cgroup of the same name in every hierarchy.

    The name tells whose it is, so that a later run can remove what a killed one had to leave.
    """

    def __init__(self) -> None:
        self.name = f"chipwarden-{os.getpid()}-{os.urandom(3).hex()}"
        self.hierarchies = _hierarchies()

    def make(self) -> None:
        """Make it, ready to be joined. Version 1 wants CPUs and memory nodes to be named before."""
        for hierarchy in self.hierarchies:
            group = hierarchy / self.name
            group.mkdir()
            if _is_version_2(group):
                continue
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (group / name).exists():
                    (group / name).write_text((hierarchy / name).read_text())

    def leave_inner(self) -> None:
        """Move its processes to a leaf: in version 2 a cgroup with processes of its own gives its children nothing."""
        for hierarchy in self.hierarchies:
            group = hierarchy / self.name
            if _is_version_2(group):
                (group / "init").mkdir()
                for process in (group / "cgroup.procs").read_text().split():
                    (group / "init" / "cgroup.procs").write_text(process)
                controllers = (group / "cgroup.controllers").read_text().split()
                (group / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))

    def entrances(self) -> list[Path]:
        """Return the files that a process which is no container writes its own id to."""
        groups = [hierarchy / self.name for hierarchy in self.hierarchies]
        return [(group / "init" if _is_version_2(group) else group) / "cgroup.procs" for group in groups]

    def memory_bytes(self) -> int:
        """Return the memory in use by all of it, with the page cache that it was the first to fill."""
        for hierarchy in self.hierarchies:
            for name in ("memory.usage_in_bytes", "memory.current"):
                counter = hierarchy / self.name / name
                if counter.exists():
                    return int(counter.read_text())
        raise FileNotFoundError("no cgroup hierarchy of this machine counts memory")

    def remove(self) -> bool:
        """Remove it with all below it, and tell whether it is gone; a process that is still in it keeps it."""
        return all(_remove(hierarchy / self.name) for hierarchy in self.hierarchies)


def remove_stale() -> None:
    """Remove the cgroups of runs whose pytest is gone."""
    for hierarchy in _hierarchies():
        for group in hierarchy.glob("chipwarden-*-*"):
            if not Path("/proc", group.name.split("-")[1]).exists():
                _remove(group)


def _hierarchies() -> list[Path]:
    """Return the mount points of all hierarchies, each once.

    Source: proc_pid_mountinfo(5): field 5 is the mount point, the type follows the hyphen (read 2026-11-29).
    """
    found: dict[Path, None] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.split()[0] in ("cgroup", "cgroup2"):
            found[Path(left.split()[4])] = None
    return list(found)


def _is_version_2(group: Path) -> bool:
    return (group / "cgroup.controllers").exists()


def _remove(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError:
            return False
    return True
