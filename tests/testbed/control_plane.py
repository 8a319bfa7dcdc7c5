"""A Kubernetes control plane without machines: etcd, API server, controllers, scheduler, kwok.

Everything is real but the kubelet: kwok plays it by ``stages.yaml``. Data lie in a folder of the
test, ports are free loopback ports, and each start has keys of its own.
"""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from gputailor_agent.model.trust import trusting
from tests.testbed.identity import USERS, Identity, create_identity, write_kubeconfig
from tests.testbed.servers import (
    HOST,
    Server,
    ServerError,
    eventually,
    need,
    run,
    start_on_free_ports,
)

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "kubectl",
)
STAGES = Path(__file__).with_name("stages.yaml")
#: Who asked for what, for everybody but the parts of the control plane themselves.
AUDIT_POLICY: Mapping[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "None",
            "users": [
                "system:apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kwok",
                "kube-state-metrics",
            ],
        },
        {"level": "Metadata"},
    ],
}
Objects = Mapping[str, Any] | Iterable[Mapping[str, Any]] | str | Path


class ControlPlane:
    """A running control plane. ``start`` makes one; ``stop`` ends its processes."""

    def __init__(self, folder: Path, identity: Identity, kubectl: Path) -> None:
        self.folder = folder
        self.identity = identity
        self.servers: dict[str, Server] = {}
        self.url = ""
        self.start_seconds = 0.0
        self._kubectl = kubectl
        self._kubeconfigs = 0

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        audit_policy: Mapping[str, Any] = AUDIT_POLICY,
        stages: Path = STAGES,
        api_flags: Iterable[str] = (),
    ) -> Self:
        """Start all parts in ``folder`` and wait until pods can be scheduled (about 10 s)."""
        begun = time.monotonic()
        binaries = need(*PROGRAMS)
        folder.mkdir(parents=True, exist_ok=True)
        plane = cls(folder, create_identity(folder), binaries["kubectl"])
        try:
            store = start_on_free_ports(2, lambda ports: plane._start_etcd(binaries["etcd"], ports))
            policy = folder / "audit-policy.yaml"
            policy.write_text(yaml.safe_dump(dict(audit_policy)), "utf-8")
            plane.url = start_on_free_ports(
                1,
                lambda ports: plane._start_api(
                    binaries["kube-apiserver"], store, ports[0], policy, list(api_flags)
                ),
            )
            plane._start_clients(binaries, stages)
        except BaseException:
            plane.stop()
            raise
        plane.start_seconds = time.monotonic() - begun
        return plane

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file."""
        return self.kubeconfig_of("admin")

    @property
    def ca(self) -> Path:
        """The certificate that signed the API server's."""
        return self.identity.ca

    @property
    def resident_bytes(self) -> int:
        """Memory of all its processes now."""
        return sum(server.resident_bytes for server in self.servers.values() if server.alive)

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig file of a user of the token file (see ``identity.USERS``)."""
        path = self.folder / f"{user}.kubeconfig"
        if not path.exists():
            write_kubeconfig(path, self.url, self.ca, self.identity.tokens[user])
        return path

    def kubeconfig_with(self, token: str, namespace: str = "default") -> Path:
        """A new kubeconfig file that holds ``token``."""
        self._kubeconfigs += 1
        path = self.folder / f"token-{self._kubeconfigs}.kubeconfig"
        return write_kubeconfig(path, self.url, self.ca, token, namespace)

    def token(self, service_account: str, namespace: str = "default", seconds: int = 3600) -> str:
        """A real token of a service account, as its pods hold it."""
        lasting = f"--duration={seconds}s"
        return self.kubectl("create", "token", service_account, "-n", namespace, lasting).strip()

    def kubectl(
        self, *arguments: str, text: str | None = None, kubeconfig: Path | None = None
    ) -> str:
        """Run kubectl (as administrator by default); its output. CommandFailed says why not."""
        command: list[str | Path] = [
            self._kubectl,
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            *arguments,
        ]
        cache = {"KUBECACHEDIR": str(self.folder / "kubectl-cache"), "KUBERC": "off"}
        return run(command, env=cache, text=text)

    def get(self, what: str, namespace: str | None = None) -> Any:
        """What ``kubectl get WHAT -o json`` says; the items, where it is a list."""
        scope = ("-A",) if namespace is None else ("-n", namespace)
        found = json.loads(self.kubectl("get", *what.split(), *scope, "-o", "json"))
        return found["items"] if found["kind"] == "List" else found

    def apply(self, objects: Objects, namespace: str = "default") -> None:
        """Apply objects (mappings, YAML text or a file), with the status of nodes.

        A custom resource in the same call as its definition waits for the definition.
        """
        listed = as_objects(objects)
        definitions = [each for each in listed if each["kind"] == "CustomResourceDefinition"]
        if definitions:
            self._apply(definitions, namespace)
            names = [f"crd/{each['metadata']['name']}" for each in definitions]
            self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
        self._apply([each for each in listed if each not in definitions], namespace)
        for each in listed:
            if each["kind"] == "Node" and "status" in each:
                path = f"/api/v1/nodes/{each['metadata']['name']}/status"
                answer = self.request("PATCH", path, body={"status": each["status"]})
                assert answer.is_success, answer.text

    def _apply(self, objects: list[Mapping[str, Any]], namespace: str) -> None:
        if objects:
            listed = {"apiVersion": "v1", "kind": "List", "items": objects}
            self.kubectl("apply", "-n", namespace, "-f", "-", text=json.dumps(listed))

    def patch_status(
        self, what: str, status: Mapping[str, Any], namespace: str = "default"
    ) -> None:
        """Merge ``status`` into the status of an object such as ``node/a``."""
        patch = json.dumps({"status": status})
        where = ("-n", namespace, "--subresource=status", "--type=merge")
        self.kubectl("patch", what, *where, "-p", patch)

    def delete(self, objects: Objects, namespace: str = "default") -> None:
        """Delete objects (those that are there) without waiting for what they own."""
        listed = {"apiVersion": "v1", "kind": "List", "items": as_objects(objects)}
        flags = ("--ignore-not-found", "--wait=false", "--now")
        self.kubectl("delete", "-n", namespace, *flags, "-f", "-", text=json.dumps(listed))

    def wait(
        self, what: str, condition: str, namespace: str = "default", seconds: float = 60.0
    ) -> None:
        """Wait by ``kubectl wait --for``: "pod/a", "condition=Ready" or "jsonpath=…" or "delete"."""
        flags = ("-n", namespace, f"--for={condition}", f"--timeout={seconds:g}s")
        self.kubectl("wait", *what.split(), *flags)

    def create_namespace(self, name: str) -> None:
        """Create a namespace and wait until pods can be created in it."""
        self.kubectl("create", "namespace", name)
        eventually(lambda: self._can_hold_pods(name), f"namespace {name} can hold pods")

    def _can_hold_pods(self, namespace: str) -> bool:
        path = f"/api/v1/namespaces/{namespace}"
        parts = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
        return all(self.request("GET", f"{path}/{part}").is_success for part in parts)

    def request(
        self, method: str, path: str, *, token: str | None = None, body: Any = None
    ) -> httpx.Response:
        """One HTTP request to the API server, as administrator unless a token is given.

        The body of a PATCH is a merge patch.
        """
        bearer = token or self.identity.tokens["admin"]
        kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        trusted = trusting(self.ca)
        with httpx.Client(verify=trusted, trust_env=False, timeout=30) as client:
            return client.request(
                method,
                self.url + path,
                json=body,
                headers={"Authorization": f"Bearer {bearer}", **kind},
            )

    def audit(self, user: str | None = None) -> list[dict[str, Any]]:
        """The audit log's events so far (of one user, e.g. ``system:serviceaccount:ns:name``)."""
        lines = (self.folder / "audit.log").read_text("utf-8").splitlines()
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in events if user in {None, event.get("user", {}).get("username")}]

    def stop(self) -> None:
        """End its processes, those that were started last first."""
        for server in reversed(self.servers.values()):
            server.stop()

    def _server(self, name: str, *command: str | Path) -> Server:
        previous = self.servers.get(name)
        if previous is not None:
            previous.stop()
        home = {"HOME": str(self.folder), "KWOK_WORKDIR": str(self.folder / "kwok")}
        server = Server(name, command, self.folder / f"{name}.log", env=home)
        self.servers[name] = server
        return server

    def _start_etcd(self, binary: Path, ports: list[int]) -> str:
        client, peer = (f"http://{HOST}:{port}" for port in ports)
        server = self._server(
            "etcd",
            binary,
            f"--data-dir={self.folder / f'etcd-{ports[0]}'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        server.wait_ready(
            lambda: httpx.get(f"{client}/readyz", trust_env=False, timeout=2).is_success
        )
        return client

    def _start_api(
        self, binary: Path, store: str, port: int, policy: Path, flags: list[str]
    ) -> str:
        made = self.identity
        server = self._server(
            "kube-apiserver",
            binary,
            f"--etcd-servers={store}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            # An address for documentation (RFC 5737): nobody is to find this server by the network.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder}",
            f"--tls-cert-file={made.certificate}",
            f"--tls-private-key-file={made.key}",
            f"--client-ca-file={made.ca}",
            f"--service-account-key-file={made.service_account_public_key}",
            f"--service-account-signing-key-file={made.service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={made.token_file}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            "--audit-log-mode=blocking",
            *flags,
        )
        self.url = f"https://{HOST}:{port}"
        server.wait_ready(lambda: self.request("GET", "/readyz").is_success)
        return self.url

    def _start_clients(self, binaries: Mapping[str, Path], stages: Path) -> None:
        self._server(
            "kube-controller-manager",
            binaries["kube-controller-manager"],
            f"--kubeconfig={self.kubeconfig_of('kube-controller-manager')}",
            f"--service-account-private-key-file={self.identity.service_account_key}",
            f"--root-ca-file={self.ca}",
            "--leader-elect=false",
            "--secure-port=0",
        )
        self._server(
            "kube-scheduler",
            binaries["kube-scheduler"],
            f"--kubeconfig={self.kubeconfig_of('kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
        )
        self._server(
            "kwok",
            binaries["kwok"],
            f"--kubeconfig={self.kubeconfig_of('kwok')}",
            f"--config={stages}",
            "--manage-all-nodes=true",
        )
        self.servers["kube-controller-manager"].wait_ready(lambda: self._can_hold_pods("default"))
        for server in self.servers.values():
            if not server.alive:
                raise ServerError(f"{server.name} ended:\n{server.output[-3000:]}")


def as_objects(objects: Objects) -> list[Mapping[str, Any]]:
    """Objects as a list, lists of objects taken apart; a Path is read, text is YAML."""
    if isinstance(objects, Path):
        objects = objects.read_text("utf-8")
    if isinstance(objects, str):
        objects = [each for each in yaml.safe_load_all(objects) if each]
    if isinstance(objects, Mapping):
        objects = [objects]
    flat: list[Mapping[str, Any]] = []
    for each in objects:
        flat += as_objects(each["items"]) if each.get("kind") == "List" else [each]
    return flat


__all__ = ["AUDIT_POLICY", "STAGES", "USERS", "ControlPlane", "Objects", "as_objects"]
