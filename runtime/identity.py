"""Who this machine is: its EC2 instance id and the id of its current boot.

A verdict belongs to an instance, not to a node name, and a fault may end with a boot: both ids decide whether a stored
fault is ours. An id that cannot be had is unknown, never a guess, and finding it out never stops the program. Nothing
but the instance id and the Region is asked of the metadata service.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import socket
import threading
import urllib.parse
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from runtime import logs

if TYPE_CHECKING:
    import http.client
    from collections.abc import Mapping

BOOT_ID_PATH: Final = "/proc/sys/kernel/random/boot_id"
# On Nitro instances the kernel shows the instance id here, without any network.
# Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html, read 2026-11-29.
ASSET_TAG_PATH: Final = "/sys/class/dmi/id/board_asset_tag"
# Both variables as the AWS SDKs read them.
# Source: docs.aws.amazon.com/sdkref/latest/guide/feature-imds-credentials.html, read 2026-11-29.
ENDPOINT_VARIABLE: Final = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
DISABLED_VARIABLE: Final = "AWS_EC2_METADATA_DISABLED"
DEFAULT_ENDPOINT: Final = "http://169.254.169.254"

_INSTANCE_ID = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z0-9]+)+-[0-9]+")
_HEADER: Final = "X-aws-ec2-metadata-token"
_LOOKUP_SECONDS: Final = 3.0
_STEP_SECONDS: Final = 1.0  # one connect, one read
_MAX_ANSWER_BYTES: Final = 256
_MAX_BOOT_ID_CHARACTERS: Final = 64
_MAX_REASON_CHARACTERS: Final = 200
_LOG = logs.get(__name__)


class IdentityError(Exception):
    """An id cannot be had here. It does not mean that the machine has none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """Which instance this is, and who said so.

    Args:
        instance: its id; None means unknown.
        source: where it is from.
    """

    instance: str | None
    source: Literal["setting", "dmi", "imds", "unknown"]


def is_instance_id(text: str) -> bool:
    """Tell whether a text is a well-formed EC2 instance id: `i-` and 8 or 17 lower-case hex digits."""
    return _INSTANCE_ID.fullmatch(text) is not None


def node_name(setting: str | None) -> str:
    """Return the Node's name: as it is set, else the host name in the letters in which the kubelet registers it.

    Source: k8s.io/component-helpers/node/util/hostname.go, GetHostname: trimmed and in lower case (read 2026-11-30).
    """
    return setting or socket.gethostname().strip().lower()


def boot_id(path: str = BOOT_ID_PATH) -> str:
    """Read the id of the current boot, which changes with every boot and never in between.

    Args:
        path: the kernel's file, or one that a test or a container without it provides.

    Returns:
        1 to 64 printable characters.

    Raises:
        IdentityError: the file cannot be read or holds something else; the message names it.
    """
    try:
        text = _beginning(path)
    except OSError as error:
        raise IdentityError(f"cannot read the boot id from {path}: {error.strerror}") from error
    if not (text.isascii() and text.isprintable() and 0 < len(text) <= _MAX_BOOT_ID_CHARACTERS):
        allowed = f"allowed: 1 to {_MAX_BOOT_ID_CHARACTERS} printable ASCII characters"
        raise IdentityError(f"cannot read the boot id from {path}: {text[:80]!r} is none ({allowed})")
    return text


def instance_id(setting: str | None, *, asset_tag_path: str = ASSET_TAG_PATH, imds: Imds | None = None) -> Identity:
    """Find out which instance this is: the setting, else the DMI asset tag, else the metadata service.

    It never raises and takes at most 3 s. Unknown is an answer: the caller may know better places.

    Args:
        setting: what the operator says; None or nothing but spaces means that he says nothing.
        asset_tag_path: the kernel's file.
        imds: the metadata service to ask; None means the one that the process environment names.
    """
    if setting and setting.strip():
        return Identity(setting.strip(), "setting")
    try:
        tag = _beginning(asset_tag_path)
    except OSError:
        tag = ""  # no DMI on this machine
    if is_instance_id(tag):
        return Identity(tag, "dmi")
    found = (imds or Imds()).instance_id()
    return Identity(found, "imds" if found else "unknown")


