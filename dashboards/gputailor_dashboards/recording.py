"""Recording rules, by dialect: what would cost too much to work out over a week of raw series.

No rule of a dashboard reads what another one records, so that history can be filled in by one
``promtool tsdb create-blocks-from rules``.
"""

from typing import Final

from gputailor_dashboards.alerts import QUIET, quiet_pods
from gputailor_dashboards.expressions.base import Dialect
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.rules import Group, Recording

_BY_NAMESPACE: Final = {
    "held": "devices held, by namespace; shares of shared ones added up",
    "used": "devices' worth of time in which kernels ran, by namespace",
    "idle": "devices held on which no kernel ran for five minutes, by namespace",
    "unknown": "devices held whose activity cannot be read, by namespace",
}


def recordings(dialect: Dialect) -> Group:
    """Return the recording rules of a dialect; its scope has to be ``RULES``."""
    queries = {
        "held": dialect.held,
        "used": dialect.used,
        "idle": dialect.idle,
        "unknown": dialect.unknown,
    }
    rules = [
        Recording(
            f"{dialect.recorded}:namespace_gpus_{name}:sum", queries[name]("namespace"), meaning
        )
        for name, meaning in _BY_NAMESPACE.items()
    ]
    if isinstance(dialect, Native):
        rules += _of_our_exporter(dialect)
    return Group(f"{dialect.recorded.replace('_', '-')}-usage", "1m", tuple(rules))


def _of_our_exporter(dialect: Native) -> list[Recording]:
    return [
        Recording(
            "gputailor:device_activity:ratio_rate5m",
            dialect.every_signal(),
            "mean of each signal per device over five minutes, for your own queries",
        ),
        Recording(
            "gputailor:container_gpu_busy:ratio_rate5m",
            dialect.busy(),
            "share of time in which a kernel ran, per container and device, for your own queries",
        ),
        Recording(
            QUIET,
            quiet_pods(),
            "devices held by a pod all of whose devices were seen, and seen at zero, for five "
            "minutes; absent otherwise (GpuAllocationIdle counts it over three days)",
        ),
    ]
