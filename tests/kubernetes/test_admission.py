"""The detector's account, held by RBAC and admission policies to its own Node, and there to what is its own.

A forbidden change is first tried as the administrator, so that each refusal is known to be of something that works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kubernetes import overlay
from tests.kubernetes.asks import Asker, almighty, holder
from tests.kubernetes.changes import ANNOTATIONS, OF_METADATA, OF_SPEC, OF_STATUS, OWN, STATUS, annotation
from tests.kubernetes.overlay import ACCOUNT, NAMESPACE, USER
from tests.kubernetes.process import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_NODE = "/api/v1/nodes/policed"
_OTHER = "/api/v1/nodes/neighbour"
_EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def administrator(apiserver: ControlPlane) -> Asker:
    """Install the manifests, and two Nodes as kubelets leave them."""
    apiserver.kubectl("apply", "-k", str(overlay.MANIFESTS / "base"))
    administrator = holder(apiserver, apiserver.admin_token)
    for path in (_NODE, _OTHER):
        apiserver.create_node(path.rpartition("/")[2], labels={"pool": "a"})
        made = administrator.patch(f"{path}/status", {"metadata": {"annotations": ANNOTATIONS}, "status": STATUS})
        assert made.code == 200, made.text
    unbound = almighty(apiserver, USER)

    def both_policies_are_at_work() -> bool:
        node = unbound.patch(f"{_NODE}/status", OWN, tries=True)
        event = unbound.ask("POST", f"{_EVENTS}?dryRun=All", _event())
        return "denied request" in node.text and "denied request" in event.text

    wait_until(both_policies_are_at_work, seconds=30, what="denied by both policies")
    return administrator


@pytest.fixture(scope="module")
def detector(apiserver: ControlPlane, administrator: Asker) -> Asker:
    """The account with the token that a kubelet gives to the pod on the Node."""
    assert administrator
    apiserver.create_pod("policed", node="policed", service_account=ACCOUNT, namespace=NAMESPACE)
    return holder(apiserver, apiserver.token(ACCOUNT, namespace=NAMESPACE, pod="policed"))


@pytest.fixture(scope="module")
def superuser(apiserver: ControlPlane, administrator: Asker) -> Asker:
    """The account, if somebody gave it every right."""
    assert administrator
    return almighty(apiserver, USER, node="policed")


def _told(node: dict[str, Any]) -> dict[str, Any]:
    """Leave out who wrote it when."""
    return node | {"metadata": node["metadata"] | {"managedFields": None}}


def _event(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "policed.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "policed"},
        "reason": "NeuronHasError_DMA_ERROR",
        "type": "Warning",
        "source": {"component": ACCOUNT, "host": "policed"},
        "reportingComponent": ACCOUNT,
        "reportingInstance": "policed",
        **changes,
    }


def test_a_detector_publishes_on_its_own_node(detector: Asker) -> None:
    done = detector.patch(f"{_NODE}/status", OWN)
    assert done.code == 200, done.text
    statuses = {each["type"]: each["status"] for each in done.body["status"]["conditions"]}
    assert statuses == {"NeuronHasError": "True", "Ready": "True", "MemoryPressure": "False"}
    assert done.body["metadata"]["annotations"]["chipwarden.io/detector"] == '{"boot":"b"}'


def test_a_detector_reads_its_node_and_removes_a_request_to_clear(administrator: Asker, detector: Asker) -> None:
    assert detector.ask("GET", _NODE).body["metadata"]["annotations"]["chipwarden.io/clear"] == "all"
    removed = detector.patch(f"{_NODE}/status", annotation("chipwarden.io/clear", None))
    assert removed.code == 200, removed.text
    assert "chipwarden.io/clear" not in removed.body["metadata"]["annotations"]
    again = detector.patch(f"{_NODE}/status", annotation("chipwarden.io/clear", "all"))
    assert (again.code, "chipwarden.io/clear" in again.text) == (422, True)
    assert administrator.patch(_NODE, annotation("chipwarden.io/clear", "all")).code == 200


@pytest.mark.parametrize("change", [*OF_METADATA, *OF_STATUS])
def test_nothing_else_goes_through_status(administrator: Asker, detector: Asker, change: str) -> None:
    body = (OF_METADATA | OF_STATUS)[change]
    before = administrator.ask("GET", _NODE).body
    as_administrator = administrator.patch(f"{_NODE}/status", body, tries=True)
    assert as_administrator.code == 200, as_administrator.text
    assert _told(as_administrator.body) != _told(before)
    refused = detector.patch(f"{_NODE}/status", body)
    assert (refused.code, "a detector " in refused.text) == (422, True), refused.text
    beside_its_own = {key: {**OWN[key], **body.get(key, {})} for key in OWN}
    assert detector.patch(f"{_NODE}/status", beside_its_own).code == 422
    assert administrator.ask("GET", _NODE).body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.parametrize("change", OF_SPEC)
def test_the_spec_does_not_change_through_status(administrator: Asker, detector: Asker, change: str) -> None:
    before = administrator.ask("GET", _NODE).body
    detector.patch(f"{_NODE}/status", OF_SPEC[change])
    assert administrator.ask("GET", _NODE).body == before


@pytest.mark.parametrize("change", [*OF_METADATA, *OF_SPEC, "its own annotation"])
def test_nothing_goes_through_the_node_itself(detector: Asker, superuser: Asker, change: str) -> None:
    body = (OF_METADATA | OF_SPEC | {"its own annotation": OWN})[change]
    assert detector.patch(_NODE, body).code == 403
    if body is not OWN:
        refused = superuser.patch(_NODE, body)
        assert (refused.code, "a detector " in refused.text) == (422, True), refused.text


def test_another_node_is_refused(detector: Asker, superuser: Asker) -> None:
    assert detector.patch(_OTHER, OWN).code == 403
    for asker, path in ((detector, f"{_OTHER}/status"), (superuser, f"{_OTHER}/status"), (superuser, _OTHER)):
        refused = asker.patch(path, OWN)
        assert (refused.code, "the Node that its token is bound to" in refused.text) == (422, True), refused.text


def test_a_token_that_names_no_node_is_refused(apiserver: ControlPlane, administrator: Asker) -> None:
    assert administrator
    unbound = holder(apiserver, apiserver.token(ACCOUNT, namespace=NAMESPACE))
    refused = unbound.patch(f"{_NODE}/status", OWN)
    assert (refused.code, "the Node that its token is bound to" in refused.text) == (422, True)
    bound = holder(apiserver, apiserver.token(ACCOUNT, namespace=NAMESPACE, node="policed"))
    assert bound.patch(f"{_NODE}/status", OWN, tries=True).code == 200


def test_nodes_are_neither_created_nor_deleted(detector: Asker, superuser: Asker) -> None:
    for asker, code in ((detector, 403), (superuser, 422)):
        assert asker.ask("DELETE", _NODE).code == code
        assert asker.ask("POST", "/api/v1/nodes", {"metadata": {"name": "forged"}}).code == code


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/any"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/recovery-ledger"),
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/pods"),
        ("GET", f"{_EVENTS}/any"),
        ("PUT", f"{_NODE}/status"),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/events"),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"),
    ],
)
def test_nothing_else_may_be_asked_for(detector: Asker, verb: str, path: str) -> None:
    assert detector.ask(verb, path, None if verb == "GET" else {}).code == 403


def test_a_detector_writes_events_about_its_own_node(detector: Asker) -> None:
    made = detector.ask("POST", _EVENTS, _event())
    assert made.code == 201, made.text
    counted = detector.patch(f"{_EVENTS}/policed.1", {"count": 7})
    assert (counted.code, counted.body.get("count")) == (200, 7), counted.text


@pytest.mark.parametrize(
    "change",
    [
        {"involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "neighbour"}},
        {"involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "policed", "namespace": "default"}},
        {"source": {"component": "chipwarden-recovery"}},
        {"reportingComponent": "kubelet"},
        {"source": None, "reportingComponent": None},
    ],
)
def test_a_detector_writes_no_other_events(administrator: Asker, detector: Asker, change: dict[str, Any]) -> None:
    body = _event(metadata={"name": "policed.2", "namespace": "default"}, **change)
    assert administrator.ask("POST", f"{_EVENTS}?dryRun=All", body).code == 201
    assert detector.ask("POST", _EVENTS, body).code == 422


def test_an_event_of_somebody_else_is_not_taken_over(administrator: Asker, detector: Asker) -> None:
    foreign = _event(metadata={"name": "policed.3", "namespace": "default"}, reportingComponent="chipwarden-recovery")
    assert administrator.ask("POST", _EVENTS, foreign).code == 201
    assert detector.patch(f"{_EVENTS}/policed.3", {"reportingComponent": ACCOUNT}).code == 422
    assert detector.patch(f"{_EVENTS}/policed.3", {"count": 9}).code == 422


def test_the_component_opens_the_platforms_condition_and_no_other(
    apiserver: ControlPlane, detector: Asker, tmp_path: Path
) -> None:
    platforms, foreign = OF_STATUS["the platform's condition"], OF_STATUS["a foreign condition"]

    def answers(code: int) -> bool:
        return detector.patch(f"{_NODE}/status", platforms, tries=True).code == code

    apiserver.kubectl("apply", "-k", str(overlay.write(tmp_path, ["accelerated-hardware-ready"])))
    wait_until(lambda: answers(200), seconds=30, what="taken")
    assert detector.patch(f"{_NODE}/status", OWN, tries=True).code == 200
    assert detector.patch(f"{_NODE}/status", foreign).code == 422
    apiserver.kubectl("apply", "-k", str(overlay.write(tmp_path)))
    wait_until(lambda: answers(422), seconds=30, what="refused")


@pytest.mark.parametrize("change", [*OF_METADATA, *OF_STATUS, *OF_SPEC])
@pytest.mark.parametrize("user", ["somebody", f"system:serviceaccount:elsewhere:{ACCOUNT}", f"{USER}-too"])
def test_nobody_else_is_looked_at(apiserver: ControlPlane, administrator: Asker, user: str, change: str) -> None:
    assert administrator
    path = _NODE if change in OF_SPEC else f"{_NODE}/status"
    done = almighty(apiserver, user).patch(path, (OF_METADATA | OF_STATUS | OF_SPEC)[change], tries=True)
    assert done.code == 200, done.text


def test_a_kubelet_goes_on_writing_its_status(apiserver: ControlPlane, administrator: Asker) -> None:
    assert administrator
    kubelet = almighty(apiserver, "system:node:policed", group="system:nodes")
    for body in (OF_STATUS["Ready=False"], OF_STATUS["more capacity"], OF_STATUS["a foreign condition"]):
        assert kubelet.patch(f"{_NODE}/status", body, tries=True).code == 200


def test_a_node_as_large_as_they_get_is_not_too_much_to_compare(administrator: Asker, detector: Asker) -> None:
    images = [{"names": [f"{n:03}.example/{'x' * 200}:{tag}" for tag in range(5)], "sizeBytes": n} for n in range(300)]
    conditions = [{"type": f"Condition{n}", "status": "False", "message": "m" * 1000} for n in range(60)]
    status = {"images": images, "conditions": conditions, "volumesInUse": [f"volume-{n}" for n in range(300)]}
    annotations = {f"example.com/{n}": "x" * 1000 for n in range(200)}
    labels = {f"example.com/{n}": "x" * 60 for n in range(200)}
    metadata = {"annotations": annotations, "labels": labels}
    large = administrator.patch(f"{_NODE}/status", {"metadata": metadata, "status": status})
    assert large.code == 200, large.text
    done = detector.patch(f"{_NODE}/status", OWN)
    assert done.code == 200, done.text
    changed = {"status": {"images": [*images[:-1], {"names": ["another"], "sizeBytes": 1}]}}
    assert detector.patch(f"{_NODE}/status", changed).code == 422
