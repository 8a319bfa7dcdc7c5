"""Recording rules, by dialect: what would cost too much to work out over a week of raw series.

Boards of a whole cluster read these, by node, namespace and workload; boards of one node, GPU or
workload read the exporter's own series. No rule reads what another one records, so that history can
be filled in by one ``promtool tsdb create-blocks-from rules``.
"""

from collections.abc import Iterator
from typing import Final

from gputailor_dashboards.alerts import QUIET, quiet_pods
from gputailor_dashboards.expressions.base import LEVEL_LABELS, Dialect, Level
from gputailor_dashboards.expressions.contract import coverage
from gputailor_dashboards.expressions.native import DEVICE, Native
from gputailor_dashboards.rules import Group, Recording
from gputailor_exporter import metrics as m

_NODE: Final = "cluster, node"
#: Means over five minutes need no closer look; a week of them is read at once.
INTERVAL: Final = "2m"
#: Label of ``kube_namespace_labels`` that names a namespace's team.
TEAM_LABEL: Final = "team"

_MEANINGS: Final = {
    "held": "devices held, by {}; shares of shared ones added up",
    "used": "devices' worth of time in which kernels ran, by {}",
    "idle": "devices held on which no kernel ran for five minutes, by {}",
    "unknown": "devices held whose activity cannot be read, by {}",
}
#: What holds clocks down, by its cause.
_CAUSES: Final = {
    "heat": (
        m.ThrottleReason.SW_THERMAL_SLOWDOWN,
        m.ThrottleReason.HW_THERMAL_SLOWDOWN,
        m.ThrottleReason.HW_SLOWDOWN,
    ),
    "power": (m.ThrottleReason.SW_POWER_CAP, m.ThrottleReason.HW_POWER_BRAKE_SLOWDOWN),
}
#: Signals that a gauge dialect's nodes are recorded with, by the dialect's key.
_GAUGE_SIGNALS: Final = {
    "dcgm": (m.Signal.KERNEL, m.Signal.GRAPHICS, m.Signal.TENSOR, m.Signal.DRAM),
    "smi": (m.Signal.KERNEL, m.Signal.MEMCOPY),
}


def recordings(dialect: Dialect, team_label: str = TEAM_LABEL) -> Group:
    """Return the recording rules of a dialect; its scope has to be ``RULES``.

    ``team_label``: label of namespaces that names their team, as kube-state-metrics shows it.
    """
    rules = [*_levels(dialect, team_label), *_nodes(dialect)]
    if isinstance(dialect, Native):
        rules += _of_our_exporter(dialect)
    else:
        rules += _of_gauges(dialect)
    return Group(f"{dialect.recorded.replace('_', '-')}-usage", INTERVAL, tuple(rules))


def _levels(dialect: Dialect, team_label: str) -> Iterator[Recording]:
    """Held, used, idle and unknown devices by node, namespace and workload."""
    queries = {
        "held": dialect.held,
        "used": dialect.used,
        "idle": dialect.idle,
        "unknown": dialect.unknown,
    }
    for level, labels in LEVEL_LABELS.items():
        for what, meaning in _MEANINGS.items():
            query = queries[what](labels)
            if query is not None:
                if level is not Level.NODE:
                    query = _with_team(query, team_label)
                yield Recording(
                    f"{dialect.recorded}:{level}_gpus_{what}:sum", query, meaning.format(level)
                )


def _with_team(query: str, label: str) -> str:
    """Add the namespace's team where kube-state-metrics shows one; without it nothing changes."""
    shown = f"label_{label}"
    named = f'label_replace(kube_namespace_labels{{{shown}!=""}}, "team", "$1", "{shown}", "(.+)")'
    team = f"max by (cluster, namespace, team) ({named})"
    on = "on (cluster, namespace)"
    return f"(({query}) * {on} group_left (team) {team}) or {on} ({query})"


def _nodes(dialect: Dialect) -> Iterator[Recording]:
    """What every exporter tells of its node."""
    name = f"{dialect.recorded}:node"
    yield Recording(f"{name}_gpus_present:sum", dialect.gpus(_NODE), "GPUs that are seen, by node")
    yield Recording(
        f"{name}_power_watts:sum",
        f"sum by ({_NODE}) ({dialect.device_power()})",
        "watts that the node's GPUs draw",
    )
    yield Recording(
        f"{name}_memory:ratio",
        f"avg by ({_NODE}) ({dialect.device_memory_ratio()})",
        "memory in use / memory, mean of the node's devices",
    )
    yield Recording(
        f"{name}_temperature_celsius:max",
        f"max by ({_NODE}) ({dialect.temperature('gpu')})",
        "temperature of the node's hottest GPU",
    )


def _of_gauges(dialect: Dialect) -> list[Recording]:
    signals = []
    for signal in _GAUGE_SIGNALS[dialect.key]:
        query = f"avg by ({_NODE}) ({dialect.device_activity(signal)})"
        signals.append(f'label_replace({query}, "signal", "{signal}", "", "")')
    return [
        Recording(
            f"{dialect.recorded}:node_activity:ratio_rate5m",
            " or ".join(signals),
            "mean of a signal of the node's devices over five minutes",
        ),
    ]


def _of_our_exporter(dialect: Native) -> list[Recording]:
    return [
        *_node_signals(dialect),
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


def _held_down(dialect: Native, cause: str, reasons: tuple[str, ...]) -> str:
    """Share of time with clocks held down by a cause, mean of the node's devices."""
    series = f'{m.DEVICE_THROTTLED_SECONDS.name}{{reason=~"{"|".join(reasons)}"}}'
    by_reason = f"max by ({DEVICE}, reason) (rate({series}[{dialect.scope.window}]))"
    # Two reasons can be given for the same second: the longer one counts.
    mean = f"avg by ({_NODE}) (max by ({DEVICE}) ({by_reason}))"
    return f'label_replace({mean}, "reason", "{cause}", "", "")'


def _node_signals(dialect: Native) -> Iterator[Recording]:
    """What only the contract tells of a node."""
    window = dialect.scope.window

    def rise(family: m.Family, label: str) -> str:
        each = f"max by ({DEVICE}, {label}) (increase({family.name}[{window}]))"
        return f"sum by ({_NODE}, {label}) ({each})"

    throttled = " or ".join(_held_down(dialect, *one) for one in _CAUSES.items())
    for name, query, meaning in (
        ("gpus_lost:sum", dialect.lost(_NODE), "devices that do not answer, by node"),
        (
            "activity:ratio_rate5m",
            dialect.every_signal(_NODE),
            "mean of each signal of the node's devices over five minutes",
        ),
        ("coverage:ratio_rate5m", coverage(dialect, _NODE), "observed / held time, by node"),
        (
            "throttled:ratio_rate5m",
            throttled,
            "share of time with clocks held down by heat, by power",
        ),
        ("ecc_errors:increase5m", rise(m.DEVICE_ECC_ERRORS, "severity"), "ECC errors, by node"),
        ("nvlink_errors:increase5m", rise(m.DEVICE_NVLINK_ERRORS, "error"), "NVLink errors"),
    ):
        yield Recording(f"gputailor:node_{name}", query, meaning)
