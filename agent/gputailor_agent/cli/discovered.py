"""A Prometheus that nobody named: found among the cluster's services, and how it is reached."""

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gputailor_agent.cli.clusters import ClusterAccess, in_pod
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.histories import PrometheusAccess, reachable

if TYPE_CHECKING:
    from gputailor_agent.inventory.live import Client
    from gputailor_agent.sources.prometheus.discovering import Discovered, Service

log = logging.getLogger(__name__)

#: In place of an address: look for one in the cluster.
AUTO: Final = "auto"


def find_prometheus(
    access: PrometheusAccess, cluster: ClusterAccess, *, now: float
) -> PrometheusAccess:
    """The cluster's server with metrics of GPUs, else the first that answers.

    From a pod it is asked by its service's name, else through the API server, with the credentials
    of the kubeconfig. Raises ``CommandError`` where none is found or none answers, ``ClusterError``
    where the cluster cannot be asked.
    """
    from gputailor_agent.inventory.live import connect  # noqa: PLC0415 - others need it not
    from gputailor_agent.sources.prometheus import PrometheusError  # noqa: PLC0415 - likewise
    from gputailor_agent.sources.prometheus.discovering import discover  # noqa: PLC0415

    answered, failed = [], []
    with closing(connect(cluster.kubeconfig, cluster.context)) as client:
        found = list(discover(lambda labels: _services(client, cluster.namespaces, labels)))
    for server in found:
        tried = reached(access, server, cluster)
        try:
            _, exporters = reachable(tried, now=now)
        except PrometheusError as error:
            failed.append(f"{server.namespace}/{server.name}: {error}")
            continue
        if exporters:
            log.info("%s of the cluster is read: %s", server.kind, tried.url)
            return tried
        answered.append(tried)
    if answered:
        return answered[0]
    if failed:
        told = "".join(f"\n  {one}" for one in failed)
        raise CommandError(
            f"no Prometheus of the cluster answers; give --prometheus-url URL:{told}"
        )
    raise CommandError(
        "no service of the cluster looks like a Prometheus, Thanos, VictoriaMetrics or Mimir; give "
        "--prometheus-url URL (kubectl port-forward makes one reachable)"
    )


def _services(client: "Client", namespaces: tuple[str, ...], labels: str) -> Iterator["Service"]:
    from gputailor_agent.sources.prometheus.discovering import Services  # noqa: PLC0415 - see above

    paths = [f"/api/v1/namespaces/{one}/services" for one in namespaces] or ["/api/v1/services"]
    for path in paths:
        yield from client.get(path, Services, [("labelSelector", labels)]).items


def reached(
    access: PrometheusAccess, server: "Discovered", cluster: ClusterAccess
) -> PrometheusAccess:
    """How a server that was found is asked; headers that the user gave win over its kind's."""
    headers = {**dict(server.headers), **access.headers}
    if in_pod() and not (cluster.kubeconfig or cluster.context):
        return replace(access, url=server.inside, headers=headers)
    from gputailor_agent.inventory.live.configuring import find_connection  # noqa: PLC0415

    api = find_connection(cluster.kubeconfig, cluster.context).load()
    return replace(
        access,
        url=server.through(str(api.host)),
        headers=headers,
        credentials=lambda: _credentials(api),
        ca_file=Path(api.ssl_ca_cert) if api.ssl_ca_cert else None,
        certificate_file=Path(api.cert_file) if api.cert_file else None,
        key_file=Path(api.key_file) if api.key_file else None,
        verify=bool(api.verify_ssl),
    )


def _credentials(api: Any) -> dict[str, str]:
    """Headers that say who we are; the client of Kubernetes keeps them fresh."""
    return {one["key"]: one["value"] for one in api.auth_settings().values() if one["value"]}
