"""Start and end the programs of a test cluster so that none outlives pytest.

Why here: etcd or a kubelet left behind by a failed run holds ports, memory and mounts, and makes the next run fail for
a reason that nobody looks for. It must not know what the programs are.
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_POLL_SECONDS = 0.02
# Below the kernel's own range for outgoing connections (32768-60999), so that while a server is stopped on purpose no
# client can be given its port.
_PORTS = range(20000, 32000)


class ProcessError(Exception):
    """A program did not start, ended too early or was not ready in time. It does not mean that nothing is running."""


def free_port() -> int:
    """Return a loopback TCP port that nothing listens on, and that no outgoing connection will take."""
    start = int.from_bytes(os.urandom(2), "big") % len(_PORTS)
    for offset in range(len(_PORTS)):
        port = _PORTS[(start + offset) % len(_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ProcessError(f"no free port from {_PORTS.start} to {_PORTS.stop - 1}")


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Return once `condition` is true.

    Args:
        condition: Called every 20 ms; what it raises is passed on.
        seconds: How long to wait in all.
        what: Completes the sentence "... within N s".

    Raises:
        ProcessError: It was still false at the end.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ProcessError(f"not {what} within {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)


class Process:
    """One program in a session of its own, which the kernel kills when pytest dies, however it dies.

    Start it from the main thread: the kernel watches the thread that started it, not the process.

    Args:
        name: For messages and for the name of the log file.
        command: Program and arguments.
        log: Both its output streams are appended to this file.
        environment: None passes on pytest's own.
        enter: Turns the command, when it is started, into one that runs it elsewhere; None leaves it as it is.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        enter: Callable[[Sequence[str]], list[str]] | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._environment = environment
        self._enter = enter or list
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id, seen from pytest."""
        if self._popen is None:
            raise ProcessError(f"{self.name} was not started")
        return self._popen.pid

    def is_running(self) -> bool:
        """Tell whether it was started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Start it and return at once."""
        if threading.current_thread() is not threading.main_thread():
            raise ProcessError(f"start {self.name} from the main thread: the kernel ends it with the thread")
        if self.is_running():
            raise ProcessError(f"{self.name} is already running")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self._enter(self.command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return once `ready` is true; do not wait for a program that has already ended.

        Raises:
            ProcessError: Ended or not ready in time; its last lines are in the message.
        """

        def ended_or_ready() -> bool:
            if not self.is_running():
                raise ProcessError("ended at once")
            return ready()

        try:
            wait_until(ended_or_ready, seconds=seconds, what="ready")
        except ProcessError as error:
            raise ProcessError(f"{self.name} {error}; {self.log} ends with:\n{self.tail()}") from error

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and to all that it started in its session."""
        if self._popen is not None:
            try:
                os.killpg(self._popen.pid, number)
            except ProcessLookupError:
                return

    def stop(self, *, grace_seconds: float = 10.0) -> None:
        """End it, by SIGKILL what is left after `grace_seconds` (0: at once), and return when all of it is gone."""
        if self._popen is None:
            return
        if grace_seconds > 0:
            self.send(signal.SIGTERM)
            try:
                wait_until(self._is_gone, seconds=grace_seconds, what="gone")
            except ProcessError:
                grace_seconds = 0
        if grace_seconds == 0:
            self.send(signal.SIGKILL)
            wait_until(self._is_gone, seconds=30, what="gone after SIGKILL")
        self._popen = None

    def _is_gone(self) -> bool:
        """Tell whether the program and its whole session are gone; the program itself is reaped here."""
        if self._popen is None or self._popen.poll() is None:
            return False
        try:
            os.killpg(self._popen.pid, 0)
        except ProcessLookupError:
            return True
        return False
