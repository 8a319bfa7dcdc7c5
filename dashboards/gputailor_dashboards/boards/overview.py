"""Cluster: are the GPUs held, used, healthy, and who lets them idle?"""

from gputailor_dashboards import judgement
from gputailor_dashboards.boards import parts
from gputailor_dashboards.boards.board import EVERY, Board
from gputailor_dashboards.expressions.base import CLUSTER, NODE_LEGEND, Dialect, Level
from gputailor_dashboards.expressions.contract import coverage
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter.metrics import Signal

_NODE = "cluster, node"


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    return rows(
        parts.now(
            dialect,
            panel(
                "Silent exporters",
                "How many exporters that answered within a day do not answer now?",
                (dialect.silent_exporters(), "silent"),
                look=Look.STAT,
                width=parts.SMALL,
                bad_from=1,
            ),
        ),
        row(
            "What the agent says",
            judgement.saving_hours(),
            judgement.saving_money(),
            judgement.plan_age(),
            judgement.coverage(),
            judgement.findings(),
            judgement.workloads(),
            judgement.finding_list(),
        ),
        _use(dialect),
        _nodes(dialect),
        _over_time(dialect),
        _health(dialect),
    )


def _total(dialect: Dialect, what: str) -> str | None:
    series = dialect.level(Level.NODE, what)
    return None if series is None else f"sum({series})"


def _use(dialect: Dialect) -> Row | None:
    by_namespace = dialect.level(Level.NAMESPACE, "held")
    idle = dialect.level(Level.NAMESPACE, "idle")
    present = f"sum({dialect.node_series('gpus_present:sum')})"
    width = Signal.SM if isinstance(dialect, Native) else Signal.GRAPHICS
    signals = (Signal.KERNEL, width, Signal.TENSOR, Signal.DRAM, Signal.MEMCOPY)
    mean = dialect.node_series("activity:ratio_rate5m", signal="|".join(signals))
    return row(
        "Held and used",
        panel(
            "GPUs, held, used, idle, unknown",
            "How much of what is there is held, and how much of that is used? Needs the recording "
            "rules, as all panels over time on this dashboard do.",
            (present, "GPUs"),
            (_total(dialect, "held"), "held"),
            (_total(dialect, "used"), "used (kernels ran)"),
            (_total(dialect, "idle"), "idle (no kernel at all)"),
            (_total(dialect, "unknown"), "unknown"),
        ),
        panel(
            "Held by namespace",
            "Who holds the devices?",
            (_by_namespace(by_namespace), "{{namespace}}"),
            look=Look.STACK,
        ),
        panel(
            "Mean activity of all devices",
            "How busy are they: some kernel ran, against how much of the GPU it filled?",
            (f"avg by (signal) ({mean})", "{{signal}}"),
            unit="percentunit",
        ),
        panel(
            "Idle by namespace",
            "Who holds devices on which no kernel runs?",
            (_by_namespace(idle), "{{namespace}}"),
            look=Look.STACK,
        ),
    )


def _by_namespace(series: str | None) -> str | None:
    return None if series is None else f"sum by (namespace) ({series})"


def _nodes(dialect: Dialect) -> Row | None:
    activity = dialect.node_series("activity:ratio_rate5m", signal=Signal.KERNEL)
    sm = dialect.node_series("activity:ratio_rate5m", signal=Signal.SM)
    covered = (
        f"avg by ({_NODE}) ({coverage(dialect, _NODE)})" if isinstance(dialect, Native) else None
    )
    return row(
        "Nodes",
        panel(
            "Nodes now",
            "What does each node do? Choose a node to see its GPUs.",
            (_node(dialect.node_series("gpus_present:sum")), "GPUs"),
            (_node(dialect.level(Level.NODE, "held")), "held"),
            (_node(activity), "kernel"),
            (_node(sm) if isinstance(dialect, Native) else None, "sm"),
            (_node(dialect.node_series("memory:ratio")), "memory"),
            (_node(dialect.node_series("power_watts:sum")), "power"),
            (_node(dialect.node_series("temperature_celsius:max")), "hottest"),
            (covered, "coverage"),
            look=Look.TABLE,
            width=24,
            labels=("node",),
            unit="percentunit",
            units={"GPUs": "short", "held": "short", "power": "watt", "hottest": "celsius"},
        ),
    )


def _node(series: str | None) -> str | None:
    return None if series is None else f"sum by ({_NODE}) ({series})"


def _over_time(dialect: Dialect) -> Row | None:
    kernel = dialect.node_series("activity:ratio_rate5m", signal=Signal.KERNEL)
    power = dialect.node_series("power_watts:sum")
    return row(
        "Nodes over time",
        panel(
            "Kernel activity by node",
            "When do the GPUs of each node run some kernel?",
            (kernel, NODE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Memory in use by node",
            "How full is the memory of each node's GPUs?",
            (dialect.node_series("memory:ratio"), NODE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Power by node",
            "How much do the GPUs of each node draw? High power at no activity means that counters "
            "stopped.",
            (power, NODE_LEGEND),
            unit="watt",
        ),
        panel(
            "Energy by node",
            "How much energy did each node's GPUs draw over the chosen range?",
            (f"sum by ({_NODE}) (sum_over_time({power}[$__range:5m])) / 12000", "energy"),
            unit="kwatth",
            look=Look.TABLE,
            labels=("node",),
        ),
    )


def _health(dialect: Dialect) -> Row | None:
    return row(
        "Health",
        parts.xids(dialect),
        panel(
            "Missing GPUs",
            "How many GPUs should a driver show, by its kernel module, and does not?",
            (dialect.missing() if isinstance(dialect, Native) else None, "missing"),
        ),
    )


BOARD = Board(
    uid="gputailor-cluster",
    title="Cluster",
    description="GPUs of the cluster: held and used, waste by namespace, health.",
    place=1,
    scope=CLUSTER,
    variables=("cluster", "node", "namespace"),
    ask=questions,
    exporters=EVERY,
)
