"""`run`: put the parts of recovery together and keep them going until SIGTERM."""

from __future__ import annotations

import gc
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from recovery.board import Board
from recovery.controller import Controller
from recovery.loop import Loop
from recovery.parts import make, rules_of
from recovery.store import is_online
from recovery.web import Pages
from runtime import logs
from runtime.clock import SystemClock
from runtime.pages import Server
from runtime.vocabulary import VERSION
from runtime.wake import Wake

if TYPE_CHECKING:
    from recovery.parts import Parts
    from recovery.settings import Settings

_ENDINGS: Final = (signal.SIGTERM, signal.SIGINT)
_STOPPING_SECONDS: Final = 4.5  # an orchestrator is promised five
_LAST_PASS_SECONDS: Final = 2.0
_LOG = logs.get(__name__)


def run(settings: Settings) -> None:
    """Run recovery until SIGTERM or SIGINT.

    Raises:
        PagesError, SettingsError: the settings do not work here.
    """
    for number in _ENDINGS:
        signal.signal(number, _leave)  # a process with id 1 in its container ignores signals that it does not handle
    logs.setup(log_format=settings.log_format, level=settings.log_level)
    board = Board(SystemClock())
    server = Server(settings.listen, Pages(board).routes())
    server.start()
    parts = make(settings, board.count_cloud)
    loop = Loop(_controller(settings, parts), board)
    told = Wake()
    for number in _ENDINGS:
        signal.signal(number, lambda *_: told.set())
    for thread in (*([parts.lease] if parts.lease is not None else []), *parts.threads):
        thread.start()
    gc.collect()
    gc.freeze()
    online = is_online(settings)
    _LOG.info("recovery started", version=VERSION, kubernetes=online, region=parts.region, port=server.port)
    loop.start()
    _wait(told)
    _stop(loop, parts)
    server.close()
    _LOG.info("recovery stopped")


def _leave(*_: object) -> None:
    """End at once and cleanly: nothing has begun."""
    raise SystemExit(0)


def _controller(settings: Settings, parts: Parts) -> Controller:
    return Controller(
        rules=rules_of(settings),
        fleet=parts.fleet,
        nodes=parts.nodes,
        ledger=parts.ledger,
        lead=parts.lead,
        cloud=parts.cloud,
        karpenter=parts.karpenter,
        points=parts.points,
        poll_seconds=settings.poll.seconds,
    )


def _wait(told: Wake) -> None:
    poll = select.poll()
    poll.register(told.fileno(), select.POLLIN)
    poll.poll()


def _stop(loop: Loop, parts: Parts) -> None:
    """End in time, whatever hangs. The lead is given up only if the last pass has ended: else it has to expire."""
    end = time.monotonic() + _STOPPING_SECONDS
    ended = loop.stop(_LAST_PASS_SECONDS)
    lease = [parts.lease] if parts.lease is not None and ended else []
    closing = [threading.Thread(target=thread.close, daemon=True) for thread in (*lease, *parts.threads)]
    for one in closing:
        one.start()
    for one in closing:
        one.join(max(0.0, end - time.monotonic()))
