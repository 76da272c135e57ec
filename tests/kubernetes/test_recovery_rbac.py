"""Recovery's account: all that recovery does works with its rights, nothing else does, and no right is in vain."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml

from recovery.karpenter import KarpenterClaims, _Metadata, _NodeClaim
from recovery.lease import Lease
from recovery.ledger import KubeLedger
from recovery.pods import DetectorPods
from recovery.ports import PortError
from runtime.rest import RestError
from tests.kubernetes.asks import Asker, holder
from tests.kubernetes.overlay import MANIFESTS, NAMESPACE
from tests.kubernetes.recovering import Hands, OnNode, RunningClock, entry, ledger, rest_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kubernetes.controlplane import ControlPlane

_ACCOUNT = "node-problem-detector"
_USER = f"system:serviceaccount:{NAMESPACE}:{_ACCOUNT}"
_RBAC = MANIFESTS / "base" / "recovery-rbac.yaml"
_VERBS = {"GET": "get", "LIST": "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}
_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[a-z]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?"
)


class Right(NamedTuple):
    """What a request takes, or what a rule gives; namespace and name "" = of the cluster, any."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


def _asked(verb: str, uri: str) -> Right:
    """Tell what a request takes, as the API server's authorizer sees it."""
    match = _PATH.fullmatch(urlsplit(uri).path)
    assert match, uri
    resource = match["resource"] + (f"/{match['sub']}" if match["sub"] else "")
    return Right(verb, match["group"] or "", resource, match["namespace"] or "", match["name"] or "")


