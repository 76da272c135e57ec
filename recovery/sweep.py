"""The command `cleanup`: makes sure that nobody puts back what is removed, removes it, and tells what was done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from recovery import api
from recovery.cleanup import Cleaned, clean
from recovery.controls import NotDoneError
from recovery.lease import DURATION_SECONDS, NAME
from recovery.ledger import KubeLedger
from recovery.pods import DETECTOR_APP, DetectorPods
from recovery.ports import PortError
from recovery.progress import Progress
from recovery.store import is_online, transport
from recovery.table import table
from runtime.clock import SystemClock
from runtime.rest import RestError

if TYPE_CHECKING:
    from recovery.settings import Settings
    from runtime.rest import Rest

_NOT_FOUND: Final = 404


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def sweep(settings: Settings, own_types: list[str], *, as_json: bool) -> tuple[str, bool]:
    """Clean the cluster.

    Args:
        settings: of recovery.
        own_types: condition types of rules that do not ship with us.
        as_json: JSON, not a table.

    Returns:
        What was done, to be printed; and whether nothing of ours is left on any Node.

    Raises:
        NotDoneError: somebody would put it back, or there is no cluster.
        PortError: the cluster cannot be read.
    """
    if not is_online(settings):
        raise NotDoneError("stand-alone there is nothing to clean: all that there is lies in stateDir")
    rest = transport()
    ledger = KubeLedger(rest, settings.namespace, SystemClock())
    body = ledger.load()
    _check_nobody_leads(rest, settings.namespace, ledger.now())
    _check_no_detectors(rest, settings.namespace)
    progress = Progress()
    done = clean(rest, body, own_types, lambda count: progress.show(f"{count} nodes"))
    progress.end()
    text = msgspec.json.format(msgspec.json.encode(done)).decode() if as_json else _text(done)
    return text, all(one.error is None for one in done)


def _check_nobody_leads(rest: Rest, namespace: str, now: datetime) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases/{NAME}"
    try:
        spec = api.get(rest, path, _Lease).spec
    except PortError as error:
        if error.gone:
            return
        raise
    renewed = spec.renew_time or datetime.fromtimestamp(0, UTC)
    if spec.holder_identity and now - renewed < timedelta(seconds=DURATION_SECONDS):
        raise NotDoneError(
            f"{spec.holder_identity} still leads and would put back what is removed; first:"
            f" kubectl scale -n {namespace} deploy/{NAME} --replicas=0"
        )


def _check_no_detectors(rest: Rest, namespace: str) -> None:
    try:
        count = DetectorPods(rest, namespace).fleet()
    except RestError as error:
        if error.status == _NOT_FOUND:
            return
        raise api.port_error(error) from error
    if count:
        raise NotDoneError(
            f"{count} detectors would publish their conditions anew; first:"
            f" kubectl delete -n {namespace} ds/{DETECTOR_APP}"
        )


def _text(done: list[Cleaned]) -> str:
    if not done:
        return "there was nothing of ours on any Node"
    rows = [(one.node, ", ".join(one.removed), one.error or "") for one in done]
    return table(("NODE", "REMOVED", "LEFT BECAUSE"), rows).rstrip("\n")
