"""As whom a Prometheus server is asked: as whoever holds a token, or as a role of AWS.

An edge. What proves it is made anew for each request, so that a token which was rotated is used at once, and is never
part of a message. Must never be sent elsewhere: whoever asks follows no redirect.

Source: docs.aws.amazon.com/prometheus/latest/userguide/AMP-secure-querying.html (signature version 4, service aps,
action aps:QueryMetrics; read 2026-11-30); botocore 1.44.8, auth.py.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from recovery.page import UnusableError
from recovery.ports import PortError
from recovery.sending import Sending

if TYPE_CHECKING:
    from recovery.cloud import Sdk

_SERVICE: Final = "aps"
_CREDENTIALS_SECONDS: Final = 5.0
_LONGEST_TOKEN: Final = 1 << 16
_TOKEN: Final = re.compile(rb"[\x21-\x7e]+")


class Access(Protocol):
    """What a request proves."""

    def headers(self, url: str) -> dict[str, str]:
        """Give the headers for a GET of this address. Raises UnusableError."""


class Holder:
    """Asks as whoever holds a token.

    Args:
        file: with the token, which may be replaced at any time.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def headers(self, url: str) -> dict[str, str]:
        """Give the token of now.

        Raises:
            UnusableError: there is none.
        """
        del url
        try:
            with self._file.open("rb") as opened:
                token = opened.read(_LONGEST_TOKEN).strip()
        except OSError as error:
            raise UnusableError(f"prometheusTokenFile {self._file}: {error.strerror}") from error
        if not _TOKEN.fullmatch(token):
            raise UnusableError(f"prometheusTokenFile {self._file}: no token in it")
        return {"Authorization": f"Bearer {token.decode('ascii')}"}


class Signer:
    """Asks Amazon Managed Service for Prometheus, as the role that recovery has on AWS.

    Args:
        sdk: has the credentials.
        region: of the workspace.
    """

    def __init__(self, sdk: Sdk, region: str) -> None:
        self._sdk = sdk
        self._region = region

    def headers(self, url: str) -> dict[str, str]:
        """Sign a request.

        Raises:
            UnusableError: there are no credentials.
        """
        try:
            credentials = self._sdk.credentials(Sending(time.monotonic() + _CREDENTIALS_SECONDS))
        except PortError as error:
            raise UnusableError(str(error)) from error
        request = AWSRequest(method="GET", url=url)
        SigV4Auth(credentials, _SERVICE, self._region).add_auth(request)
        return dict(request.headers.items())
