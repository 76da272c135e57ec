"""Recovery's settings: what each one means, where it may be set, what it is when nobody says anything."""

from __future__ import annotations

import enum
import re
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from recovery.policy import Budget, Policy, refuse_impossible
from runtime.durations import Duration
from runtime.identity import is_instance_id
from runtime.layers import Layers, layer
from runtime.settings import Kubernetes, LogFormat, LogLevel

__all__ = ["LAYERS", "Enabled", "Kubernetes", "Settings"]


class Enabled(enum.StrEnum):
    """Whether recovery may act: for all nodes, for none, or as each node's detector says."""

    TRUE = "true"
    FALSE = "false"
    DETECTOR = "detector"


_SHORTEST: Final = {
    "poll": Duration(1),
    "staleAfter": Duration(5),
    "cloudConnect": Duration(0.1),
    "cloudRead": Duration(0.1),
    "cloudRound": Duration(1),
}
_LONGEST_STALE: Final = Duration(240)  # Prometheus itself shows nothing that is older than five minutes
# `cluster="a",env=~"prod|test"`
_MATCHER: Final = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_SELECTOR = re.compile(rf"(?:{_MATCHER}(?:,{_MATCHER})*)?")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z0-9]+)+-[0-9]+|")


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All settings of recovery; the contract's section 8 lists them."""

    enabled: Annotated[
        Enabled,
        layer(
            env="ENABLE_RECOVERY",
            flag="--enable-recovery",
            about="whether to act: on all nodes, on none, or as each detector says",
        ),
    ] = Enabled.DETECTOR
    prometheus_url: Annotated[
        str,
        layer(
            env="CHIPWARDEN_PROMETHEUS_URL",
            flag="--prometheus-url",
            about="a Prometheus server; default: detector pages are read directly",
        ),
    ] = ""
    prometheus_selector: Annotated[
        str,
        layer(
            env="CHIPWARDEN_PROMETHEUS_SELECTOR",
            flag="--prometheus-selector",
            about='label matchers added to each query, such as cluster="a"',
        ),
    ] = ""
    prometheus_token_file: Annotated[
        str,
        layer(
            env="CHIPWARDEN_PROMETHEUS_TOKEN_FILE",
            flag="--prometheus-token-file",
            about="a file with a bearer token, read for each request; default: none is sent",
        ),
    ] = ""
    prometheus_ca_file: Annotated[
        str,
        layer(
            env="CHIPWARDEN_PROMETHEUS_CA_FILE",
            flag="--prometheus-ca-file",
            about="a file with the certificates that an https server is trusted by; default: the system's",
        ),
    ] = ""
    prometheus_sigv4_region: Annotated[
        str,
        layer(
            env="CHIPWARDEN_PROMETHEUS_SIGV4_REGION",
            flag="--prometheus-sigv4-region",
            about="sign requests for Amazon Managed Service for Prometheus in this Region; default: not signed",
        ),
    ] = ""
    detector_url: Annotated[
        str,
        layer(env="CHIPWARDEN_DETECTOR_URL", flag="--detector-url", about="the detector's page, stand-alone"),
    ] = "http://127.0.0.1:20257/metrics"
    poll: Annotated[
        Duration,
        layer(env="CHIPWARDEN_POLL", flag="--poll", about="how often to look; each second while a fault is active"),
    ] = Duration(5)
    namespace: Annotated[
        str, layer(env="POD_NAMESPACE", flag="--namespace", about="of the detectors, the ledger and the Lease")
    ] = "neuron-healthcheck-system"
    node_name: Annotated[
        str,
        layer(env="NODE_NAME", flag="--node-name", about="the Node that recovery itself is on; default: the host name"),
    ] = ""
    cluster_name: Annotated[
        str,
        layer(
            env="CHIPWARDEN_CLUSTER_NAME",
            flag="--cluster-name",
            about="CloudWatch dimension ClusterName; default: no dimension",
        ),
    ] = ""
    region: Annotated[
        str,
        layer(
            env=("AWS_REGION", "AWS_DEFAULT_REGION"),
            flag="--region",
            about="AWS Region; default: the Node's label topology.kubernetes.io/region, else IMDS",
        ),
    ] = ""
    stale_after: Annotated[Duration, layer(env="CHIPWARDEN_STALE_AFTER", about="how old what is read may be")] = (
        Duration(60)
    )
    cloudwatch_per_node: Annotated[
        bool, layer(env="CHIPWARDEN_CLOUDWATCH_PER_NODE", about="send points with dimension NodeName too")
    ] = False
    standalone_wait: Annotated[
        Duration,
        layer(env="CHIPWARDEN_STANDALONE_WAIT", about="stand-alone: a random part of it is waited for before acting"),
    ] = Duration(30)
    cloud_connect: Annotated[
        Duration, layer(env="CHIPWARDEN_CLOUD_CONNECT", about="time limit of a connection to AWS")
    ] = Duration(2)
    cloud_read: Annotated[
        Duration, layer(env="CHIPWARDEN_CLOUD_READ", about="time limit of a silence in an answer of AWS")
    ] = Duration(5)
    cloud_round: Annotated[
        Duration, layer(env="CHIPWARDEN_CLOUD_ROUND", about="time limit of all calls to AWS in one poll")
    ] = Duration(30)
    listen: Annotated[str, layer(env="CHIPWARDEN_LISTEN", flag="--listen", about="address and port of the pages")] = (
        "0.0.0.0:20258"
    )
    state_dir: Annotated[
        str, layer(env="CHIPWARDEN_STATE_DIR", flag="--state-dir", about="stand-alone: where the ledger is")
    ] = "/var/lib/chipwarden"
    kubernetes: Annotated[
        Kubernetes,
        layer(env="CHIPWARDEN_KUBERNETES", flag="--kubernetes", about="whether there is an API server"),
    ] = Kubernetes.AUTO
    instance_id: Annotated[
        str,
        layer(
            env="CHIPWARDEN_INSTANCE_ID",
            flag="--instance-id",
            about="EC2 instance id, stand-alone; default: DMI, else IMDSv2",
        ),
    ] = ""
    policies: dict[str, Policy] = {}
    budget: Budget = Budget()
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"

    def __post_init__(self) -> None:
        """Refuse what no single field can.

        Raises:
            ValueError: an impossible value; the message names the key and what is allowed.
        """
        for key, shortest in _SHORTEST.items():
            value = getattr(self, _attribute(key))
            if value < shortest:
                raise ValueError(f"{key}: {value} is too short (allowed: {shortest} or more)")
        if self.stale_after > _LONGEST_STALE:
            raise ValueError(f"staleAfter: {self.stale_after} is too long (allowed: {_LONGEST_STALE} or less)")
        if self.cloud_round < self.cloud_connect or self.cloud_round < self.cloud_read:
            raise ValueError("cloudRound: shorter than cloudConnect or cloudRead (allowed: at least as long as both)")
        if not _SELECTOR.fullmatch(self.prometheus_selector):
            raise ValueError(
                f"prometheusSelector: {self.prometheus_selector!r} is none (allowed: label matchers without braces,"
                ' such as cluster="a",env!="test")'
            )
        if not _REGION.fullmatch(self.region):
            raise ValueError(f"region: {self.region!r} is none (allowed: a name such as us-west-2)")
        if not _REGION.fullmatch(self.prometheus_sigv4_region):
            raise ValueError(f"prometheusSigv4Region: {self.prometheus_sigv4_region!r} is none (such as us-west-2)")
        if self.instance_id and not is_instance_id(self.instance_id):
            allowed = "i- and 8 or 17 lower-case hex digits"
            raise ValueError(f"instanceId: {self.instance_id!r} is none (allowed: {allowed})")
        if self.prometheus_url:
            _check_url("prometheusUrl", self.prometheus_url, ("http", "https"))
        self._check_access()
        _check_url("detectorUrl", self.detector_url, ("http",))
        refuse_impossible(self.policies)

    def _check_access(self) -> None:
        """Refuse what would not be used, or only by mistake: whoever sets it believes that he is protected.

        Raises:
            ValueError: see `__post_init__`.
        """
        chosen = {
            "prometheusTokenFile": self.prometheus_token_file,
            "prometheusCaFile": self.prometheus_ca_file,
            "prometheusSigv4Region": self.prometheus_sigv4_region,
        }
        unused = [key for key, value in chosen.items() if value and not self.prometheus_url]
        if unused:
            raise ValueError(f"{unused[0]}: of no use without prometheusUrl (allowed: set both)")
        if self.prometheus_token_file and self.prometheus_sigv4_region:
            raise ValueError("prometheusTokenFile: a request is either signed or has a token (allowed: one of both)")
        if self.prometheus_ca_file and not self.prometheus_url.startswith("https:"):
            raise ValueError("prometheusCaFile: of no use without https (allowed: a prometheusUrl with https)")


def _attribute(key: str) -> str:
    return re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", key)


def _check_url(key: str, url: str, schemes: tuple[str, ...]) -> None:
    if "@" in url:  # it may be a password: not shown
        raise ValueError(f"{key}: names and passwords in an address are not taken (allowed: prometheusTokenFile)")
    try:
        parts = urlsplit(url)
        fine = bool(parts.scheme in schemes and parts.hostname and parts.port != 0)
    except ValueError:  # a port that is none
        fine = False
    if not fine or parts.query or parts.fragment or not url.isascii() or " " in url:
        allowed = " or ".join(f"{scheme}://HOST:PORT/PATH" for scheme in schemes)
        raise ValueError(f"{key}: {url!r} is no such address (allowed: {allowed}, without a query)")


LAYERS: Final = Layers(Settings)
