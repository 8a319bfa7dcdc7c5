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


def _files(plane: ControlPlane, namespace: str, source: Mapping[str, Any]) -> dict[str, bytes]:
    """Files of a volume, or of a part of a projected one, by name."""
    if "projected" in source:
        found: dict[str, bytes] = {}
        for part in source["projected"]["sources"]:
            found |= _files(plane, namespace, part)
        return found
    kind, about = next((kind, source[kind]) for kind in ("configMap", "secret") if kind in source)
    name = about.get("name") or about["secretName"]
    data = plane.get(f"{kind.lower()}/{name}", namespace)["data"]
    told = {
        key: base64.b64decode(text) if kind == "secret" else text.encode()
        for key, text in data.items()
    }
    items = about.get("items") or [{"key": key, "path": key} for key in told]
    return {item["path"]: told[item["key"]] for item in items}


def _mounted(
    plane: ControlPlane, namespace: str, template: Mapping[str, Any], folder: Path
) -> dict[str, Path]:
    """The volumes that hold files, written below ``folder``; where each is, by its mount path."""
    (container,) = template["containers"]
    volumes = {one["name"]: one for one in template["volumes"]}
    found = {}
    for mount in container["volumeMounts"]:
        volume = volumes[mount["name"]]
        if not {"configMap", "secret", "projected"} & volume.keys():
            continue
        place = folder / "mounted" / mount["name"]
        place.mkdir(parents=True)
        for name, content in _files(plane, namespace, volume).items():
            (place / name).write_bytes(content)
        found[mount["mountPath"]] = place
    return found


def installed(
    plane: ControlPlane, namespace: str, folder: Path, hooks: str, **other: Any
) -> Installed:
    """Read the agent's Deployment, ConfigMap, Secrets and token as kubelet does.

    ``other``: settings that cannot be the same here, e.g. the addresses of Services.
    """
    template = plane.get("deployment/gt-gputailor-agent", namespace)["spec"]["template"]["spec"]
    (container,) = template["containers"]
    mounted = _mounted(plane, namespace, template, folder)
    token = plane.token(template["serviceAccountName"], namespace)
    kubeconfig = str(plane.kubeconfig_with(token, namespace))

    def moved(text: str) -> str:
        # The longest first: one path may begin like another.
        for path in sorted(mounted, key=len, reverse=True):
            text = text.replace(f"{path}/", f"{mounted[path]}/")
        return text

    path = mounted["/etc/gputailor"] / "agent.yaml"
    settings = yaml.safe_load(moved(path.read_text("utf-8")))
    if str(settings.get("store", "")).startswith("sqlite:"):
        settings["store"] = f"sqlite:///{folder / 'gputailor.db'}"
    settings |= {"listen": "127.0.0.1:0", "kubeconfig": kubeconfig, **other}
    path.write_text(json.dumps(settings), "utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_")}
    for one in container.get("env", ()):
        if "value" in one:
            environment[one["name"]] = moved(one["value"])
            continue
        source = one["valueFrom"]["secretKeyRef"]
        secret = plane.get(f"secret/{source['name']}", namespace)["data"][source["key"]]
        environment[one["name"]] = base64.b64decode(secret).decode()
    arguments = tuple(moved(one) for one in container["args"])
    return Installed(arguments, environment, str(settings.get("store", "")), hooks)


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
