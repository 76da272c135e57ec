"""The detector's side of Kubernetes, put together; imported only when Kubernetes is on."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from detector.kube import NodeClient
from detector.publisher import Publisher
from detector.source import KmsgError
from runtime.identity import node_name
from runtime.rest import Rest

if TYPE_CHECKING:
    from detector.agent import Agent
    from detector.board import Board
    from detector.settings import Settings
    from runtime.clock import Clock

_BLIND_SAID_SECONDS: Final = 10.0
_LOOK_AGAIN_SECONDS: Final = 0.05


def go_online(settings: Settings, agent: Agent, board: Board, clock: Clock) -> Publisher:
    """Start publishing, after making sure that there is something to publish.

    Raises:
        KmsgError: the kernel log cannot be opened; the API server has been told, if it listens.
    """
    rest = Rest(counted=board.count_request, environ=os.environ)
    publisher = Publisher(
        client=NodeClient(rest, node_name(settings.node_name)),
        health=agent.health,
        post=agent.post,
        board=board,
        boot=board.boot,
        says_ready=settings.accelerated_hardware_ready,
        clock=clock,
    )
    publisher.start()
    try:
        agent.open()
    except KmsgError as error:
        _say_blind(agent, publisher, error, clock)
        raise
    return publisher


def _say_blind(agent: Agent, publisher: Publisher, error: KmsgError, clock: Clock) -> None:
    """Tell the API server, before giving up, that nobody watches this node; a True condition stays True."""
    agent.health.set_blind(str(error), clock.now())
    publisher.announce(agent.health.announcements())
    publisher.publish(agent.health.view(), clock.monotonic())
    give_up_at = clock.monotonic() + _BLIND_SAID_SECONDS
    while not publisher.is_settled() and clock.monotonic() < give_up_at:
        agent.take_posts()
        time.sleep(_LOOK_AGAIN_SECONDS)
    publisher.close()
