"""The ledger in a file, for recovery beside a stand-alone detector.

An edge, with the same rules as the one in a ConfigMap: whoever writes must have seen the latest version, and what
cannot be read is never written over. A crash at any moment leaves either the old file or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recovery import ledger_text
from recovery.ledger import LEDGER_KEY, NO_REASON, PAUSED_KEY
from recovery.ports import PortError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from recovery.model import LedgerBody
    from runtime.clock import Clock

_LARGEST_BYTES: Final = 8 << 20
_LONGEST_REASON_BYTES: Final = 1024
_LOCK_SECONDS: Final = 2.0
_LOCK_AGAIN_SECONDS: Final = 0.02
_ABSENT: Final = b""


class FileLedger:
    """The ledger of one machine; implements `ports.Ledger`.

    Args:
        directory: recovery's own; made if it is missing.
        clock: the machine's.
    """

    def __init__(self, directory: str, clock: Clock) -> None:
        self._directory = Path(directory)
        self._clock = clock
        self.path: Final = self._directory / LEDGER_KEY
        self._pause: Final = self._directory / PAUSED_KEY
        self._seen: bytes | None = None  # the file as it was read or written last; None = not known

    def load(self) -> LedgerBody | None:
        """Read the ledger; None = there is none.

        Raises:
            PortError: it cannot be read, or what is there is no ledger that we know.
        """
        self._seen = None
        text = self._read()
        try:
            body = None if text == _ABSENT else ledger_text.read(text)
        except ledger_text.LedgerTextError as error:
            raise PortError(f"{self.path} is unreadable: {error}") from error
        self._seen = text
        return body

    def save(self, body: LedgerBody) -> None:
        """Write the ledger if nobody has since the last load or save.

        Raises:
            PortError: conflict = load it again and decide again; else the old file is untouched.
        """
        seen, self._seen = self._seen, None
        if seen is None:
            raise PortError("the ledger has to be read before it is written", conflict=True)
        try:
            text = ledger_text.write(body, self.now())
        except ledger_text.LedgerTextError as error:
            raise PortError(f"the ledger is too large: {error}") from error
        with self._locked():
            if self._read() != seen:
                raise PortError(f"{self.path} was written by somebody else", conflict=True)
            self._replace(self.path, text)
        self._seen = text

    def paused(self) -> str | None:
        """Tell why recovery is paused; None = it is not. What cannot be read is a reason."""
        try:
            with self._pause.open("rb") as file:
                why = file.read(_LONGEST_REASON_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self._pause} cannot be read: {error.strerror}"
        return why.decode("utf-8", "replace").strip() or NO_REASON

    def pause(self, why: str) -> None:
        """Pause recovery until `resume`. Raises PortError."""
        self._replace(self._pause, why.encode("utf-8", "replace"))

    def resume(self) -> None:
        """Let recovery go on. Raises PortError."""
        try:
            self._pause.unlink(missing_ok=True)
        except OSError as error:
            raise PortError(f"{self._pause} cannot be removed: {error.strerror}") from error

    def now(self) -> datetime:
        """Tell the machine's time, aware UTC."""
        return self._clock.now()

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                text = file.read(_LARGEST_BYTES + 1)
        except FileNotFoundError:
            return _ABSENT
        except OSError as error:
            raise PortError(f"{self.path} cannot be read: {error.strerror}") from error
        if not text:
            raise PortError(f"{self.path} is unreadable: it is empty")
        if len(text) > _LARGEST_BYTES:
            raise PortError(f"{self.path} is unreadable: more than {_LARGEST_BYTES} bytes")
        return text

    def _replace(self, path: Path, text: bytes) -> None:
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            with fresh.open("wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(path)
            self._sync_directory()
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise PortError(f"{path} cannot be written: {error.strerror}") from error

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other writers out, and do not wait for them for ever; the kernel frees the lock of one that dies."""
        try:
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            descriptor = os.open(self._directory / ".ledger.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PortError(f"{self._directory} cannot be written to: {error.strerror}") from error
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise PortError(f"{self.path} is locked by somebody else: {error.strerror}") from error
                time.sleep(_LOCK_AGAIN_SECONDS)
            else:
                return
