"""What tests of the live inventory share: a service account with exactly the agent's rules."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from gputailor_agent.inventory.live import rules
from tests.testbed.control_plane import ControlPlane
from tests.testbed.servers import Server

NAME = "gputailor-inventory"
READER = {"kind": "ServiceAccount", "metadata": {"name": NAME}}


def grant(
    plane: ControlPlane,
    namespace: str,
    *,
    namespaced: bool,
    more: Sequence[Mapping[str, Any]] = (),
) -> tuple[Path, str]:
    """A service account with the rules of rbac.yaml in a (Cluster)Role; a kubeconfig with it.

    ``more``: rules beside them.
    """
    kind, name = ("Role", NAME) if namespaced else ("ClusterRole", f"{NAME}-{namespace}")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": [*rules(namespaced=namespaced), *more],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }
    plane.apply([{"apiVersion": "v1", **READER}, role, binding], namespace)
    token = plane.token(NAME, namespace)
    return plane.kubeconfig_with(token), token


def start_again(plane: ControlPlane, seconds: float = 90.0) -> Server:
    """Start the API server that ended, with the same command, until it is ready.

    Whoever tries to reach it meanwhile may hold its port for a moment as the port of his own end.
    """
    command = plane.servers["kube-apiserver"].popen.args
    assert isinstance(command, list)
    deadline = time.monotonic() + seconds
    while True:
        server = plane._server("kube-apiserver", *command)
        while server.alive:
            try:
                if plane.request("GET", "/readyz").is_success:
                    return server
            except httpx.HTTPError:
                time.sleep(0.1)
            assert time.monotonic() < deadline, server.output[-2000:]
        time.sleep(0.5)
