"""What ``gputailor doctor`` looks at in a live cluster: access, permissions, objects, monitors."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from gputailor_agent.cli.checks import Check
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.model.inventory import Inventory

if TYPE_CHECKING:
    from gputailor_agent.inventory.live import Client


def cluster_checks(access: ClusterAccess) -> Iterator[Check]:
    """Whether the cluster answers, and what of the permissions is missing.

    Without a cluster that anybody named, none is a note: files do as well.
    """
    from gputailor_agent.inventory.live import (  # noqa: PLC0415 - a second that others need not
        ClusterError,
        NoClusterError,
        connect,
        missing_permissions,
    )

    named = access.asked or bool(os.environ.get("KUBECONFIG"))
    try:
        client = connect(access.kubeconfig, access.context)
        with closing(client):
            missing = missing_permissions(client, access.namespaces or None)
    except ClusterError as error:
        yield Check(
            name="Kubernetes",
            standing="note" if isinstance(error, NoClusterError) and not named else "problem",
            found=str(error),
            advice="or work from files: kubectl get … -o json > cluster.json elsewhere, then "
            "--inventory cluster.json",
        )
        return
    yield Check(name="Kubernetes", standing="ok", found=f"{client.host} answers ({client.where})")
    if not missing:
        yield Check(name="permissions", standing="ok", found="everything that is read may be read")
    for one in missing:
        place = f"in namespace {one.namespace}" if one.namespace else "in all namespaces"
        yield Check(
            name="permissions",
            standing="note" if one.optional else "problem",
            found=f"{', '.join(one.verbs)} on {one.resource} not granted {place}: {one.without}",
            advice="grant it: docs/kubernetes.md, or name namespaces with --namespace",
        )


def inventory_checks(access: ClusterAccess, at: float) -> tuple[Inventory | None, list[Check]]:
    """One reading of the cluster (None where that fails), and what it could not see."""
    from gputailor_agent.inventory.live import ClusterError  # noqa: PLC0415 - as above

    try:
        found = access.read("", at)
    except ClusterError as error:
        advice = "the text says what was asked and answered; grant it, or try again when it is up"
        return None, [Check(name="inventory", standing="problem", found=str(error), advice=advice)]
    cards = sum(1 for node in found.nodes if node.capacity)
    told = f"{len(found.pods)} pods ask for accelerators, {cards} nodes have some"
    first = Check(name="inventory", standing="note" if found.problems else "ok", found=told)
    advice = "reports go on without it: workloads keep the names their pods' references give"
    more = [
        Check(name="inventory", standing="note", found=problem, advice=advice)
        for problem in found.problems
    ]
    return found, [first, *more]


#: Names of monitors that are of an exporter of GPUs.
_EXPORTERS: Final = ("gputailor", "dcgm", "gpu", "nvidia", "npu", "hami", "device-metrics")
_MONITORING: Final = "/apis/monitoring.coreos.com/v1"


def monitor_checks(access: ClusterAccess) -> Iterator[Check]:
    """Monitors of exporters that no Prometheus of an operator takes, for want of a label.

    Nothing where the operator is not there, or nobody may look.
    """
    from gputailor_agent.inventory.live import ClusterError, connect  # noqa: PLC0415 - see above

    try:
        with closing(connect(access.kubeconfig, access.context)) as client:
            servers = _items(client, "prometheuses")
            kinds = {
                "ServiceMonitor": _items(client, "servicemonitors"),
                "PodMonitor": _items(client, "podmonitors"),
            }
    except ClusterError:
        return
    for kind, monitors in kinds.items():
        selectors = [one.get("spec", {}).get(f"{_lowered(kind)}Selector") for one in servers]
        for monitor in monitors:
            name = monitor["metadata"]["name"]
            if selectors and any(part in name for part in _EXPORTERS):
                yield monitor_check(kind, monitor, selectors)


def _lowered(kind: str) -> str:
    return kind[0].lower() + kind[1:]


def _items(client: "Client", plural: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{_MONITORING}/{plural}", dict).get("items", [])
    return found


def monitor_check(
    kind: str, monitor: Mapping[str, Any], selectors: Sequence[Mapping[str, Any] | None]
) -> Check:
    """Whether one of the selectors takes a monitor; else the label that it lacks."""
    meta = monitor["metadata"]
    place = f"{meta.get('namespace', '')}/{meta['name']}"
    labels = meta.get("labels") or {}
    if any(one is not None and _takes(one, labels) for one in selectors):
        return Check(name="monitors", standing="ok", found=f"{kind} {place} is taken")
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
