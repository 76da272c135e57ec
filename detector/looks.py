"""Where a support archive gets its parts from: one look each, none of which needs another to succeed.

An edge. It only reads, as one reader more: the kernel log from its first record, the pages as anybody gets them. Every
look ends by itself, whatever is broken, and says what it could not see.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import stat
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from detector import inventory
from detector.collection import LARGEST_BYTES
from detector.evidence import Evidence
from detector.follow import FileReader
from detector.kmsg import KmsgReader
from detector.matcher import Matcher
from detector.node_excerpt import excerpt
from detector.rulefiles import looks_like_one, read
from detector.rules import RulesError, combine, load
from detector.settings import LAYERS, Kubernetes
from detector.statefile import StateFile, StateFileError
from runtime import identity
from runtime.answers import timed
from runtime.rest import Rest, RestError, is_configured
from runtime.vocabulary import SHIPPED_RULE_SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from detector.collection import Collection
    from detector.model import RuleSet
    from detector.settings import Settings
    from detector.source import Source

_LOG_SECONDS: Final = 10.0
_PAGE_SECONDS: Final = 3.0
_NODE_SECONDS: Final = 6.0
_NODE_SILENCE_SECONDS: Final = 3.0
_MOST_ENTRIES: Final = 100  # of the state directory
_NEAR: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where the detector listens on all addresses
_PAGES: Final = {"metrics": "txt", "conditions": "json", "healthz": "txt", "readyz": "txt"}


class Looks:
    """The looks at one detector.

    Args:
        settings: of the detector.
        collection: what they add to.
    """

    def __init__(self, settings: Settings, collection: Collection) -> None:
        self._settings = settings
        self._collection = collection
        self._rule_sets: list[RuleSet] = []
        self._instance: str | None = None

    def __iter__(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Give each look with the name of what it is for, in their order."""
        yield "settings", self._see_settings
        yield "machine", self._see_machine
        yield "rules", self._see_rules
        yield "state", self._see_state
        yield "kernel log", self._see_kernel_log
        yield "pages", self._see_pages
        yield "node", self._see_node
        yield "processes", self._see_processes

    def _see_settings(self) -> None:
        text = LAYERS.show(self._settings).encode()
        self._collection.add_text("settings.yaml", "the effective settings of this command, as of run", text)

    def _see_machine(self) -> None:
        own = identity.instance_id(self._settings.instance_id or None)
        self._instance = own.instance
        told: dict[str, Any] = {
            "instance": own.instance,
            "instance_source": own.source,
            "versions": inventory.versions(),
            **inventory.machine(),
        }
        try:
            told["boot"] = identity.boot_id(self._settings.boot_id_file)
        except identity.IdentityError as error:
            self._collection.miss("boot id", str(error))
        self._collection.add("machine.json", "versions, kernel, drivers, identity", told)

    def _see_rules(self) -> None:
        told = []
        for number, name in enumerate(self._settings.rules, 1):
            entry: dict[str, Any] = {"rules": name, "shipped": name in SHIPPED_RULE_SETS}
            told.append(entry)
            try:
                text = read(name)
                entry |= {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
                self._add_rules(f"rules/{number}-{Path(name).name}", name, text)
                entry["loads"] = True
            except RulesError as error:
                entry |= {"loads": False, "why": str(error)}
                self._collection.miss("rules", str(error))
        try:
            combine(tuple(self._rule_sets))
        except RulesError as error:
            self._collection.miss("rules together", str(error))
        self._collection.add("rules.json", "the rule sets, their checksums, and whether they load", told)

    def _add_rules(self, file: str, name: str, text: bytes) -> None:
        """Add a rule file to the archive and its rules to those looked for.

        Raises:
            RulesError: it does not load; if it is something else, the archive has nothing of it.
        """
        try:
            rule_set = load(text, name)
        except RulesError as error:
            if not looks_like_one(text):
                raise RulesError(f"{name}: is no rule file; only its size and checksum are told") from error
            self._collection.add_text(file, "a rule file of the user that does not load, redacted too", text)
            raise
        self._rule_sets.append(rule_set)
        if name not in SHIPPED_RULE_SETS:
            self._collection.add_text(file, "a rule file of the user, redacted too", text)

    def _see_state(self) -> None:
        file = StateFile(self._settings.state_dir)
        try:
            self._collection.add("state_dir.json", "what is in the state directory", _entries(file.path.parent))
            text = inventory.beginning(file.path, LARGEST_BYTES + 1, follow=False)
            self._collection.add_text("state.json", "the state file", text)
            file.read()
        except FileNotFoundError as error:
            self._collection.miss("state", f"{error.filename}: there is none")
        except OSError as error:
            self._collection.miss("state", f"{file.path}: {error.strerror}")
        except StateFileError as error:
            self._collection.miss("state that can be read", str(error))

    def _see_kernel_log(self) -> None:
        settings = self._settings
        source: Source = FileReader(settings.kmsg) if settings.kmsg_follow else KmsgReader(settings.kmsg)
        evidence = Evidence(Matcher(self._rule_sets, kernel_only=settings.kernel_only), instance=self._instance)
        source.open()
        with contextlib.closing(source):
            if not _read_all(source, evidence):
                self._collection.miss("the end of the kernel log", f"more than can be read in {_LOG_SECONDS:g} s")
        lines = list(evidence.lines())
        self._collection.add_lines(
            "kernel_log.jsonl", "the first and the newest lines of each reason, their neighbours, and the end", lines
        )
        told = {
            "source": source.source,
            "records": source.records,
            "lost": source.lost,
            "overruns": source.overruns,
            "malformed": source.malformed,
            "last": source.last,
            "picked": len(lines),
            "lines_by_reason": evidence.reasons,
            "active_without_a_line": sorted(_active(settings.state_dir) - set(evidence.reasons)),
        }
        self._collection.add("kernel_log.json", "how much of the kernel log was read, and what was in it", told)

    def _see_pages(self) -> None:
        address = urlsplit(f"//{self._settings.listen}")
        host, port = _NEAR.get(address.hostname or "", address.hostname), address.port
        if not port:
            self._collection.miss("pages", f"{self._settings.listen} tells no port; give the real one with --listen")
            return
        for name, ending in _PAGES.items():
            try:
                status, text = _page(str(host), port, f"/{name}")
            except (OSError, http.client.HTTPException) as error:
                self._collection.miss("pages", f"no detector answers at {host} port {port}, GET /{name}: {error}")
                return
            self._collection.add_text(f"pages/{name}.{ending}", f"GET /{name}, status {status}", text)

    def _see_node(self) -> None:
        settings = self._settings
        if settings.kubernetes is Kubernetes.OFF:
            return
        if settings.kubernetes is Kubernetes.AUTO and not is_configured(os.environ):
            self._collection.miss("node", "Kubernetes is off: this is no pod, and KUBECONFIG is not set")
            return
        rest = Rest(counted=lambda *_: None, environ=os.environ, whole_seconds=_NODE_SECONDS)
        path = f"/api/v1/nodes/{quote(identity.node_name(settings.node_name), safe='')}"
        try:
            node = _within(_NODE_SECONDS, lambda: rest.request("GET", path, read_seconds=_NODE_SILENCE_SECONDS))
            self._collection.add("node.json", "what the own Node says", excerpt(node))
        except (RestError, TimeoutError, ValueError) as error:
            self._collection.miss("node", str(error))

    def _see_processes(self) -> None:
        found = inventory.detectors()
        if not found:
            self._collection.miss("processes", "no detector runs here, or none that this process can see")
        self._collection.add("processes.json", "the detectors that run here, and what they use", found)


def _entries(folder: Path) -> list[dict[str, Any]]:
    """List a folder, the files set aside in it among others."""
    told = []
    for path in sorted(folder.iterdir())[:_MOST_ENTRIES]:
        found = path.lstat()
        at = datetime.fromtimestamp(found.st_mtime, UTC)
        kind = "file" if stat.S_ISREG(found.st_mode) else "other"
        told.append({"name": path.name, "bytes": found.st_size, "kind": kind, "changed_at": f"{at:%Y-%m-%dT%H:%M:%SZ}"})
    return told


def _active(state_dir: str) -> set[str]:
    """Name the reasons that the state file has as active, if it can be read."""
    with contextlib.suppress(StateFileError):
        state = StateFile(state_dir).read()
        return {fault.reason for fault in state.faults} if state else set()
    return set()


def _read_all(source: Source, evidence: Evidence) -> bool:
    """Read until nothing is new; tell whether that came in time."""
    deadline = time.monotonic() + _LOG_SECONDS
    while time.monotonic() < deadline:
        malformed = source.malformed
        records = source.batch()
        if not records and source.malformed == malformed:
            return True
        evidence.take(records)
    return False


def _page(host: str, port: int, path: str) -> tuple[int, bytes]:
    deadline = time.monotonic() + _PAGE_SECONDS
    connection = http.client.HTTPConnection(host, port, timeout=_PAGE_SECONDS)
    connection.response_class = timed(lambda: deadline)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read(LARGEST_BYTES + 1)


def _within(seconds: float, call: Callable[[], bytes]) -> bytes:
    """Call something that may hang where no time limit reaches: a name server, a program that gives credentials.

    Raises:
        TimeoutError: it has not ended in time.
    """
    ended: list[bytes | BaseException] = []

    def run() -> None:
        try:
            ended.append(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        raise TimeoutError(f"the API server gave no answer within {seconds:g} s")
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0]
