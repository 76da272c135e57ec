"""What stands behind the ports: a cluster and AWS, or stand-alone one machine and AWS. Nothing is decided here.

The loop has one transport to the API server, the Lease and the Events have their own, so that none waits for another.
Nothing is asked for and no thread is started before `start`, but for the Region.
"""

from __future__ import annotations

import os
import random
import socket
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from recovery import api
from recovery.access import Holder, Signer
from recovery.autoscaling import AutoScaling
from recovery.cloud import Rounds, Sdk
from recovery.cloudwatch import CloudWatch
from recovery.drain import Drain
from recovery.events import Events
from recovery.facts import Node
from recovery.karpenter import KarpenterClaims
from recovery.kube import KubeNodes
from recovery.lease import WHOLE_SECONDS, Alone, Lease, identity
from recovery.led import LedRest
from recovery.ledger import KubeLedger, ledger_path
from recovery.ledger_file import FileLedger
from recovery.pods import DetectorPods
from recovery.points import Schedule
from recovery.policy import Rules
from recovery.ports import PortError
from recovery.prometheus import PrometheusFleet
from recovery.roster import FleetCount
from recovery.scrape import PagesFleet
from recovery.settings import Enabled
from recovery.standalone import NoKarpenter, OwnNode, OwnPage
from recovery.store import is_online, transport
from runtime.clock import SystemClock
from runtime.identity import Imds, instance_id
from runtime.layers import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.access import Access
    from recovery.ports import Cloud, Fleet, Karpenter, Lead, Nodes, Points
    from recovery.settings import Settings
    from recovery.store import Store
    from runtime.clock import Clock
    from runtime.rest import Rest

_REGION_LABEL: Final = "topology.kubernetes.io/region"
_NODES: Final = "/api/v1/nodes"
_ENABLED: Final = {Enabled.TRUE: True, Enabled.FALSE: False, Enabled.DETECTOR: None}


class _Nodes(msgspec.Struct):
    items: tuple[Node, ...] = ()


class Thread(Protocol):
    """Something that runs beside the loop."""

    def start(self) -> None:
        """Begin."""

    def close(self) -> None:
        """Finish what can be finished quickly."""


class Parts(NamedTuple):
    """One of each port.

    Args:
        region: of AWS.
        lease: behind `lead`; None = stand-alone.
        threads: others that run beside the loop.
    """

    region: str
    fleet: Fleet
    nodes: Nodes
    ledger: Store
    lead: Lead
    cloud: Cloud
    karpenter: Karpenter
    points: Points
    lease: Thread | None
    threads: tuple[Thread, ...]


def rules_of(settings: Settings) -> Rules:
    """Put together what an operator decided; stand-alone the random wait is drawn here, once a process."""
    waits = not is_online(settings)
    return Rules(
        policies=settings.policies,
        budget=settings.budget,
        enabled=_ENABLED[settings.enabled],
        hold_seconds=random.uniform(0, settings.standalone_wait.seconds) if waits else 0.0,  # noqa: S311 - no secret
    )


def make(settings: Settings, counted: Callable[[str, str], None], *, is_dry: bool = False) -> Parts:
    """Make all parts.

    Args:
        settings: of recovery.
        counted: called after each call to AWS, with its name and its outcome.
        is_dry: nothing is going to be done, so that nobody has to lead.

    Raises:
        SettingsError: the Region cannot be found out.
    """
    return _cluster(settings, counted, is_dry=is_dry) if is_online(settings) else _alone(settings, counted)


