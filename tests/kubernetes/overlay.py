"""Deploy the manifests as a user does: an overlay of his own over manifests/base, with components.

It must not repeat anything that the manifests say.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kubernetes.client import Client

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
COMPONENTS = sorted(path.parent.name for path in MANIFESTS.glob("components/*/kustomization.yaml"))
NAMESPACE = "neuron-healthcheck-system"
DAEMON_SET = "node-problem-detector"
RECOVERY = "chipwarden-recovery"  # its Deployment
ACCOUNT = "chipwarden-detector"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
# Not the Prometheus operator's own: only the fields that ours uses, so that a misspelt one is refused.
MINIMAL_POD_MONITOR_CRD = Path(__file__).resolve().parent / "minimal_podmonitor_crd.yaml"


def write(folder: Path, components: Sequence[str] = (), **more: Any) -> Path:
    """Write an overlay.

    Args:
        folder: gets kustomization.yaml; kustomize wants paths relative to it.
        components: by name, in this order.
        more: other keys of a Kustomization, such as `images` or `patches`.

    Returns:
        `folder`.
    """
    root = os.path.relpath(MANIFESTS, folder.resolve())
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{root}/base"],
        "components": [f"{root}/components/{name}" for name in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(json.dumps(body))
    return folder


def patch_environment(**variables: str) -> dict[str, str]:
    """Return a kustomize patch that sets environment variables of the detector."""
    environment = [{"name": name, "value": value} for name, value in variables.items()]
    spec = {"template": {"spec": {"containers": [{"name": "detector", "env": environment}]}}}
    metadata = {"name": DAEMON_SET, "namespace": NAMESPACE}
    return {
        "patch": json.dumps({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}),
    }


def patch_replicas(replicas: int) -> dict[str, str]:
    """Return a kustomize patch that sets how often recovery runs."""
    metadata = {"name": RECOVERY, "namespace": NAMESPACE}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}
    return {"patch": json.dumps(body)}


def daemon_set(plane: Client, overlay: Path) -> dict[str, Any]:
    """Have the API server judge an overlay strictly, and return the DaemonSet as it would be, with its defaults."""
    answer = plane.kubectl("apply", "-k", str(overlay), "--dry-run=server", "--validate=strict", "-o", "json")
    found: list[dict[str, Any]] = json.loads(answer)["items"]
    return next(each for each in found if each["kind"] == "DaemonSet")


def environment(found: dict[str, Any]) -> dict[str, str]:
    """Return the detector's environment as the kubelet would make it, but for what it takes from the pod.

    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    (read 2026-11-29): $(NAME) is replaced if NAME stands further up in the list.
    """
    values: dict[str, str] = {}
    (container,) = found["spec"]["template"]["spec"]["containers"]
    for variable in container["env"]:
        value = variable.get("value", "")
        for name, known in values.items():
            value = value.replace(f"$({name})", known)
        values[variable["name"]] = value
    return values
