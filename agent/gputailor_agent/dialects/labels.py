"""What labels of exporters have in common: who holds a device, where it is, what tells it apart.

A Prometheus that does not honour an exporter's labels keeps them as ``exported_…`` and puts those
of the exporter's own pod in their place. The renamed ones are therefore read first.
"""

from collections.abc import Mapping
from typing import Final

from gputailor_agent.dialects.base import Holder

Labels = Mapping[str, str]

_RENAMED: Final = "exported_"
_PORT: Final = ":"


def first(labels: Labels, *names: str) -> str:
    """Return the first label of these that is there and not empty; else ''."""
    return next((labels[name] for name in names if labels.get(name)), "")


def told(labels: Labels, *names: str) -> str:
    """Likewise, as the exporter gave it: a renamed label counts before one of the target."""
    return first(labels, *(_RENAMED + name for name in names), *names)


def holder_of(
    labels: Labels,
    gpu_uuid: str,
    *,
    pod: tuple[str, ...] = ("pod",),
    namespace: tuple[str, ...] = ("namespace",),
    container: tuple[str, ...] = ("container",),
    own: str = "",
) -> Holder | None:
    """Who holds the device, by the labels that name pod, namespace and container.

    Names that only the exporter gives come before those that Prometheus gives targets, too.
    ``own``: part of the names of the exporter's own pods, which Prometheus puts onto the series of
    a device that nobody holds.
    """
    name, where = told(labels, *pod), told(labels, *container)
    if not name or (own and (own in name or own in where)):
        return None
    return Holder(
        namespace=told(labels, *namespace),
        pod=name,
        pod_uid=told(labels, "pod_uid"),
        container=where,
        gpu_uuid=gpu_uuid,
    )


def node_of(labels: Labels, *names: str) -> str:
    """Where the device is: by the exporter's labels ``names``, else what Prometheus knows of it."""
    named = told(labels, *names) or first(
        labels, "node", "node_name", "kubernetes_node", "nodename"
    )
    if named:
        return named
    instance = first(labels, "instance")
    host, colon, port = instance.rpartition(_PORT)
    return host if colon and port.isdigit() else instance
