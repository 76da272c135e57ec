"""What went wrong with a call to AWS, in one error: which kind it was, and which permission was missing.

The SDK raises many unrelated classes, for a cut answer even KeyError. Must never read an error as a fact about a
machine.

Source: botocore 1.44.8, exceptions.py, retries/standard.py;
docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html (read 2026-11-29).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
from botocore import exceptions as sdk

from recovery.ports import PortError

if TYPE_CHECKING:
    from recovery.sending import Sending

Outcome = Literal[
    "denied",  # permissions lack the action
    "throttled",
    "refused",  # the service understood and said no
    "failed",  # the service, or somebody in between, said 5xx
    "timeout",
    "unreachable",
    "incomplete",  # an answer that is none
    "credentials",  # there are none, or they are not taken
    "given_up",  # at the limit of the round
]
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_CREDENTIALS: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "InvalidSignatureException",  # as CloudWatch says that a clock is wrong; Auto Scaling: SignatureDoesNotMatch
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "RequestExpired",
        "RequestInTheFuture",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
_LONGEST_MESSAGE: Final = 400
_KINDS: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], Outcome], ...]] = (
    ((sdk.ConnectTimeoutError, sdk.ReadTimeoutError, TimeoutError), "timeout"),
    ((sdk.ConnectionError, sdk.HTTPClientError), "unreachable"),
    (
        (
            sdk.NoCredentialsError,
            sdk.PartialCredentialsError,
            sdk.CredentialRetrievalError,
            sdk.MetadataRetrievalError,
            sdk.TokenRetrievalError,
            OSError,  # the file with the token
        ),
        "credentials",
    ),
    (msgspec.ValidationError, "incomplete"),
    ((sdk.ParamValidationError, sdk.NoRegionError), "refused"),
)


class CloudError(PortError):
    """There is no whole answer. It does not mean that nothing was done.

    Args:
        message: one sentence that names the action.
        outcome: the kind, as the metric shows it.
        code: the service's own name of the error; None = it said none.
        denied: the action that permissions lack; None = another cause.
        gone: the service does not know the instance.
        unsent: see PortError.
    """

    def __init__(
        self,
        message: str,
        *,
        outcome: Outcome,
        code: str | None = None,
        denied: str | None = None,
        gone: bool = False,
        unsent: bool = False,
    ) -> None:
        super().__init__(message, denied=denied, gone=gone, unsent=unsent)
        self.outcome: Outcome = outcome
        self.code = code


def classify(error: Exception, service: str, operation: str, sending: Sending) -> CloudError:
    """Make one error of whatever the SDK raised.

    Args:
        error: anything.
        service: that was called.
        operation: that was called; the error may be of another one, which was to fetch credentials.
        sending: the call; if its time is over or it was not sent any more, that is the cause.
    """
    action = f"{service}:{operation}"
    if isinstance(error, sdk.ClientError):
        return _refusal(error, action, operation)
    if sending.why_not is not None:
        return CloudError(f"{action}: not sent, {sending.why_not}", outcome="given_up", unsent=sending.is_unsent)
    message = f"{action}: {type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
    return CloudError(message, outcome=_outcome(error, sending), unsent=sending.is_unsent)


def _outcome(error: Exception, sending: Sending) -> Outcome:
    if sending.is_late:
        return "timeout"
    return next((outcome for kinds, outcome in _KINDS if isinstance(error, kinds)), "incomplete")


def _refusal(error: sdk.ClientError, action: str, operation: str) -> CloudError:
    """Read an error that a service has put into words; those of fetching credentials are not the action's."""
    details = error.response.get("Error", {})
    code, text = details.get("Code", ""), details.get("Message", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    inner = error.operation_name if error.operation_name != operation else None
    denied = (f"sts:{inner}" if inner else action) if code in _DENIED else None
    asked = f"{action}: {inner}" if inner else action
    return CloudError(
        f"{asked}: {code} {text}"[:_LONGEST_MESSAGE].rstrip(),
        outcome="credentials" if inner else _kind(code, status),
        code=code or None,
        denied=denied,
        gone=not inner and _says_gone(code, text),
    )


def _kind(code: str, status: int) -> Outcome:
    if code in _DENIED:
        return "denied"
    if code in _THROTTLED or status == _TOO_MANY_REQUESTS:
        return "throttled"
    if code in _CREDENTIALS:
        return "credentials"
    return "failed" if status >= _SERVER_ERROR else "refused"


def _says_gone(code: str, text: str) -> bool:
    """Tell whether the service knows no such instance, as Auto Scaling (in words only) and EC2 say it.

    `Instance Id not found - No managed instance found for instance ID: i-0123456789abcdef0` (ValidationError), reported
    in many public issues.
    """
    return code == "InvalidInstanceID.NotFound" or (
        code == "ValidationError" and "no managed instance found" in text.lower()
    )
