"""What a test does with an API server: kubectl, tokens, kubeconfigs, a Node or a Pod without a machine behind it.

It must not start or stop anything, and no call of it may wait for ever.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.kubernetes import audit
from tests.kubernetes.binaries import program


class KubectlError(Exception):
    """kubectl failed; the message is its standard error. It does not say whether the server changed something."""


class Client:
    """An API server seen from pytest.

    Args:
        url: Where pytest reaches it.
        authority: File with the certificate authority that its certificate is from.
        admin_token: Of a member of system:masters.
        folder: For kubeconfigs and kubectl's own cache.
        audit_log: Written by the server.
    """

    def __init__(self, *, url: str, authority: Path, admin_token: str, folder: Path, audit_log: Path) -> None:
        self.url = url
        self.authority = authority
        self.admin_token = admin_token
        self.audit_log = audit_log
        self._folder = folder
        self._kubeconfigs = 0
        self.kubeconfig = self.kubeconfig_for(admin_token)

    def kubeconfig_for(self, token: str | Path, *, url: str | None = None) -> Path:
        """Write a kubeconfig for whoever holds a token.

        Args:
            token: The token, or a file that holds it and may be rewritten later, as a kubelet does in a pod.
            url: None is where pytest reaches the server.
        """
        self._kubeconfigs += 1
        user = {"tokenFile": str(token)} if isinstance(token, Path) else {"token": token}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": url or self.url, "certificate-authority": str(self.authority)}}
            ],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path = self._folder / f"kubeconfig-{self._kubeconfigs}.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    def kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None, timeout_seconds: float = 60
    ) -> str:
        """Run kubectl and return its standard output.

        Args:
            arguments: As on the command line.
            stdin: For ``-f -``.
            kubeconfig: None is the administrator's.
            timeout_seconds: Of the whole call.

        Raises:
            KubectlError: It failed or took too long.
        """
        environment = {
            "HOME": str(self._folder),
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "PATH": "/usr/bin:/bin",
        }
        try:
            done = subprocess.run(
                [program("kubectl"), *arguments],
                input=stdin or "",
                env=environment,
                timeout=timeout_seconds,
                capture_output=True,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"kubectl {' '.join(arguments)}: no answer in {timeout_seconds:.0f} s") from error
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return what ``kubectl get ... -o json`` prints, decoded."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects, in this order."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def token(
        self,
        service_account: str,
        *,
        namespace: str = "default",
        pod: str | None = None,
        node: str | None = None,
        duration_seconds: int = 3600,
    ) -> str:
        """Ask the TokenRequest API for a token.

        The server caches that a token is good for 10 s: a token whose Pod or Node was deleted works that much longer.

        Args:
            service_account: Its name; it must exist.
            namespace: Of the account and of `pod`.
            pod: Bind the token to this Pod, and through it to the Pod's Node, as a kubelet's are. Not with `node`.
            node: Bind the token to this Node. None for both: bound to nothing but the account.
            duration_seconds: The server grants no less than 600.
        """
        bound = [f"--bound-object-kind={kind}" for kind, name in (("Pod", pod), ("Node", node)) if name]
        bound += [f"--bound-object-name={name}" for name in (pod, node) if name]
        duration = f"--duration={duration_seconds}s"
        return self.kubectl("create", "token", service_account, "-n", namespace, duration, *bound).strip()

    def create_node(self, name: str, *, provider_id: str | None = None, labels: dict[str, str] | None = None) -> None:
        """Create a Node that no kubelet stands behind; its status is empty.

        Args:
            name: Must be new.
            provider_id: As in ``aws:///us-east-2b/i-0123456789abcdef0``; it cannot be changed later.
            labels: None for none.
        """
        spec = {} if provider_id is None else {"providerID": provider_id}
        metadata = {"name": name, "labels": labels or {}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
        self.kubectl("create", "-f", "-", stdin=json.dumps(node))

    def create_pod(self, name: str, *, node: str, service_account: str, namespace: str = "default") -> None:
        """Create a Pod that is bound to a Node but will never run, for tokens bound to it.

        Where no kubelet is, delete it with ``--force --grace-period=0``.
        """
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "nodeName": node,
                "serviceAccountName": service_account,
                "containers": [{"name": "none", "image": "none.invalid/none", "imagePullPolicy": "Never"}],
            },
        }
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))

    def audit_offset(self) -> int:
        """Return a mark for `requests`: what is asked before it is not counted."""
        return self.audit_log.stat().st_size

    def requests(self, *, since: int = 0, user: str | None = None, verb: str | None = None) -> list[audit.Request]:
        """Return what the server was asked and has answered.

        Args:
            since: From `audit_offset`.
            user: None is everybody.
            verb: None is every verb.
        """
        found = audit.read(self.audit_log, offset=since)
        return [each for each in found if user in (None, each.user) and verb in (None, each.verb)]
