"""Dashboard "GPU Tailor / Cluster": what the GPUs of a cluster do, from the exporter's counters.

Means are rise(active) / rise(observed), so a gap shows as a gap and never as zero.
"""

from typing import Any, Final

from grafanalib.core import Dashboard, GridPos, Stat, Target, Template, Templating, TimeSeries

from gputailor_exporter import metrics as exporter

TITLE: Final = "GPU Tailor / Cluster"
UID: Final = "gputailor-cluster"
_RANGE: Final = "$__rate_interval"


def _mean(signal: str, by: str) -> str:
    selector = f'{{node=~"$node",signal="{signal}"}}'
    active = f"{exporter.DEVICE_ACTIVE_SECONDS.name}{selector}"
    observed = f"{exporter.DEVICE_OBSERVED_SECONDS.name}{selector}"
    return f"sum by ({by}) (rate({active}[{_RANGE}])) / sum by ({by}) (rate({observed}[{_RANGE}]))"


def _stat(title: str, query: str, unit: str, x: int) -> Stat:
    return Stat(
        title=title,
        targets=[Target(expr=query, instant=True)],
        format=unit,
        reduceCalc="lastNotNull",
        gridPos=GridPos(h=4, w=6, x=x, y=0),
    )


def _series(title: str, query: str, unit: str, legend: str, place: tuple[int, int]) -> TimeSeries:
    return TimeSeries(
        title=title,
        targets=[Target(expr=query, legendFormat=legend)],
        unit=unit,
        gridPos=GridPos(h=8, w=12, x=place[0], y=place[1]),
    )


def build() -> Any:
    """Return the grafanalib dashboard."""
    present = f'{exporter.EXPORTER_DEVICES.name}{{state="present"}}'
    node_gpu = "{{node}} GPU {{gpu}}"
    return Dashboard(
        title=TITLE,
        uid=UID,
        tags=["gputailor"],
        timezone="utc",
        templating=Templating(
            list=[
                Template(name="datasource", type="datasource", query="prometheus"),
                Template(
                    name="node",
                    query=f"label_values({exporter.DEVICE_UP.name}, node)",
                    dataSource="${datasource}",
                    includeAll=True,
                    multi=True,
                    allValue=".*",
                ),
            ]
        ),
        panels=[
            _stat("GPUs present", f"sum({present})", "short", 0),
            _stat("GPUs held", f"sum({exporter.CONTAINER_ALLOCATED_SHARE.name})", "short", 6),
            _stat("Kernel active, mean", _mean("kernel", ""), "percentunit", 12),
            _stat("GPUs lost or hung", f"count({exporter.DEVICE_UP.name} == 0)", "short", 18),
            _series("Kernel active", _mean("kernel", "node, gpu"), "percentunit", node_gpu, (0, 4)),
            _series("SM active", _mean("sm", "node, gpu"), "percentunit", node_gpu, (12, 4)),
            _series(
                "Memory in use",
                f'{exporter.DEVICE_MEMORY_USED.name}{{node=~"$node"}}',
                "bytes",
                node_gpu,
                (0, 12),
            ),
            _series(
                "Power",
                f'{exporter.DEVICE_POWER.name}{{node=~"$node"}}',
                "watt",
                node_gpu,
                (12, 12),
            ),
        ],
    ).auto_panel_ids()
