"""Variables of the dashboards, and the links between them."""

from typing import Any, Final

from grafanalib.core import DashboardLink, Template, Templating

from gputailor_dashboards.expressions.base import POD_NAME, Dialect
from gputailor_dashboards.expressions.native import Native

_ALL: Final = ".*"


def uid(dialect: Dialect, name: str) -> str:
    """Return the uid of a dashboard on this exporter; ours are the plain names."""
    return name if isinstance(dialect, Native) else f"{name}-{dialect.key}"


def tags(dialect: Dialect) -> list[str]:
    """Tags of a dashboard; the links find by them the dashboards on the same exporter."""
    return ["gputailor", f"on-{dialect.key}"]


def _datasource() -> Any:
    return Template(name="datasource", label="Data source", type="datasource", query="prometheus")


def _query(name: str, label: str, query: str, regex: str) -> Any:
    return Template(
        name=name,
        label=label,
        query=query,
        regex=regex,
        dataSource="${datasource}",
        includeAll=True,
        multi=True,
        allValue=_ALL,
        default="All",
    )


def cluster(dialect: Dialect) -> Any:
    """Data source, node, namespace."""
    return Templating(
        list=[
            _datasource(),
            _query("node", "Node", *dialect.node_values),
            _query("namespace", "Namespace", *dialect.namespace_values),
        ]
    )


def workload(dialect: Dialect) -> Any:
    """Data source, namespace, and the workloads in it, by their pods' names."""
    pods = dialect.pod_values
    labelled = pods.startswith("query_result")
    regex = f'/pod="{POD_NAME}"/' if labelled else f"/^{POD_NAME}$/"
    return Templating(
        list=[
            _datasource(),
            _query("namespace", "Namespace", *dialect.namespace_values),
            _query("workload", "Workload", pods, regex),
        ]
    )


def links(dialect: Dialect) -> list[Any]:
    """Links to the other dashboards on the same exporter; variables and time go along."""
    return [
        DashboardLink(
            title="GPU Tailor",
            type="dashboards",
            tags=tags(dialect),
            asDropdown=False,
            includeVars=True,
            keepTime=True,
        )
    ]