def _cluster(settings: Settings, counted: Callable[[str, str], None], *, is_dry: bool) -> Parts:
    clock = SystemClock()
    lease = Lease(transport(WHOLE_SECONDS), settings.namespace, identity(socket.gethostname()))
    permits = Alone().permit if is_dry else lease.permit
    rest = LedRest(permits, swapped=ledger_path(settings.namespace), environ=os.environ)
    region = _region(settings, rest)
    sdk = _sdk(settings, counted, region)
    ledger = KubeLedger(rest, settings.namespace, clock)
    events = Events(transport(), clock)
    points = CloudWatch(sdk, _schedule(settings, zeros=True), clock)
    return Parts(
        region=region,
        fleet=_fleet(settings, DetectorPods(rest, settings.namespace), clock, sdk),
        nodes=KubeNodes(rest, drain=Drain(rest, clock), events=events),
        ledger=ledger,
        lead=lease,
        cloud=AutoScaling(Rounds(sdk, seconds=settings.cloud_round.seconds, permits=permits)),
        karpenter=KarpenterClaims(rest, ledger.now),
        points=points,
        lease=lease,
        threads=(events, points),
    )


def _alone(settings: Settings, counted: Callable[[str, str], None]) -> Parts:
    clock = SystemClock()
    region = _region(settings, None)
    sdk = _sdk(settings, counted, region)
    node = settings.node_name or socket.gethostname()
    own = instance_id(settings.instance_id or None).instance
    points = CloudWatch(sdk, _schedule(settings, zeros=False), clock)
    url = settings.detector_url
    return Parts(
        region=region,
        fleet=OwnPage(url, node=node, instance=own, stale_after=settings.stale_after, clock=clock),
        nodes=OwnNode(url, node=node, instance=own),
        ledger=FileLedger(settings.state_dir, clock),
        lead=Alone(),
        cloud=AutoScaling(Rounds(sdk, seconds=settings.cloud_round.seconds)),
        karpenter=NoKarpenter(),
        points=points,
        lease=None,
        threads=(points,),
    )


def _fleet(settings: Settings, pods: DetectorPods, clock: Clock, sdk: Sdk) -> Fleet:
    if not settings.prometheus_url:
        return PagesFleet(pods, stale_after=settings.stale_after, clock=clock)
    return PrometheusFleet(
        settings.prometheus_url,
        selector=settings.prometheus_selector,
        stale_after=settings.stale_after,
        clock=clock,
        fleet=FleetCount(pods, clock),
        access=_access(settings, sdk),
        ca_file=settings.prometheus_ca_file,
    )


def _access(settings: Settings, sdk: Sdk) -> Access | None:
    if settings.prometheus_sigv4_region:
        return Signer(sdk, settings.prometheus_sigv4_region)
    return Holder(settings.prometheus_token_file) if settings.prometheus_token_file else None


def _sdk(settings: Settings, counted: Callable[[str, str], None], region: str) -> Sdk:
    return Sdk(
        region=region,
        counted=counted,
        connect_seconds=settings.cloud_connect.seconds,
        read_seconds=settings.cloud_read.seconds,
    )


def _schedule(settings: Settings, *, zeros: bool) -> Schedule:
    return Schedule(cluster=settings.cluster_name or None, per_node=settings.cloudwatch_per_node, zeros=zeros)


def _region(settings: Settings, rest: Rest | None) -> str:
    """Find out the Region: the setting, else a Node's label, else the metadata service.

    Raises:
        SettingsError: nobody knows it.
    """
    found = settings.region or _region_of_cluster(settings.node_name, rest) or Imds().region()
    if not found:
        raise SettingsError(
            f"region: unknown; AWS_REGION is not set, no Node with the label {_REGION_LABEL} can be read, and the"
            " metadata service does not answer (allowed: a name such as us-west-2)"
        )
    return found


def _region_of_cluster(name: str, rest: Rest | None) -> str | None:
    """Read the own Node's label; for a person, who has none, any Node's: a cluster is in one Region."""
    if rest is None:
        return None
    try:
        own = f"{_NODES}/{quote(name, safe='')}"
        nodes = [api.get(rest, own, Node)] if name else api.get(rest, f"{_NODES}?limit=1", _Nodes).items
    except PortError:
        return None
    return next((found for node in nodes if (found := (node.metadata.labels or {}).get(_REGION_LABEL))), None)