def _beginning(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(_MAX_ANSWER_BYTES).decode("utf-8", "replace").strip()


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of the metadata service, and what a good answer looks like."""

    name: str
    path: str
    answer: re.Pattern[str]


_INSTANCE = _Question("instance", "instance-id", _INSTANCE_ID)
_PLACE = _Question("Region", "placement/region", _REGION)


class Imds:
    """The instance metadata service, version 2 only: first a token, then the question.

    No proxy is ever used, whatever the environment says: a proxy would answer for its own instance.

    Args:
        environment: where AWS_EC2_METADATA_SERVICE_ENDPOINT and AWS_EC2_METADATA_DISABLED are looked for; None means
            the process environment.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        self._disabled = given.get(DISABLED_VARIABLE, "").strip().lower() == "true"
        self._endpoint = given.get(ENDPOINT_VARIABLE, "").strip() or DEFAULT_ENDPOINT

    def instance_id(self) -> str | None:
        """Ask for the instance id, for 3 s at most; None if there is no good answer, and the log says why."""
        return self._ask(_INSTANCE)

    def region(self) -> str | None:
        """Ask for the Region, for 3 s at most; None if there is no good answer, and the log says why.

        Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html, placement/region (read
        2026-11-29).
        """
        return self._ask(_PLACE)

    def _ask(self, question: _Question) -> str | None:
        if self._disabled:
            _LOG.info("metadata service not asked", reason=f"{DISABLED_VARIABLE} is true")
            return None
        lookup = _Lookup(self._endpoint, question)
        lookup.start()
        lookup.join(_LOOKUP_SECONDS)
        found, reason = lookup.answer, lookup.reason
        lookup.give_up()
        if found is None:
            _LOG.info(f"metadata service does not know the {question.name}", endpoint=self._endpoint, reason=reason)
        return found


class _Lookup(threading.Thread):
    """One look-up in a thread, because neither a name server nor a server that drips can be bounded otherwise."""

    def __init__(self, endpoint: str, question: _Question) -> None:
        super().__init__(name="imds", daemon=True)
        self.answer: str | None = None
        self._question = question
        self.reason = f"no whole answer within {_LOOKUP_SECONDS:g} s"
        self._endpoint = endpoint
        self._given_up = False
        self._connection: http.client.HTTPConnection | None = None

    def give_up(self) -> None:
        """End the thread soon, if it has not ended; what it still finds does not count."""
        self._given_up = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # it has just been closed
                connection.sock.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self.answer = self._answer()
        except Exception as error:  # noqa: BLE001 - whatever answers there, or not, only leaves the id unknown
            self.reason = f"{type(error).__name__}: {error}"[:_MAX_REASON_CHARACTERS]

    def _answer(self) -> str:
        """Get a token and ask with it; a token that was refused is replaced once.

        Source: AWS's own simulator, amazon-ec2-metadata-mock v1.13.0 (paths, headers, status 401).
        """
        for _ in range(2):
            status, token = self._exchange("PUT", "/latest/api/token", {f"{_HEADER}-ttl-seconds": "60"})
            if status != HTTPStatus.OK:
                raise IdentityError(f"no token, but status {status}")
            status, answer = self._exchange("GET", f"/latest/meta-data/{self._question.path}", {_HEADER: token})
            if status != HTTPStatus.UNAUTHORIZED:
                break
        if status != HTTPStatus.OK or not self._question.answer.fullmatch(answer):
            raise IdentityError(f"no {self._question.name}, but status {status} and {answer[:40]!r}")
        return answer

    def _exchange(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        import http.client  # noqa: PLC0415 - 6 MB that no machine with an asset tag has to pay

        address = urllib.parse.urlsplit(self._endpoint)
        if address.scheme != "http" or not address.hostname:
            raise IdentityError("the endpoint is no http:// address")
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=_STEP_SECONDS)
        self._connection = connection
        with contextlib.closing(connection):
            connection.connect()
            if self._given_up:  # looked at once there is a socket, so that give_up() misses none
                raise IdentityError("given up")
            connection.request(method, address.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(_MAX_ANSWER_BYTES + 1)
        if len(body) > _MAX_ANSWER_BYTES:
            raise IdentityError(f"status {answer.status} and an answer of more than {_MAX_ANSWER_BYTES} bytes")
        return answer.status, body.decode("ascii", "replace").strip()
