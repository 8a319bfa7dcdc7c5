"""Waste and cost: who pays for GPUs on which nothing runs, and what has become of advice?"""

from typing import Final

from gputailor_dashboards import judgement
from gputailor_dashboards.boards.board import WITH_PODS, Board
from gputailor_dashboards.expressions.base import (
    BELONGING,
    NODE_LEGEND,
    RANGE,
    Dialect,
    Level,
    matchers,
)
from gputailor_dashboards.panels import Look, Panel, Row, panel, row, rows

_SMALL: Final = 4
_MOST: Final = 50  # workloads in the table
_PARTS: Final = ("held", "used", "idle", "unknown")
_RULES: Final = "Needs the recording rules that come with this dashboard."


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    return rows(
        _sums(dialect),
        _tables(dialect),
        _over_time(dialect),
        row(
            "What the agent says",
            judgement.saving_hours(),
            judgement.saving_money(),
            judgement.plan_age(),
            judgement.coverage(),
            judgement.finding_list(),
        ),
        row(
            "What became of advice",
            judgement.ledger_states(),
            judgement.ledger_hours(),
            judgement.ledger_money(),
            judgement.ledger_precision(),
        ),
    )


def _whole(dialect: Dialect, what: str) -> str:
    hours = dialect.hours(Level.NAMESPACE, what, "cluster")
    return f"sum({hours})"


def _sums(dialect: Dialect) -> Row | None:
    stats = [
        panel(
            f"GPU-hours {what}",
            f"How many GPU-hours were {said} over the chosen range? {_RULES}",
            (_whole(dialect, what), what),
            unit="h",
            look=Look.STAT,
            width=_SMALL,
        )
        for what, said in (
            ("held", "held by containers"),
            ("used", "used: kernels ran"),
            ("idle", "held while no kernel ran for five minutes"),
            ("unknown", "held and not measured"),
        )
    ]
    share = f"{_whole(dialect, 'idle')} / ({_whole(dialect, 'held')} > 0)"
    return row(
        "Over the chosen range",
        *stats,
        panel(
            "Idle share",
            "Which part of what was held was idle?",
            (share, "idle"),
            unit="percentunit",
            look=Look.STAT,
            width=_SMALL,
            bad_from=0.3,
        ),
        panel(
            "Cost of what was idle",
            "What did idle GPU-hours cost, at the price that you set above? In your currency.",
            (f"$price * {_whole(dialect, 'idle')}", "cost"),
            unit="none",
            look=Look.STAT,
            width=_SMALL,
        ),
    )


def _hours_table(
    dialect: Dialect, title: str, question: str, level: Level, *labels: str
) -> Panel | None:
    by = ", ".join(("cluster", *labels))
    queries: list[tuple[str | None, str]] = [
        (dialect.hours(level, what, by), what) for what in _PARTS
    ]
    idle = dialect.hours(level, "idle", by)
    queries.append((f"$price * {idle}", "idle cost"))
    if level is Level.WORKLOAD:
        # The most wasteful ones decide which rows are shown.
        first = f"topk({_MOST}, {idle})"
        queries = [(f"({query}) and ({first})", name) for query, name in queries]
    return panel(
        title,
        question,
        *queries,
        look=Look.TABLE,
        width=24 if level is Level.WORKLOAD else 12,
        labels=labels,
        unit="h",
        units={"idle cost": "none"},
    )


def _tables(dialect: Dialect) -> Row | None:
    held = dialect.hours(Level.NAMESPACE, "held", "cluster, namespace")
    idle = dialect.hours(Level.NAMESPACE, "idle", "cluster, namespace")
    return row(
        "By team, namespace, workload",
        _hours_table(
            dialect,
            "GPU-hours by team",
            "Which team held, used, idled? The team is a label of the namespace, by "
            f"kube-state-metrics; blank: it has none. {_RULES}",
            Level.NAMESPACE,
            "team",
        ),
        _hours_table(
            dialect,
            "GPU-hours by namespace",
            "Over the chosen range: how many GPU-hours were held, used, idle, or not measured? "
            f"{_RULES}",
            Level.NAMESPACE,
            "namespace",
        ),
        _hours_table(
            dialect,
            "GPU-hours by workload",
            f"Which {_MOST} workloads waste most? By the names of pods; the report follows owners.",
            Level.WORKLOAD,
            "namespace",
            "workload",
        ),
        panel(
            "Share of held time that was idle",
            f"Which namespace lets its GPUs idle most, over the chosen range? {_RULES}",
            (f"{idle} / ({held} > 0)", "idle share"),
            look=Look.TABLE,
            labels=("namespace",),
            unit="percentunit",
        ),
        _free_table(dialect),
    )


def _nodes(dialect: Dialect, name: str) -> str:
    return f"{dialect.recorded}:node_{name}{matchers(cluster=dialect.scope.clusters)}"


def _free(dialect: Dialect, by: str) -> str:
    """GPUs that nobody holds; where nobody holds any, all are free."""
    present = f"sum by ({by}) ({_nodes(dialect, 'gpus_present:sum')})"
    held = f"sum by ({by}) ({_nodes(dialect, 'gpus_held:sum')})"
    return f"clamp_min({present} - ({held} or 0 * {present}), 0)"


def _free_table(dialect: Dialect) -> Panel | None:
    by = "cluster, node"
    return panel(
        "GPU-hours that nobody held",
        "Which nodes have GPUs that nobody asked for, over the chosen range? On a node with MIG "
        "instances an instance counts as a GPU: the rest is a lower bound.",
        (f"sum by ({by}) (sum_over_time(({_free(dialect, by)})[{RANGE}:5m])) / 12", "free"),
        look=Look.TABLE,
        labels=("node",),
        unit="h",
    )


def _over_time(dialect: Dialect) -> Row | None:
    idle, held = dialect.level(Level.NAMESPACE, "idle"), dialect.level(Level.NAMESPACE, "held")
    return row(
        "Over time",
        panel(
            "Idle by team",
            "Which team's devices run no kernel?",
            (f"sum by (team) ({idle})", "team {{team}}"),
            look=Look.STACK,
        ),
        panel(
            "Idle share by namespace",
            "Whose share of idle devices grows?",
            (
                f"sum by (namespace) ({idle}) / (sum by (namespace) ({held}) > 0)",
                "{{namespace}}",
            ),
            unit="percentunit",
        ),
        panel(
            "Free GPUs by node",
            "Where could a pending pod go?",
            (_free(dialect, "cluster, node"), NODE_LEGEND),
            look=Look.STACK,
            width=24,
        ),
    )


BOARD = Board(
    uid="gputailor-waste",
    title="Waste and cost",
    description="GPU-hours held, used, idle and unknown by team, namespace and workload; savings.",
    place=2,
    scope=BELONGING,
    variables=("cluster", "team", "namespace", "price"),
    ask=questions,
    exporters=WITH_PODS,
    since="now-7d",
)
