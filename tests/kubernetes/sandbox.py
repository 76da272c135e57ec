"""Namespaces and cgroups of its own for a test node, all of which end with one process.

Why here: a kubelet mounts, containerd leaves shims and network namespaces, runc leaves cgroups. In namespaces that are
held by one first process the kernel removes all of it when that process is killed, even if pytest itself was killed.
The machine's own /run, /var/lib and /var/log are hidden in there: programs keep their usual paths and change nothing.
It must not know what runs inside.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes.binaries import MissingError, program
from tests.kubernetes.cgroup import Cgroup, remove_stale
from tests.kubernetes.process import Process, ProcessError, wait_until

_HIDDEN = ("/run", "/var/lib", "/var/log")
# A kubelet sets these to these values; in here it finds them set, and the machine keeps its own.
# Source: pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables, of Kubernetes v1.36.3 (read 2026-11-29).
_TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# Arguments: own folder, cgroup name, hierarchies. Joins the cgroups, then becomes the first process of new namespaces.
_OUTER = """
folder=$1 group=$2 pause=$3 inner=$4; shift 4
for hierarchy; do echo $$ > "$hierarchy/$group/cgroup.procs"; done
exec unshare --kill-child=KILL --fork --pid --mount --net --uts --ipc --cgroup --propagation private --mount-proc \
    sh -ec "$inner" node "$folder" "$group" "$pause" "$@"
"""
_INNER = """
folder=$1 group=$2 pause=$3; shift 3
for hierarchy; do
    mount --bind "$hierarchy/$group" "$folder/stage"
    umount --lazy "$hierarchy"
    mount --move "$folder/stage" "$hierarchy"
done
for hidden in run var/lib var/log; do mount --bind "$folder/$hidden" "/$hidden"; done
cd "$folder/sys" && find . -type f | while read -r tunable; do mount --bind "$tunable" "/proc/sys/$tunable"; done
mount --make-rshared /
ip link set lo up
cd /
exec "$pause"
"""


class Sandbox:
    """One first process, the namespaces and cgroups it holds, and the way into them.

    Args:
        folder: Gets what the programs inside write to /run, /var/lib and /var/log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        for hidden in _HIDDEN:
            if self.folder.is_relative_to(hidden) or Path(program("pause")).is_relative_to(hidden):
                raise MissingError(
                    f"The test node hides {hidden} but {self.folder} or the programs are in it: "
                    "run the tests from another folder with `pytest --basetemp=/tmp/chipwarden`"
                )
            (self.folder / hidden[1:]).mkdir(parents=True)
        (self.folder / "stage").mkdir()
        for tunable, value in _TUNABLES.items():
            path = self.folder / "sys" / tunable
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
        self.cgroup = Cgroup()
        fixed = [str(self.folder), self.cgroup.name, program("pause"), _INNER]
        command = ["sh", "-ec", _OUTER, "sandbox", *fixed, *map(str, self.cgroup.hierarchies)]
        self._holder = Process("sandbox", command, log=self.folder / "sandbox.log")
        self._pid = 0

    def start(self) -> None:
        """Make the namespaces, with loopback up and no other network.

        Raises:
            ProcessError: It did not work; nothing is left.
        """
        remove_stale()
        try:
            self.cgroup.make()
            self._holder.start()
            self._holder.wait_ready(self._is_held, seconds=10)
            self.cgroup.leave_inner()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill everything inside, and return when its cgroups are gone too."""
        self._holder.stop(grace_seconds=0)
        wait_until(self.cgroup.remove, seconds=30, what="rid of its cgroups")

    def remove_files(self) -> None:
        """Remove what was written to the hidden folders, but for the logs."""
        for hidden in ("run", "var/lib"):
            shutil.rmtree(self.folder / hidden)

    def enter(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` inside, as root, in the sandbox's cgroups."""
        entrances = " ".join(map(str, self.cgroup.entrances()))
        script = 'for group in $0; do echo $$ > "$group"; done; exec "$@"'
        nsenter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup"]
        return ["sh", "-ec", script, entrances, *nsenter, "--", *command]

    def run(self, *command: str, timeout_seconds: float = 60) -> str:
        """Run a command inside to its end and return its standard output.

        Raises:
            ProcessError: It failed or took too long; its standard error is in the message.
        """
        try:
            done = subprocess.run(
                self.enter(command),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_seconds,
                cwd="/",
            )
        except subprocess.TimeoutExpired as error:
            raise ProcessError(f"{' '.join(command)}: not done in {timeout_seconds:.0f} s") from error
        if done.returncode != 0:
            raise ProcessError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def path(self, inside: str) -> Path:
        """Return where a path of the sandbox is found from outside."""
        return Path(f"/proc/{self.pid}/root", inside.lstrip("/"))

    @property
    def pid(self) -> int:
        """The first process inside, seen from pytest."""
        if self._pid == 0:
            raise ProcessError("the sandbox was not started")
        return self._pid

    def _is_held(self) -> bool:
        """Tell whether the first process has set everything up, and remember it."""
        holder = self._holder.pid
        children = Path(f"/proc/{holder}/task/{holder}/children").read_text().split()
        if len(children) != 1 or Path(f"/proc/{children[0]}/comm").read_text().strip() != "pause":
            return False
        self._pid = int(children[0])
        return True


def join_network(pid: int) -> None:
    """Move the calling thread into the network namespace of a process; sockets it already has stay where they are."""
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newnet = 0x40000000  # linux/sched.h
    with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
        if libc.setns(namespace.fileno(), clone_newnet) != 0:
            raise OSError(ctypes.get_errno(), "setns")
