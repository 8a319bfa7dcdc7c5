"""Variables of the dashboards, the links between them, and what is marked on their time axis."""

from collections.abc import Sequence
from typing import Any, Final

from grafanalib.core import Annotations, DashboardLink, Template, Templating

from gputailor_agent import metrics as agent
from gputailor_dashboards.expressions.base import Dialect
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.modern import DATASOURCE
from gputailor_exporter import metrics as m

_ALL: Final = ".*"
#: Seconds between two looks at an annotation's query: what began since the last one is marked.
_STEP: Final = "300s"
_LABELS: Final = {
    "cluster": "Cluster",
    "node": "Node",
    "gpu": "GPU",
    "team": "Team",
    "namespace": "Namespace",
    "workload": "Workload",
    "price": "Price of a GPU-hour",
}


def uid(dialect: Dialect, name: str) -> str:
    """Return the uid of a dashboard on this exporter; ours are the plain names."""
    return name if isinstance(dialect, Native) else f"{name}-{dialect.key}"


def tags(dialect: Dialect) -> list[str]:
    """Tags of a dashboard; the links find by them the dashboards on the same exporter."""
    return ["gputailor", f"on-{dialect.key}"]


def _values(dialect: Dialect, name: str, *, recorded: bool) -> tuple[str, str]:
    """Grafana query and regular expression of a variable's values."""
    if recorded:
        series = f"{dialect.recorded}:namespace_gpus_held:sum"
        chosen = 'cluster=~"$cluster"'
        if name == "team":
            return f"label_values({series}{{{chosen}}}, team)", ""
        if name == "namespace":
            return f'label_values({series}{{{chosen},team=~"$team"}}, namespace)', ""
    return {
        "cluster": lambda: dialect.cluster_values,
        "node": lambda: dialect.node_values,
        "gpu": lambda: dialect.gpu_values,
        "namespace": lambda: dialect.namespace_values,
        "workload": lambda: dialect.pod_values,
    }[name]()


def templating(dialect: Dialect, names: Sequence[str], one: Sequence[str]) -> Any:
    """Data source and the variables of these names, each within what is chosen before it.

    ``one``: names of which a single value is chosen. A board with ``team`` reads recorded series.
    """
    found = [
        Template(name="datasource", label="Data source", type="datasource", query="prometheus")
    ]
    for name in names:
        label = _LABELS[name]
        if name == "price":
            found.append(Template(name=name, label=label, type="textbox", query="2"))
            continue
        query, regex = _values(dialect, name, recorded="team" in names)
        every = name not in one
        found.append(
            Template(
                name=name,
                label=label,
                query=query,
                regex=regex,
                dataSource="${datasource}",
                includeAll=every,
                multi=every,
                allValue=_ALL if every else None,
                default="All" if every else None,
            )
        )
    return Templating(list=found)


def links(dialect: Dialect) -> list[Any]:
    """Links to the other dashboards on the same exporter; variables and time go along."""
    return [
        DashboardLink(
            title="GPU Tailor",
            type="dashboards",
            tags=tags(dialect),
            asDropdown=True,
            includeVars=True,
            keepTime=True,
        )
    ]


def annotations(dialect: Dialect, names: Sequence[str]) -> Any:
    """Marks on the time axis: new findings, alerts that began, Xid errors."""
    found = [_findings(names), _alerts(names)]
    if isinstance(dialect, Native):
        found.append(_xids(names))
    return Annotations(list=found)


def _chosen(names: Sequence[str], *wanted: str) -> str:
    return ",".join(f'{name}=~"${name}"' for name in wanted if name in names)


def _began(series: str) -> str:
    """What is there and was not within the hour before: marked once, not as long as it lasts."""
    return f"{series} unless max_over_time({series}[1h] offset 5m)"


def _findings(names: Sequence[str]) -> dict[str, Any]:
    selector = _chosen(names, "cluster", "namespace", "workload")
    return _mark(
        "Findings",
        _began(f"{agent.FINDING.name}{{{selector}}}"),
        "blue",
        title="{{rule}}",
        text="{{namespace}}/{{workload}}",
    )


def _alerts(names: Sequence[str]) -> dict[str, Any]:
    more = _chosen(names, "cluster")
    selector = 'alertname=~"Gpu.*",alertstate="firing"' + (f",{more}" if more else "")
    return _mark(
        "Alerts",
        _began(f"ALERTS{{{selector}}}"),
        "red",
        title="{{alertname}}",
        text="{{node}} {{gpu}} {{namespace}} {{pod}}",
    )


def _xids(names: Sequence[str]) -> dict[str, Any]:
    selector = _chosen(names, "cluster", "node", "gpu")
    found = _mark(
        "Xid errors",
        f"1000 * {m.DEVICE_XID_LAST.name}{{{selector}}}",
        "orange",
        title="Xid {{xid}}",
        text="{{node}} GPU {{gpu}}",
    )
    return found | {"useValueForTime": True}


def _mark(name: str, expr: str, color: str, *, title: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": expr,
        "step": _STEP,
        "titleFormat": title,
        "textFormat": text,
    }
