"""Settings that both programs have, each written once."""

from __future__ import annotations

import enum
from typing import Annotated, Literal, TypeAlias

from runtime.layers import layer


class Kubernetes(enum.StrEnum):
    """Whether there is an API server to speak to; auto: inside a cluster, or if KUBECONFIG is set."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


LogFormat: TypeAlias = Annotated[
    Literal["auto", "json", "text"],
    layer(env="CHIPWARDEN_LOG_FORMAT", flag="--log-format", about="form of the log"),
]
LogLevel: TypeAlias = Annotated[
    Literal["debug", "info", "warning", "error"],
    layer(env="CHIPWARDEN_LOG_LEVEL", flag="--log-level", about="least level that is logged"),
]
