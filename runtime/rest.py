"""Requests to the API server, in raw JSON, over the official client's transport.

An edge. The official client gives credentials, TLS and proxies; its generated classes cost 80 MB more and raise on real
Node objects, so paths are called directly. Every request has an end: connecting, each read and the whole answer are
bounded. Must never retry by itself, but once for a token that was rotated: only the caller knows what it is worth.

Source: kubernetes-client/python 37.0.1, kubernetes/client/{rest,api_client,configuration}.py (read 2026-11-29).
"""

from __future__ import annotations

import email.utils
import re
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from runtime.vocabulary import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0
WHOLE_SECONDS: Final = 15.0
_UNAUTHORIZED = 401
_SUCCESS = range(200, 300)
_LONGEST_WAIT_SECONDS = 300
_LONGEST_REFUSAL_BYTES = 1 << 16


class RestError(Exception):
    """A request was refused, failed, or got no answer in time.

    It does not mean that nothing was done: without a status the server may have done it all the same.

    Args:
        message: one sentence.
        status: HTTP status; None = no answer.
        retry_after_seconds: how long the server asks us to wait; None = it does not say.
        body: the answer itself, a Status object if the API server wrote it; b"" without an answer.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.body = body

    @property
    def code(self) -> str:
        """The status as a metric's label; `none` without an answer."""
        return str(self.status) if self.status is not None else "none"


class Dated(NamedTuple):
    """When the server says that it answered (header Date, whole seconds), and the monotonic seconds at that moment."""

    date: datetime
    monotonic: float


class Rest:
    """The API server.

    Args:
        counted: called with verb and status code (`none` = no answer) after each request.
        environ: where to find out whether this is a pod.
        whole_seconds: how long an answer may take, from the end of the request to its last byte.

    Nothing is imported or read before the first request.
    """

    def __init__(
        self,
        *,
        counted: Callable[[str, str], None],
        environ: Mapping[str, str],
        whole_seconds: float = WHOLE_SECONDS,
    ) -> None:
        self._counted = counted
        self._environ = environ
        self._whole_seconds = whole_seconds
        self._client: Any = None
        self.dated: Dated | None = None  # of the last answer that had a Date; None = none yet

    def request(
        self,
        verb: str,
        path: str,
        *,
        body: object = None,
        content_type: str = JSON,
        read_seconds: float = READ_SECONDS,
    ) -> bytes:
        """Send a request and return the body of a successful answer.

        Args:
            verb: GET, POST, PATCH, PUT, DELETE.
            path: path and query, quoted.
            body: what msgspec can encode; None = none.
            content_type: of the body.
            read_seconds: how long the server may be silent.

        Raises:
            RestError: anything but a 2xx answer.
        """
        try:
            return self._once(verb, path, body, content_type, read_seconds)
        except RestError as error:
            if error.status != _UNAUTHORIZED:
                raise
            self.close()  # the token was rotated: read it anew
            return self._once(verb, path, body, content_type, read_seconds)

    def close(self) -> None:
        """Drop connections and credentials; the next request starts anew."""
        if self._client is not None:
            self._client.rest_client.close()
            self._client = None

    def _once(self, verb: str, path: str, body: object, content_type: str, read_seconds: float) -> bytes:
        try:
            client = self._client or self._connect()
            headers = {"Accept": JSON, "User-Agent": client.user_agent}
            encoded = None
            if body is not None:
                headers["Content-Type"] = content_type
                encoded = msgspec.json.encode(body)
            client.update_params_for_auth(headers, [], ["BearerToken"], path, verb, encoded)
            if "authorization" in headers:
                headers["authorization"] = headers["authorization"].strip()  # a line end in a token file
            answer = client.rest_client.pool_manager.request(
                verb,
                client.configuration.host + path,
                body=encoded,
                headers=headers,
                timeout=_timeout(read_seconds),
                retries=False,
                preload_content=False,
            )
            self.dated = _dated(answer) or self.dated
            status, text = answer.status, _read(answer)
        except RestError as error:
            self._counted(verb, error.code)
            raise
        except Exception as error:
            self._counted(verb, "none")
            raise RestError(f"{verb} {path}: {type(error).__name__}: {error}") from error
        self._counted(verb, str(status))
        if status not in _SUCCESS:
            raise RestError(
                f"{verb} {path}: {status} {_said(text)}",
                status=status,
                retry_after_seconds=_retry_after(answer),
                body=text[:_LONGEST_REFUSAL_BYTES],
            )
        return text

    def _connect(self) -> Any:
        """Load credentials and make a client; late, because the import costs 20 MB."""
        from kubernetes import config  # noqa: PLC0415 - only when Kubernetes is on
        from kubernetes.client.api_client import ApiClient  # noqa: PLC0415 - the same
        from kubernetes.client.configuration import Configuration  # noqa: PLC0415 - the same

        from runtime.answers import pools  # noqa: PLC0415 - the same

        configuration = Configuration()
        if self._environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(client_configuration=configuration)
        else:
            path = self._environ.get("KUBECONFIG")
            try:
                config.load_kube_config(config_file=path, client_configuration=configuration, persist_config=False)
            except Exception as error:  # whatever the client makes of what is in the file
                raise ValueError(f"KUBECONFIG {path}: {error}") from error
        configuration.connection_pool_maxsize = 1
        client = ApiClient(configuration)
        client.user_agent = f"chipwarden/{VERSION}"
        client.rest_client.pool_manager.pool_classes_by_scheme = pools(self._whole_seconds)
        self._client = client
        return client


def is_configured(environ: Mapping[str, str]) -> bool:
    """Tell whether there is an API server to speak to: inside a cluster, or KUBECONFIG is set."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST") or environ.get("KUBECONFIG"))


def _timeout(read_seconds: float) -> Any:
    import urllib3  # noqa: PLC0415 - comes with the client

    return urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds)


def _read(answer: Any) -> bytes:
    """Read an answer to its end.

    Raises:
        RestError: it is too large; or it says success and nothing else: an API server always says more, so that its
            head must have been cut off.
    """
    from runtime.answers import AnswerError, read_whole  # noqa: PLC0415 - comes with the client

    try:
        text = read_whole(answer)
    except AnswerError as error:
        raise RestError(str(error)) from error
    if not text and answer.status in _SUCCESS:
        raise RestError(f"{answer.status} and nothing more")
    return text


def _said(text: bytes) -> str:
    """Take the message out of a Status object; anything else only in part."""
    try:
        return str(msgspec.json.decode(text)["message"])[:300]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return text[:100].decode("utf-8", "replace")


def _retry_after(answer: Any) -> float | None:
    value = answer.headers.get("Retry-After", "")
    return float(min(int(value), _LONGEST_WAIT_SECONDS)) if re.fullmatch("[0-9]{1,9}", value) else None


def _dated(answer: Any) -> Dated | None:
    try:
        date = email.utils.parsedate_to_datetime(answer.headers.get("Date", ""))
    except (ValueError, OverflowError):
        return None
    return Dated(date, time.monotonic()) if date.tzinfo is not None else None
