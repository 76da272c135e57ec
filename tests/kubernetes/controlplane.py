"""A real etcd and a real kube-apiserver, on loopback, that a test may stop, freeze and start again.

Why here: what a detector does when the API server is slow, gone or back is only known against a real one. It must not
know of nodes: a cluster with one is in cluster.py.
"""

import http.client
import json
import secrets
import shutil
import signal
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.kubernetes import audit
from tests.kubernetes.binaries import program, require_tools
from tests.kubernetes.certificates import Authority, write_key, write_public_key
from tests.kubernetes.client import Client
from tests.kubernetes.process import Process, ProcessError, free_port

SERVICE_ADDRESS = "10.96.0.1"  # what pods see as KUBERNETES_SERVICE_HOST: the first address of the range below
_SERVICE_RANGE = "10.96.0.0/16"
# Who may use the static tokens. User and group names are fixed by Kubernetes' bootstrap RBAC and Node authorizer.
# Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/ (read 2026-11-29).
_GROUPS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
}


class ControlPlane(Client):
    """etcd and kube-apiserver with RBAC, NodeRestriction, admission policies, bound tokens and an audit log.

    Args:
        folder: Data, keys and logs; created, not removed.
        url: Where pytest reaches the server; None is the port it listens on.
        listen: Address and port of the server, seen from its own network; None picks a loopback port.
        node: Name of the Node whose kubelet gets a token too; None for no kubelet.
        enter: Turns a command into one that runs in the cluster's own namespaces; None runs it as it is.
    """

    def __init__(
        self,
        folder: Path,
        *,
        url: str | None = None,
        listen: tuple[str, int] | None = None,
        node: str | None = None,
        enter: Callable[[Sequence[str]], list[str]] | None = None,
    ) -> None:
        require_tools("openssl", "setpriv")
        folder.mkdir(parents=True, exist_ok=True)
        self._own = folder
        address, port = listen or ("127.0.0.1", free_port())
        self._enter = enter
        groups = dict(_GROUPS) if node is None else {**_GROUPS, f"system:node:{node}": "system:nodes"}
        self.tokens = {user: secrets.token_hex(16) for user in groups}
        self._ca = Authority(folder / "pki")
        self.service_account_key = write_key(folder / "pki" / "service-account.key")
        audit_log = folder / "audit.log"
        audit_log.touch()
        super().__init__(
            url=url or f"https://127.0.0.1:{port}",
            authority=self._ca.certificate,
            admin_token=self.tokens["admin"],
            folder=folder,
            audit_log=audit_log,
        )
        lines = [f'{self.tokens[user]},{user},{user},"{group}"\n' for user, group in groups.items()]
        (folder / "tokens.csv").write_text("".join(lines))
        (folder / "audit-policy.json").write_text(json.dumps(audit.POLICY))
        client_port, peer_port = free_port(), free_port()
        self._etcd_url = f"http://127.0.0.1:{client_port}"
        self.etcd = self._process("etcd", self._etcd_command(f"http://127.0.0.1:{peer_port}"))
        self.apiserver = self._process("kube-apiserver", self._apiserver_command(address, port))

    def _process(self, name: str, command: Sequence[str]) -> Process:
        return Process(name, command, log=self._own / f"{name}.log", enter=self._enter)

    def _etcd_command(self, peer_url: str) -> list[str]:
        return [
            program("etcd"),
            f"--data-dir={self._own / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_command(self, address: str, port: int) -> list[str]:
        names = f"IP:127.0.0.1,IP:{SERVICE_ADDRESS},DNS:kubernetes.default.svc,DNS:localhost"
        certificate, key = self._ca.issue("apiserver", "/CN=kube-apiserver", alternatives=names)
        public_key = write_public_key(self.service_account_key, self._own / "pki" / "service-account.pub")
        kubelet_certificate, kubelet_key = self._ca.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver")
        return [
            program("kube-apiserver"),
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={address}",
            f"--secure-port={port}",
            f"--advertise-address={SERVICE_ADDRESS}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.authority}",
            f"--kubelet-client-certificate={kubelet_certificate}",
            f"--kubelet-client-key={kubelet_key}",
            f"--token-auth-file={self._own / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
            # Without it a SIGTERM waits a minute for clients to end their watches.
            "--shutdown-watch-termination-grace-period=1s",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public_key}",
            f"--service-account-signing-key-file={self.service_account_key}",
            f"--service-cluster-ip-range={_SERVICE_RANGE}",
            # Service "kubernetes" is not announced: its address is the server's own.
            "--endpoint-reconciler-type=none",
            f"--audit-policy-file={self._own / 'audit-policy.json'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=4096",
        ]

    def start(self) -> None:
        """Start both, and return when the API server says that it is ready.

        Raises:
            ProcessError: One of them did not start; nothing is left running.
        """
        try:
            self.etcd.start()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End both. The API server goes first: without etcd it does not end on SIGTERM."""
        self.stop_apiserver(abruptly=True)
        self.etcd.stop(grace_seconds=0)

    def start_apiserver(self) -> None:
        """Start the API server, on the same port and with the same data as before."""
        self.apiserver.start()
        self.apiserver.wait_ready(self._is_ready_or_hopeless, seconds=60)

    def stop_apiserver(self, *, abruptly: bool = False) -> None:
        """End the API server.

        Args:
            abruptly: By SIGKILL: open connections are reset. Otherwise it says goodbye to its clients first.
        """
        self.apiserver.send(signal.SIGCONT)
        self.apiserver.stop(grace_seconds=0 if abruptly else 20)

    def freeze_apiserver(self) -> None:
        """Stop the API server in its tracks: connections are taken and stay open, nothing is answered."""
        self.apiserver.send(signal.SIGSTOP)

    def thaw_apiserver(self) -> None:
        """Let a frozen API server go on."""
        self.apiserver.send(signal.SIGCONT)

    def is_ready(self) -> bool:
        """Tell whether the API server answers /readyz with ok."""
        context = ssl.create_default_context(cafile=self.authority)
        address = self.url.removeprefix("https://")
        connection = http.client.HTTPSConnection(address, timeout=2, context=context)
        try:
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {self.admin_token}"})
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _is_ready_or_hopeless(self) -> bool:
        """Tell whether the API server is ready; without etcd it would be waited for in vain."""
        if not self.etcd.is_running():
            raise ProcessError(f"has no etcd; {self.etcd.log} ends with:\n{self.etcd.tail()}\n")
        return self.is_ready()

    def remove_data(self) -> None:
        """Remove etcd's data; logs stay, so that a failed run can be understood."""
        shutil.rmtree(self._own / "etcd", ignore_errors=True)
