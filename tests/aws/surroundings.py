"""All of AWS that a test needs: moto's server, the player of groups, the proxy before them, and variables to find it.

For tests of other folders: `with Aws() as aws:` is all it takes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from typing import TYPE_CHECKING

from botocore.loaders import Loader, create_loader
from moto.server import ThreadedMotoServer

from recovery.cloud import Sdk
from tests.aws.player import REGION, Player
from tests.aws.proxy import AwsProxy
from tests.aws.wording import spoken_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    import pytest

    from runtime.clock import Clock

CONNECT, READ, ROUND = 0.2, 0.5, 3.0  # seconds: a tenth of the defaults
SLACK = 3.0  # seconds that a busy machine may add to a limit
_SERVICES = ("AUTO_SCALING", "CLOUDWATCH", "EC2", "STS")
# What this machine or its user may have set, and a test must not see.
FOREIGN = (
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
)


class Aws:
    """AWS, played.

    Args:
        clock: by which groups are played; None = the machine's, and they play by themselves.
        page: how many elements an answer of Auto Scaling holds at most.

    Attributes:
        player: makes groups, and plays them.
        proxy: the way there; what goes wrong, and what was asked.
    """

    def __init__(self, clock: Clock | None = None, *, page: int = 50) -> None:
        self.player = Player(clock)
        self.proxy = AwsProxy(_server().get_host_and_port())
        self._stack = contextlib.ExitStack()
        self._stack.callback(self.player.close)
        self._stack.callback(self.proxy.close)
        self._stack.enter_context(spoken_by(self.player, page))
        if clock is None:
            self._stack.enter_context(self.player.running())

    def env(self) -> dict[str, str]:
        """Tell the variables with which a program finds it, with credentials that never expire."""
        return {f"AWS_ENDPOINT_URL_{service}": self.proxy.url for service in _SERVICES} | {
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "example",
            "AWS_REGION": REGION,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }

    def environ(self) -> dict[str, str]:
        """Tell the whole environment of a program that finds it: this process' own, without what is not meant."""
        return {name: value for name, value in os.environ.items() if name not in FOREIGN} | self.env()

    def close(self) -> None:
        """End it."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def set_environment(patch: pytest.MonkeyPatch, aws: Aws) -> None:
    """Have this process find it."""
    for name in FOREIGN:
        patch.delenv(name, raising=False)
    for name, value in aws.env().items():
        patch.setenv(name, value)


def make_sdk(counted: Callable[[str, str], None] = lambda *_: None, *, is_hasty: bool = False) -> Sdk:
    """Make an SDK that need not read its models anew, which takes longer than most tests.

    Args:
        counted: as for any SDK.
        is_hasty: with a tenth of the default limits.
    """
    limits = {"connect_seconds": CONNECT, "read_seconds": READ} if is_hasty else {}
    sdk = Sdk(region=REGION, counted=counted, **limits)
    sdk._session.register_component("data_loader", _loader())
    return sdk


@functools.cache
def _loader() -> Loader:
    return create_loader()


@functools.cache
def _server() -> ThreadedMotoServer:
    """Start moto's server once for the whole run: its first calls take seconds."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it says every request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    return server
