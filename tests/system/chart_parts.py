"""What kubelet would start of an installed chart: its commands, environments and files.

Only what cannot be the same outside a container is another: paths, ports, and the API server's
address, which a kubeconfig with the ServiceAccount's token says.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.control_plane import ControlPlane


def exporter_command(
    workload: Mapping[str, Any], node: str, places: Mapping[str, Path]
) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of the chart's exporter, its volumes at ``places`` by name."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    mounts = {one["mountPath"]: places.get(one["name"]) for one in container["volumeMounts"]}

    def moved(text: str) -> str:
        if text.startswith("--listen="):
            return "--listen=127.0.0.1:0"
        for path, place in mounts.items():
            text = text.replace(f"={path}", f"={place}") if place else text
        return text

    # What is read from the pod is the node's name.
    environment = {one["name"]: one.get("value", node) for one in container["env"]}
    return [moved(one) for one in container["args"]], environment


@dataclass(frozen=True)
class Installed:
    """What a container of the chart's agent would be started with, moved into a folder."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    store: str
    #: Helm's hooks: the pod of ``helm test``.
    hooks: str


def installed(plane: ControlPlane, namespace: str, folder: Path, hooks: str) -> Installed:
    """Read the agent's Deployment, ConfigMap, Secrets and token as kubelet does."""
    template = plane.get("deployment/gt-gputailor-agent", namespace)["spec"]["template"]["spec"]
    (container,) = template["containers"]
    (volume,) = (one for one in template["volumes"] if one["name"] == "settings")
    files = plane.get(f"configmap/{volume['configMap']['name']}", namespace)["data"]
    token = plane.token(template["serviceAccountName"], namespace)
    store = f"sqlite:///{folder / 'gputailor.db'}"
    kubeconfig = str(plane.kubeconfig_with(token, namespace))
    settings = yaml.safe_load(files["agent.yaml"])
    settings |= {"store": store, "listen": "127.0.0.1:0", "kubeconfig": kubeconfig}
    path = folder / "agent.yaml"
    path.write_text(json.dumps(settings), "utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_")}
    for one in container.get("env", ()):
        source = one["valueFrom"]["secretKeyRef"]
        secret = plane.get(f"secret/{source['name']}", namespace)["data"][source["key"]]
        environment[one["name"]] = base64.b64decode(secret).decode()
    arguments = tuple(
        str(path) if one == "/etc/gputailor/agent.yaml" else one for one in container["args"]
    )
    return Installed(arguments, environment, store, hooks)


def run_test(hooks: str, places: Mapping[str, str], seconds: float) -> tuple[int, str]:
    """Run what the pod of ``helm test`` runs (``hooks``: Helm's), its Services at ``places``.

    Its status, and what it said.
    """
    (pod,) = (one for one in yaml.safe_load_all(hooks) if one and one["kind"] == "Pod")
    (container,) = pod["spec"]["containers"]
    program, flag, script, patience, *asked = container["command"]
    assert (program, flag) == ("python", "-c")
    assert float(patience) > 0
    names = [one.partition("=")[0] for one in asked]
    assert sorted(names) == sorted(places)
    there = [f"{name}={places[name]}" for name in names]
    done = subprocess.run(
        [sys.executable, "-c", script, str(seconds), *there],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 60,
    )
    assert not done.stderr
    return done.returncode, done.stdout