def _given() -> set[Right]:
    """List the rights of the manifests one by one."""
    rights = set()
    for document in yaml.safe_load_all(_RBAC.read_text()):
        if document["kind"] not in ("Role", "ClusterRole"):
            continue
        namespace = document["metadata"].get("namespace", "")
        for rule in document["rules"]:
            for verb in rule["verbs"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        rights.add(Right(verb, rule["apiGroups"][0], resource, namespace, name))
    return rights


def _covers(given: Right, asked: Right) -> bool:
    if (given.verb, given.group, given.resource) != (asked.verb, asked.group, asked.resource):
        return False
    return given.namespace in ("", asked.namespace) and given.name in ("", asked.name)


class Recovery(Hands):
    """All of recovery's hands, with its own account."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path) -> None:
        super().__init__(plane, kubeconfig=kubeconfig)
        self.ledger = KubeLedger(self.rest, NAMESPACE, RunningClock())
        self.lease = Lease(rest_for(plane, kubeconfig=kubeconfig), NAMESPACE, "rbac", seconds=lambda: 0.0)
        self.claims = KarpenterClaims(self.rest, self.ledger.now)
        self.detectors = DetectorPods(self.rest, NAMESPACE)


@pytest.fixture(scope="module")
def token(apiserver: ControlPlane) -> str:
    for name in ("namespace", "recovery-rbac"):
        apiserver.kubectl("apply", "-f", str(MANIFESTS / "base" / f"{name}.yaml"), "--validate=strict")
    return apiserver.token(_ACCOUNT, namespace=NAMESPACE)


@pytest.fixture
def recovery(apiserver: ControlPlane, token: str) -> Iterator[Recovery]:
    admin = holder(apiserver, apiserver.admin_token)
    for path in ("configmaps/recovery-ledger", "configmaps/recovery-control"):
        admin.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/{path}")
    admin.ask("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/chipwarden-recovery")
    recovery = Recovery(apiserver, apiserver.kubeconfig_for(token))
    yield recovery
    recovery.close()


@contextlib.contextmanager
def _not_there() -> Iterator[None]:
    """Let pass that an object, or all of Karpenter, is not there: whoever learns that had the right to ask."""
    try:
        yield
    except (PortError, RestError) as error:
        assert getattr(error, "gone", False) or getattr(error, "status", 0) == 404, error  # noqa: PT017 - two kinds


def _do_everything(recovery: Recovery, apiserver: ControlPlane) -> None:
    node = OnNode(apiserver)
    apiserver.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "job", "namespace": "default"}})
    apiserver.create_pod(f"{node.name}-pod", node=node.name, service_account="job")
    for _ in range(2):
        recovery.lease._round()
    assert recovery.lease.is_held()
    assert recovery.ledger.paused() is None
    recovery.ledger.pause("a try")
    assert recovery.ledger.paused() == "a try"
    recovery.ledger.resume()
    assert recovery.ledger.load() is None
    fenced = entry(node=node.name, uid=node.uid)
    recovery.ledger.save(ledger(fenced))
    recovery.ledger.save(ledger(fenced))
    added = recovery.nodes.fence(recovery.nodes.read(node.name), fenced)
    recovery.nodes.annotate(recovery.nodes.read(node.name), entry(node=node.name, uid=node.uid, added=added))
    assert [each.name for each in recovery.nodes.fenced() if each.name == node.name]
    assert recovery.nodes.drain(recovery.nodes.read(node.name)).blocked == {}
    recovery.nodes.lift(recovery.nodes.read(node.name), added)
    recovery.nodes.tell(node.name, "Fenced", "a try", warning=False)
    recovery.close()
    again = Hands(apiserver, kubeconfig=apiserver.kubeconfig_for(apiserver.token(_ACCOUNT, namespace=NAMESPACE)))
    again.nodes.read(node.name)
    again.nodes.tell(node.name, "Fenced", "a try", warning=False)
    again.close()
    recovery.detectors.list(500)
    claim = _NodeClaim(metadata=_Metadata(name="no-such-claim", uid="u"))
    karpenter = recovery.claims
    calls: list[Any] = [
        recovery.detectors.fleet,
        lambda: karpenter._find("p", None),
        lambda: karpenter._is_there("no-such-claim", "p"),
        lambda: karpenter._let_go(claim),
        lambda: karpenter._delete(claim),
        lambda: karpenter.size("no-such-pool"),
    ]
    for call in calls:
        with _not_there():
            call()
    node.admin.ask("DELETE", f"/api/v1/namespaces/default/pods/{node.name}-pod", {"gracePeriodSeconds": 0})
    node.delete()


def test_everything_that_recovery_does_is_allowed_and_every_right_is_used(
    recovery: Recovery, apiserver: ControlPlane
) -> None:
    since = apiserver.audit_offset()
    _do_everything(recovery, apiserver)
    asked = apiserver.requests(since=since, user=_USER)
    assert [each for each in asked if each.code in (401, 403)] == []
    used = [_asked(each.verb, each.uri) for each in asked]
    given = _given()
    assert [each for each in used if not any(_covers(right, each) for right in given)] == []
    assert [right for right in given if not any(_covers(right, each) for each in used)] == []


def test_each_rule_names_its_calls(token: str) -> None:
    assert token
    text = _RBAC.read_text()
    for comment, rule in re.findall(r"((?:^# .*\n)+)(- apiGroups:(?:.*\n)(?:  .*\n)+)", text, re.MULTILINE):
        named = {_VERBS[word] for word in re.findall(r"\b(GET|LIST|POST|PATCH|DELETE)\b", comment)}
        assert named == set(yaml.safe_load(rule)[0]["verbs"]), rule
    assert text.count("- apiGroups:") == len(re.findall(r"(?:^# .*\n)- apiGroups:", text, re.MULTILINE))


def _had(asker: Asker, namespace: str) -> set[Right]:
    """List the rights that the server grants in a namespace, but for those that everybody has about himself."""
    body = {"spec": {"namespace": namespace}}
    answer = asker.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
    assert not answer.body["status"]["incomplete"]
    return {
        Right(verb, group, resource, namespace, name)
        for rule in answer.body["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        if group not in ("authorization.k8s.io", "authentication.k8s.io")
    }


@pytest.mark.parametrize("namespace", ["default", NAMESPACE, "kube-system"])
def test_everything_else_is_refused(apiserver: ControlPlane, token: str, namespace: str) -> None:
    given = [right for right in _given() if right.namespace in ("", namespace)]
    assert _had(holder(apiserver, token), namespace) == {right._replace(namespace=namespace) for right in given}


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/kube-root-ca.crt"),
        ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps/recovery-ledger"),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/other"),
        ("DELETE", "/api/v1/nodes/n"),
        ("PATCH", "/api/v1/nodes/n/status"),
        ("DELETE", "/api/v1/namespaces/default/pods/p"),
        ("POST", "/api/v1/namespaces/kube-system/events"),
        ("GET", "/apis/karpenter.sh/v1/nodepools"),
        ("DELETE", "/apis/karpenter.sh/v1/nodeclaims"),
    ],
)
def test_what_recovery_must_never_do_is_refused(apiserver: ControlPlane, token: str, verb: str, path: str) -> None:
    asker = holder(apiserver, token)
    assert asker.ask(verb, path, {} if verb in ("POST", "PATCH") else None).code == 403
