"""Exporters and agent: is everything measured, read, judged and delivered?"""

from typing import Final

from gputailor_agent import metrics as agent
from gputailor_dashboards import judgement
from gputailor_dashboards.boards.board import Board
from gputailor_dashboards.expressions import contract
from gputailor_dashboards.expressions.base import NODE_LEGEND, Dialect, Scope, matchers
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter import metrics as m

_SCOPE: Final = Scope(clusters="$cluster", nodes="$node")
_SMALL: Final = 6
_SOURCE: Final = "{{instance}} {{source}}"


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    if not isinstance(dialect, Native):
        return ()
    return rows(
        _now(dialect), _exporters(dialect), _unreadable(dialect), _agent(dialect), _store(dialect)
    )


def _own(dialect: Native, family: m.Family, **labels: str) -> str:
    return family.name + matchers(cluster=dialect.scope.clusters, **labels)


def _rate(dialect: Native, family: m.Family) -> str:
    return f"rate({_own(dialect, family)}[{dialect.scope.window}])"


def _now(dialect: Native) -> Row | None:
    lag = f"time() - max({_own(dialect, agent.USAGE_END)})"
    return row(
        "Now",
        panel(
            "Silent exporters",
            "How many exporters that answered within a day do not answer now?",
            (dialect.silent_exporters(), "silent"),
            look=Look.STAT,
            width=_SMALL,
            bad_from=1,
        ),
        panel(
            "Usage read up to",
            "How far is the agent behind? More than two hours means that it is stuck.",
            (lag, "behind"),
            unit="s",
            look=Look.STAT,
            width=_SMALL,
            bad_from=7200,
        ),
        judgement.plan_age(),
        judgement.coverage(),
    )


def _exporters(dialect: Native) -> Row | None:
    cycle = contract.on_cluster(dialect, m.EXPORTER_CYCLE_DURATION)
    age = contract.on_cluster(dialect, m.EXPORTER_DEVICE_LAST_SUCCESS)
    version = contract.on_cluster(dialect, m.EXPORTER_BUILD_INFO)
    return row(
        "Exporters",
        panel(
            "Coverage by node",
            "How much of the time that devices were held was measured? The rest is unknown.",
            (dialect.node_series("coverage:ratio_rate5m"), NODE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Age of the last good read",
            "Which source (driver, kubelet) does an exporter fail to read?",
            (contract.source_age(dialect), _SOURCE),
            unit="s",
        ),
        panel(
            "Exporter errors per second",
            "What goes wrong in the exporters?",
            (contract.exporter_errors(dialect), f"{_SOURCE} {{{{reason}}}}"),
            unit="cps",
        ),
        panel(
            "Longest cycle",
            "How long does the slowest device of each exporter take to read?",
            (f"max by (instance) ({cycle})", "{{instance}}"),
            unit="s",
        ),
        panel(
            "Age of the oldest device reading",
            "Which exporter has a device that does not answer?",
            (f"time() - min by (instance) ({age})", "{{instance}}"),
            unit="s",
        ),
        panel(
            "Versions",
            "Which versions of the exporter run?",
            (f"count by (version) ({version})", "exporters"),
            look=Look.TABLE,
            labels=("version",),
        ),
    )


def _unreadable(dialect: Native) -> Row | None:
    failure = contract.on_cluster(dialect, m.EXPORTER_DEVICE_FAILURE)
    return row(
        "What is not seen",
        panel(
            "Signals that cannot be read",
            "Which signals are missing on how many devices, and why?",
            (contract.unavailable(dialect), "devices"),
            look=Look.TABLE,
            labels=("signal", "reason"),
        ),
        panel(
            "Devices that do not answer",
            "Which devices fail, and why? Empty: all answer.",
            (f"max by (instance, gpu_uuid, reason) ({failure}) == 1", "failing"),
            look=Look.TABLE,
            labels=("instance", "gpu_uuid", "reason"),
        ),
    )


def _agent(dialect: Native) -> Row | None:
    duration = _own(dialect, agent.JOB_DURATION)
    renamed = f'label_replace({duration}, "job", "$1", "exported_job", "(.+)")'
    success = _own(dialect, agent.LAST_SUCCESS)
    named = f'label_replace({success}, "job", "$1", "exported_job", "(.+)")'
    return row(
        "Agent",
        judgement.runs(),
        panel(
            "Time since each job went well",
            "Which job is overdue? rollup and recommend run every hour, report by its plan.",
            (f"time() - max by (job) ({named})", "{{job}}"),
            unit="s",
            width=8,
        ),
        panel(
            "Duration of jobs",
            "Which job takes long?",
            (f"max by (job) ({renamed})", "{{job}}"),
            unit="s",
            width=8,
        ),
        panel(
            "Failed runs by reason",
            "What goes wrong in the agent's jobs?",
            (f"sum by (reason) ({_rate(dialect, agent.JOB_ERRORS)})", "{{reason}}"),
            unit="cps",
            width=8,
        ),
        panel(
            "Rows written per second",
            "How much usage is kept?",
            (f"sum({_rate(dialect, agent.ROLLUP_ROWS)})", "rows"),
            unit="wps",
            width=8,
        ),
        panel(
            "Counters that were not believed",
            "What was wrong with what was read?",
            (f"sum by (problem) ({_rate(dialect, agent.ROLLUP_PROBLEMS)})", "{{problem}}"),
            unit="cps",
            width=8,
        ),
        panel(
            "Messages",
            "Do reports and notices arrive? given_up: somebody did not get one.",
            (f"sum by (state) ({_own(dialect, agent.LETTERS)})", "{{state}}"),
            width=24,
        ),
    )


def _store(dialect: Native) -> Row | None:
    return row(
        "Store",
        panel(
            "Size of the store",
            "How large is the file? Unknown where a database server keeps it.",
            (f"max({_own(dialect, agent.STORE_BYTES)})", "bytes"),
            unit="bytes",
            width=8,
        ),
        panel(
            "Transactions per second",
            "Does writing go well?",
            (f"sum by (outcome) ({_rate(dialect, agent.STORE_TRANSACTIONS)})", "{{outcome}}"),
            unit="ops",
            width=8,
        ),
        panel(
            "Failures of the store",
            "Is it full, locked, unreachable?",
            (f"sum by (reason) ({_rate(dialect, agent.STORE_ERRORS)})", "{{reason}}"),
            unit="cps",
            width=8,
        ),
    )


BOARD = Board(
    uid="gputailor-self",
    title="Exporters and agent",
    description="GPU Tailor itself: coverage, what cannot be read, jobs, store, delivery.",
    place=9,
    scope=_SCOPE,
    variables=("cluster", "node"),
    ask=questions,
)
