"""`run`: put the parts of the detector together and keep them going until SIGTERM."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import signal
import sys
from typing import TYPE_CHECKING, Final

from detector.agent import Agent
from detector.board import Board
from detector.follow import FileReader
from detector.health import NodeHealth
from detector.keeper import Keeper
from detector.kmsg import KmsgReader
from detector.matcher import Matcher
from detector.outlets import AllOutlets
from detector.requests import Requests
from detector.rulefiles import load_all
from detector.settings import Kubernetes
from detector.sight import Sight
from detector.statefile import InUseError, StateFile, StateFileError
from detector.web import Pages
from runtime import identity, logs
from runtime.clock import SystemClock
from runtime.layers import SettingsError
from runtime.pages import Server
from runtime.rest import is_configured
from runtime.vocabulary import VERSION

if TYPE_CHECKING:
    from detector.model import State
    from detector.settings import Settings
    from detector.source import Source

_LOG = logs.get(__name__)
# A busy thread holds the interpreter for this long before the reader gets it back; the default of 5 ms loses records.
_SWITCH_SECONDS: Final = 0.0005
_ENDINGS: Final = (signal.SIGTERM, signal.SIGINT)


def run(settings: Settings) -> None:
    """Run the detector until SIGTERM or SIGINT.

    Raises:
        RulesError, PagesError, IdentityError, SettingsError: the settings do not work here.
        KmsgError: the kernel log cannot be opened.
    """
    for number in _ENDINGS:
        signal.signal(number, _leave)  # a process with id 1 in its container ignores signals that it does not handle
    logs.setup(log_format=settings.log_format, level=settings.log_level)
    sys.setswitchinterval(_SWITCH_SECONDS)
    clock = SystemClock()
    catalog = load_all(settings.rules)
    boot = identity.boot_id(settings.boot_id_file)
    own = identity.instance_id(settings.instance_id or None)
    file = _claimed(settings)
    state = _load(file)
    health = NodeHealth(catalog, boot=boot, instance=own.instance, now=clock.now(), state=state)
    source = _source(settings, after=state.seq if state is not None and state.boot == boot else None)
    keeper = Keeper(file)
    online = _is_online(settings)
    sight = Sight(source, clock)
    board = Board(
        source=source,
        sight=sight,
        keeper=keeper,
        boot=boot,
        instance=health.instance,
        published=not online,
        node_read=not online,
        platform_repair=online and settings.accelerated_hardware_ready,
    )
    outlets = AllOutlets(board=board, keeper=keeper, requests=Requests(file))
    agent = Agent(
        source=source,
        sight=sight,
        matcher=Matcher(catalog.rule_sets, kernel_only=settings.kernel_only, started_us=int(clock.monotonic() * 1e6)),
        health=health,
        outlets=outlets,
        clock=clock,
        heartbeat_seconds=lambda: settings.heartbeat.seconds * random.uniform(0.9, 1.1),  # noqa: S311 - not a secret
    )
    server = Server(settings.listen, Pages(board, catalog, settings).routes())
    if online:
        from detector.online import go_online  # noqa: PLC0415 - costs memory that a stand-alone detector need not pay

        outlets.publisher = go_online(settings, agent, board, clock)
    else:
        agent.open()
    for number in _ENDINGS:
        signal.signal(number, lambda *_: agent.stop())
    server.start()
    _settle()
    _LOG.info("detector started", version=VERSION, rules=len(catalog.rules), instance=own.instance, port=server.port)
    agent.run()
    outlets.close()
    server.close()
    _LOG.info("detector stopped", records=source.records, lost=source.lost)


def _settle() -> None:
    """Give back the memory that loading and compiling the rules has left over: 3 MB of 32."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _leave(*_: object) -> None:
    """End at once and cleanly: there is nothing to keep before the loop runs."""
    raise SystemExit(0)


def _is_online(settings: Settings) -> bool:
    if settings.kubernetes is Kubernetes.AUTO:
        return is_configured(os.environ)
    return settings.kubernetes is Kubernetes.ON


def _claimed(settings: Settings) -> StateFile:
    file = StateFile(settings.state_dir)
    try:
        file.claim()
    except InUseError as error:
        raise SettingsError(f"stateDir: {error} (allowed: a directory of this detector's own)") from error
    return file


def _load(file: StateFile) -> State | None:
    """Load what an earlier run left; what cannot be read counts as nothing, and is said."""
    try:
        return file.load()
    except StateFileError as error:
        _LOG.error("state of an earlier run is lost", error=str(error))
        return None


def _source(settings: Settings, after: int | None) -> Source:
    if settings.kmsg_follow:
        return FileReader(settings.kmsg, after=after)
    return KmsgReader(settings.kmsg, after=after)
