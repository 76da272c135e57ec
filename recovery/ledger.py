"""The ledger in a ConfigMap: whoever writes it must have seen its latest version.

An edge. A leader that was paused and replaced cannot take a step, because its resourceVersion is old. What cannot be
read is never written over; whether recovery is paused is answered with yes when in doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from recovery import api, ledger_text
from recovery.ports import PortError
from recovery.servertime import ServerTime
from runtime.rest import MERGE

if TYPE_CHECKING:
    from datetime import datetime

    from recovery.model import LedgerBody
    from runtime.clock import Clock
    from runtime.rest import Rest

LEDGER: Final = "recovery-ledger"
LEDGER_KEY: Final = "ledger.json"
CONTROL: Final = "recovery-control"
PAUSED_KEY: Final = "paused"
NO_REASON: Final = "no reason given"
_ABSENT: Final = ""  # in place of a resourceVersion: there is no ConfigMap


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None

    def text(self, key: str) -> str | None:
        """Give a value; None = there is none. A binary one is the text of its base64, which is never a ledger."""
        return ((self.binary_data or {}) | (self.data or {})).get(key)


def ledger_path(namespace: str) -> str:
    """Tell under which path the ledger is written, always by compare-and-swap."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"


class KubeLedger:
    """The ledger of a cluster; implements `ports.Ledger`.

    Args:
        rest: the API server; not shared with another thread.
        namespace: recovery's own.
        clock: the own clock, for the time between the API server's answers.
    """

    def __init__(self, rest: Rest, namespace: str, clock: Clock) -> None:
        self._rest = rest
        self._namespace = namespace
        self._path = ledger_path(namespace)
        self._time = ServerTime(rest, clock)
        self._version: str | None = None  # None = not known, so that nothing may be written

    def load(self) -> LedgerBody | None:
        """Read the ledger; None = there is none.

        Raises:
            PortError: it cannot be read, or what is there is no ledger that we know.
        """
        self._version = None
        try:
            found = api.get(self._rest, f"{self._path}/{LEDGER}", _ConfigMap)
        except PortError as error:
            if not error.gone:
                raise
            self._version = _ABSENT
            return None
        text = found.text(LEDGER_KEY)
        try:
            body = None if text is None else ledger_text.read(text)
        except ledger_text.LedgerTextError as error:
            raise PortError(f"ConfigMap {LEDGER}, key {LEDGER_KEY}, is unreadable: {error}") from error
        self._version = found.metadata.resource_version
        return body

    def save(self, body: LedgerBody) -> None:
        """Write the ledger if nobody has since the last load or save; make the ConfigMap if there was none.

        Raises:
            PortError: conflict = load it again and decide again; else it may have been written all the same.
        """
        version, self._version = self._version, None
        if version is None:
            raise PortError("the ledger has to be read before it is written", conflict=True)
        try:
            text = ledger_text.write(body, self.now()).decode()
        except ledger_text.LedgerTextError as error:
            raise PortError(f"the ledger is too large: {error}") from error
        try:
            self._version = self._swap(version, {LEDGER_KEY: text})
        except PortError as error:
            self._version = None if error.conflict or error.denied else self._written(text)
            if self._version is None:
                raise

    def paused(self) -> str | None:
        """Tell why recovery is paused; None = it is not. What cannot be read is a reason."""
        try:
            why = api.get(self._rest, f"{self._path}/{CONTROL}", _ConfigMap).text(PAUSED_KEY)
        except PortError as error:
            return None if error.gone else f"ConfigMap {CONTROL} cannot be read: {error}"
        return None if why is None else why.strip() or NO_REASON

    def pause(self, why: str) -> None:
        """Pause recovery for all leaders, until `resume`.

        Raises:
            PortError: it may or may not be paused.
        """
        data = {PAUSED_KEY: why}
        try:
            self._change(CONTROL, {"data": data})
        except PortError as error:
            if not error.gone:
                raise
            self._create(CONTROL, data)

    def resume(self) -> None:
        """Let recovery go on.

        Raises:
            PortError: it may or may not be paused.
        """
        try:
            self._change(CONTROL, {"data": {PAUSED_KEY: None}, "binaryData": {PAUSED_KEY: None}})
        except PortError as error:
            if not error.gone:
                raise

    def now(self) -> datetime:
        """Tell the API server's time as of its last answer, aware UTC, and what has passed since."""
        return self._time.now()

    def _swap(self, version: str, data: dict[str, str]) -> str:
        """Write over one version; tell the next."""
        if version == _ABSENT:
            answer = self._create(LEDGER, data)
        else:
            answer = self._change(LEDGER, {"metadata": {"resourceVersion": version}, "data": data})
        return api.decode(self._path, answer, _ConfigMap).metadata.resource_version

    def _written(self, text: str) -> str | None:
        """Look whether a write whose answer was lost has arrived: nobody takes a step that was taken for unwritten.

        Returns:
            The version; None = something else is there, or nobody says.
        """
        try:
            found = api.get(self._rest, f"{self._path}/{LEDGER}", _ConfigMap)
        except PortError:
            return None
        return found.metadata.resource_version if found.text(LEDGER_KEY) == text else None

    def _create(self, name: str, data: dict[str, str]) -> bytes:
        metadata = {"name": name, "namespace": self._namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return api.ask(self._rest, "POST", self._path, body=body)

    def _change(self, name: str, body: dict[str, Any]) -> bytes:
        return api.ask(self._rest, "PATCH", f"{self._path}/{name}", body=body, content_type=MERGE)
