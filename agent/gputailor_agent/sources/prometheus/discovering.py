"""Which services of a cluster are a Prometheus or speak like one, told by their labels.

The labels are those that the usual charts and operators give their services: the Prometheus charts
and operator, Rancher's, Thanos, VictoriaMetrics (single and cluster) and Grafana Mimir. Servers
that hold the whole cluster, or several, come before the Prometheus that feeds them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec


class Known(NamedTuple):
    """One kind of server: how its query service is labelled, and where its API begins."""

    kind: str
    selectors: tuple[str, ...]
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()


#: The most inclusive first.
KNOWN: Final = (
    Known(
        "Thanos",
        (
            "app.kubernetes.io/component=query,app.kubernetes.io/name=thanos",
            "app.kubernetes.io/name=thanos-query",
            "app=thanos-query",
            "app=thanos-querier",
        ),
    ),
    Known(
        "Mimir",
        ("app.kubernetes.io/name=mimir,app.kubernetes.io/component=query-frontend",),
        "/prometheus",
        (("X-Scope-OrgID", "anonymous"),),
    ),
    Known(
        "VictoriaMetrics cluster",
        ("app.kubernetes.io/name=vmselect", "app=vmselect"),
        "/select/0/prometheus",
    ),
    Known(
        "VictoriaMetrics",
        ("app.kubernetes.io/name=vmsingle", "app.kubernetes.io/name=victoria-metrics-single"),
    ),
    Known(
        "Prometheus",
        (
            "app=kube-prometheus-stack-prometheus",
            "app=prometheus,component=server",
            "app.kubernetes.io/name=prometheus,app.kubernetes.io/component=server",
            "app=prometheus-server",
            "app=prometheus-operator-prometheus",
            "app=rancher-monitoring-prometheus",
            "app=prometheus-prometheus",
            "operated-prometheus=true",
        ),
    ),
)


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Port(msgspec.Struct):
    port: int
    name: str = ""


class _Spec(msgspec.Struct):
    ports: list[_Port] = []


class Service(msgspec.Struct):
    """As much of a Kubernetes Service as is needed."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class Services(msgspec.Struct):
    """A list of services, as the API server answers it."""

    items: list[Service] = []


class Discovered(NamedTuple):
    """A server that was found: its service, and how it is asked."""

    kind: str
    namespace: str
    name: str
    port: int
    secure: bool
    path: str
    headers: tuple[tuple[str, str], ...]

    @property
    def inside(self) -> str:
        """Its address for who runs in the cluster."""
        scheme = "https" if self.secure else "http"
        return f"{scheme}://{self.name}.{self.namespace}.svc:{self.port}{self.path}"

    def through(self, api_server: str) -> str:
        """Its address for who can only reach the API server (``services/proxy``)."""
        name = f"https:{self.name}" if self.secure else self.name
        return (
            f"{api_server.rstrip('/')}/api/v1/namespaces/{self.namespace}/services/"
            f"{name}:{self.port}/proxy{self.path}"
        )


def discover(find: Callable[[str], Iterable[Service]]) -> Iterator[Discovered]:
    """Servers of a cluster, the most inclusive first; ``find`` gives services by label selector.

    Raises what ``find`` raises.
    """
    seen: set[tuple[str, str]] = set()
    for known in KNOWN:
        for labels in known.selectors:
            for service in find(labels):
                place = (service.metadata.namespace, service.metadata.name)
                port = _port(service.spec.ports)
                if port is None or place in seen:
                    continue
                seen.add(place)
                secure = port.name.startswith("https")
                yield Discovered(known.kind, *place, port.port, secure, known.path, known.headers)


#: What charts call the port of the query API; others are gRPC, a reloader or cluster traffic.
_QUERIES: Final = ("http-web", "web", "http-query", "http", "http-metrics", "https-web", "https")


def _port(ports: list[_Port]) -> _Port | None:
    ranked = [one for name in _QUERIES for one in ports if one.name == name]
    return next(iter([*ranked, *ports]), None)
