"""What ``gputailor doctor`` looks at in a live cluster: access, permissions, objects, monitors."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from gputailor_agent.cli.checks import Check
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.model.inventory import Inventory

if TYPE_CHECKING:
    from gputailor_agent.inventory.live import Client, MissingPermission


#: The check of what settings let the agent write.
WRITING: Final = "permissions to write"
_FROM_FILES: Final = (
    "or work from files: kubectl get … -o json > cluster.json elsewhere, then "
    "--inventory cluster.json"
)


def _with_remedy(error: Exception, otherwise: str) -> dict[str, str]:
    """What an error found and what to do, which its text has behind the last semicolon."""
    found, _, remedy = str(error).rpartition("; ")
    if not found:
        return {"found": remedy, "advice": otherwise}
    if "--inventory" in remedy:
        return {"found": found, "advice": remedy}
    also = f" {otherwise[0].upper()}{otherwise[1:]}" if remedy.endswith("?") else f"; {otherwise}"
    return {"found": found, "advice": remedy + also}


def cluster_checks(access: ClusterAccess, features: Sequence[str] = ()) -> Iterator[Check]:
    """Whether the cluster answers, and what of the permissions is missing.

    ``features``: settings that let the agent write into the cluster and are on. Without a cluster
    that anybody named, none is a note: files do as well.
    """
    from gputailor_agent.inventory.live import (  # noqa: PLC0415 - a second that others need not
        ClusterError,
        NoClusterError,
        connect,
        missing_permissions,
    )
    from gputailor_agent.inventory.live.writing_rights import (  # noqa: PLC0415 - likewise
        missing_to_write,
    )

    named = access.asked or bool(os.environ.get("KUBECONFIG"))
    try:
        client = connect(access.kubeconfig, access.context)
        with closing(client):
            missing = missing_permissions(client, access.namespaces or None)
            unwritable = missing_to_write(client, features, access.namespaces or None)
    except ClusterError as error:
        yield Check(
            name="Kubernetes",
            standing="note" if isinstance(error, NoClusterError) and not named else "problem",
            **_with_remedy(error, _FROM_FILES),
        )
        return
    yield Check(name="Kubernetes", standing="ok", found=f"{client.host} answers ({client.where})")
    if not missing:
        yield Check(name="permissions", standing="ok", found="everything that is read may be read")
    yield from _missing(missing)
    if features and not unwritable:
        told = f"{' and '.join(features)}: everything that is written may be written"
        yield Check(name=WRITING, standing="ok", found=told)
    yield from _missing(unwritable, WRITING)


def _missing(missing: "Sequence[MissingPermission]", name: str = "permissions") -> Iterator[Check]:
    """One line for all that is missing in one place for one reason."""
    alike: dict[tuple[object, ...], list[MissingPermission]] = {}
    for one in missing:
        key = (one.namespace, one.scope, one.optional, one.verbs, one.without)
        alike.setdefault(key, []).append(one)
    for group in alike.values():
        first, named = group[0], ", ".join(one.resource for one in group)
        place = f"in namespace {first.namespace}" if first.namespace else "in all namespaces"
        verbs = ", ".join(first.verbs)
        yield Check(
            name=name,
            standing="note" if first.optional else "problem",
            found=f"{verbs} on {named} not granted {place}: {first.without}",
            advice=_grant_writing(first) if name == WRITING else _grant(first),
        )


def _grant_writing(missing: "MissingPermission") -> str:
    """How to grant what a setting needs, or how to do without."""
    setting = missing.without.partition(" ")[0]
    place = f" in {missing.namespace}" if missing.namespace else ""
    return (
        f"set agent.settings.{setting} in the chart's values, which grants it, too; or grant it"
        f"{place} (docs/kubernetes.md), or switch {setting} off"
    )


def _grant(missing: "MissingPermission") -> str:
    """How to grant what is missing: in one namespace, for the cluster, or either."""
    if missing.namespace:
        return f"grant the Role in {missing.namespace} and bind it: docs/kubernetes.md"
    whole = "grant the ClusterRole and bind it: docs/kubernetes.md"
    return whole if missing.scope == "cluster" else f"{whole}, or name namespaces with --namespace"


def inventory_checks(access: ClusterAccess, at: float) -> tuple[Inventory | None, list[Check]]:
    """One reading of the cluster (None where that fails), and what it could not see."""
    from gputailor_agent.inventory.live import ClusterError  # noqa: PLC0415 - as above

    try:
        found = access.read("", at)
    except ClusterError as error:
        refused = _with_remedy(error, "try again when it is up")
        return None, [Check(name="inventory", standing="problem", **refused)]
    cards = sum(1 for node in found.nodes if node.capacity)
    told = f"{len(found.pods)} pods ask for accelerators, {cards} nodes have some"
    first = Check(name="inventory", standing="note" if found.problems else "ok", found=told)
    advice = "reports go on without it: workloads keep the names their pods' references give"
    more = [
        Check(
            name="inventory",
            standing="note",
            found=told or remedy,
            advice=remedy if told else advice,
        )
        for told, _, remedy in (problem.rpartition("; ") for problem in found.problems)
    ]
    return found, [first, *more]


#: Names of monitors that are of an exporter of GPUs.
_EXPORTERS: Final = re.compile(
    r"(?:^|[-_.])(?:gputailor|dcgm|gpu|nvidia|npu|hami|amd|ascend|device-metrics)"
)
_MONITORING: Final = "/apis/monitoring.coreos.com/v1"
_NAMESPACES: Final = "/api/v1/namespaces"


def monitor_checks(access: ClusterAccess) -> Iterator[Check]:
    """Monitors of exporters that no Prometheus of an operator takes, for want of a label.

    Nothing where the operator is not there, or nobody may look.
    """
    from gputailor_agent.inventory.live import ClusterError, connect  # noqa: PLC0415 - see above

    try:
        with closing(connect(access.kubeconfig, access.context)) as client:
            servers = _items(client, f"{_MONITORING}/prometheuses")
            kinds = {
                "ServiceMonitor": _items(client, f"{_MONITORING}/servicemonitors"),
                "PodMonitor": _items(client, f"{_MONITORING}/podmonitors"),
            }
            spaces = _namespace_labels(client) if servers else None
    except ClusterError:
        return
    for kind, monitors in kinds.items():
        for monitor in monitors:
            if servers and _EXPORTERS.search(monitor["metadata"]["name"]):
                yield monitor_check(kind, monitor, servers, spaces)


def _lowered(kind: str) -> str:
    return kind[0].lower() + kind[1:]


def _items(client: "Client", path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(path, dict).get("items", [])
    return found


def _namespace_labels(client: "Client") -> dict[str, dict[str, str]] | None:
    """Labels by namespace; None where nobody may look."""
    from gputailor_agent.inventory.live import ClusterError  # noqa: PLC0415 - see above

    try:
        return {
            one["metadata"]["name"]: one["metadata"].get("labels") or {}
            for one in _items(client, _NAMESPACES)
        }
    except ClusterError:
        return None


def monitor_check(
    kind: str,
    monitor: Mapping[str, Any],
    servers: Sequence[Mapping[str, Any]],
    spaces: Mapping[str, Mapping[str, str]] | None = None,
) -> Check:
    """Whether one of the Prometheus objects takes a monitor; else what it lacks.

    ``spaces``: labels of namespaces; None where they are unknown, and any may be selected.
    """
    meta = monitor["metadata"]
    space = str(meta.get("namespace") or "")
    place = f"{space}/{meta['name']}"
    key = f"{_lowered(kind)}Selector"
    chosen = [(one.get("spec") or {}).get(key) for one in servers]
    labels = meta.get("labels") or {}
    taking = [
        server
        for server, selector in zip(servers, chosen, strict=True)
        if selector is not None and _takes(selector, labels)
    ]
    if any(_looks_into(kind, server, space, spaces) for server in taking):
        return Check(name="monitors", standing="ok", found=f"{kind} {place} is taken")
    if taking:
        return _elsewhere(kind, place, space, taking[0])
    return _unlabelled(kind, place, meta, chosen)


def _looks_into(
    kind: str,
    server: Mapping[str, Any],
    space: str,
    spaces: Mapping[str, Mapping[str, str]] | None,
) -> bool:
    """Whether a Prometheus looks for monitors in a namespace; without a selector in its own."""
    selector = (server.get("spec") or {}).get(f"{_lowered(kind)}NamespaceSelector")
    if selector is None:
        return bool(server["metadata"].get("namespace") == space)
    return spaces is None or _takes(selector, spaces.get(space, {}))


def _elsewhere(kind: str, place: str, space: str, server: Mapping[str, Any]) -> Check:
    meta = server["metadata"]
    whose = f"{meta.get('namespace', '')}/{meta['name']}"
    key = f"{_lowered(kind)}NamespaceSelector"
    selector = (server.get("spec") or {}).get(key)
    wanted = (selector or {}).get("matchLabels") or {}
    label = " ".join(f"{name}={value}" for name, value in wanted.items())
    return Check(
        name="monitors",
        standing="problem",
        found=f"{kind} {place} is taken by no Prometheus: {whose} does not look into the "
        f"namespace {space}",
        advice=f"kubectl label namespace {space} {label}"
        if label
        else f"set {key} of the Prometheus {whose} to {{}}, which means every namespace",
    )


def _unlabelled(
    kind: str,
    place: str,
    meta: Mapping[str, Any],
    selectors: Sequence[Mapping[str, Any] | None],
) -> Check:
    labels = meta.get("labels") or {}
    wanted: Mapping[str, str] = next(
        (one["matchLabels"] for one in selectors if one and "matchLabels" in one), {}
    )
    lacking = {name: value for name, value in wanted.items() if labels.get(name) != value}
    told = ", ".join(f"{name}={value}" for name, value in lacking.items())
    label = " ".join(f"{name}={value}" for name, value in lacking.items())
    return Check(
        name="monitors",
        standing="problem",
        found=f"{kind} {place} is taken by no Prometheus"
        + (f": it lacks the label {told}" if told else ""),
        advice=f"kubectl label {kind.lower()} -n {meta.get('namespace', '')} {meta['name']} {label}"
        ", or give the label in the chart's values"
        if told
        else f"set {_lowered(kind)}Selector of the Prometheus so that it matches",
    )


def _takes(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector of Kubernetes matches."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    there, values = labels.get(one["key"]), one.get("values") or ()
    return {
        "In": there in values,
        "NotIn": there not in values,
        "Exists": there is not None,
        "DoesNotExist": there is None,
    }.get(str(one.get("operator")), False)
