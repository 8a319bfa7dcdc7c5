"""Dashboard "GPU Tailor / Cluster": are the GPUs held, used, healthy, and who lets them idle?"""

from typing import Any, Final

from grafanalib.core import Dashboard, Time

from gputailor_dashboards import judgement, variables
from gputailor_dashboards.expressions.base import CLUSTER, DEVICE_LEGEND, Dialect
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import Look, Row, lay_out, panel, row, rows
from gputailor_dashboards.variables import uid
from gputailor_dashboards.workloads import UID as WORKLOAD_UID
from gputailor_exporter.metrics import Signal

UID: Final = "gputailor-cluster"
SCOPE: Final = CLUSTER
_SMALL: Final = 4


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    return rows(
        _summary(dialect),
        row(
            "What the agent says",
            judgement.saving_hours(),
            judgement.saving_money(),
            judgement.plan_age(),
            judgement.findings(),
            judgement.workloads(),
            judgement.finding_list(),
            judgement.failed_runs(),
        ),
        _use(dialect),
        _waste(dialect),
        _activity(dialect),
        _memory_and_power(dialect),
        _health(dialect),
        _exporters(dialect),
    )


def build(dialect: Dialect) -> Any:
    """Return the grafanalib dashboard."""
    native = isinstance(dialect, Native)
    return Dashboard(
        title="GPU Tailor / Cluster" + ("" if native else f" ({dialect.title})"),
        description="GPUs of the cluster: held and used, waste by namespace, health.",
        uid=uid(dialect, UID),
        tags=variables.tags(dialect),
        timezone="utc",
        refresh="1m",
        time=Time("now-24h", "now"),
        links=variables.links(dialect),
        templating=variables.cluster(dialect),
        panels=lay_out(questions(dialect)),
    )


def _summary(dialect: Dialect) -> Row | None:
    return row(
        "Now",
        panel(
            "GPUs",
            "How many GPUs are seen? MIG instances are not counted.",
            (dialect.gpus(), "GPUs"),
            look=Look.STAT,
            width=_SMALL,
        ),
        panel(
            "Held",
            "How many devices (GPUs and MIG instances) do containers hold?",
            (f"{dialect.held()} or 0 * {dialect.gpus()}", "held"),
            look=Look.STAT,
            width=_SMALL,
        ),
        panel(
            "Used",
            "How many devices' worth of time do kernels run on what is held?",
            (dialect.used(), "used"),
            look=Look.STAT,
            width=_SMALL,
        ),
        panel(
            "Held, but idle",
            "On how many held devices did no kernel run in the last minutes? Unknown is not idle.",
            (dialect.idle(), "idle"),
            look=Look.STAT,
            width=_SMALL,
        ),
        panel(
            "Lost or hung",
            "How many devices stopped answering?",
            (dialect.lost(), "lost"),
            look=Look.STAT,
            width=_SMALL,
        ),
        panel(
            "Silent exporters",
            "How many exporters that answered within a day do not answer now?",
            (dialect.silent_exporters(), "silent"),
            look=Look.STAT,
            width=_SMALL,
        ),
    )


def _use(dialect: Dialect) -> Row | None:
    return row(
        "Held and used",
        panel(
            "Held, used, idle, unknown",
            "How much of what is held is used? The rest is idle for part of the time.",
            (dialect.held(), "held"),
            (dialect.used(), "used (kernels ran)"),
            (dialect.idle(), "idle (no kernel at all)"),
            (dialect.unknown(), "unknown"),
        ),
        panel(
            "Held by namespace",
            "Who holds the devices?",
            (dialect.held("namespace"), "{{namespace}}"),
            look=Look.STACK,
        ),
        panel(
            "Mean activity of what is held",
            "How busy are held devices: some kernel ran, against how much of the GPU it filled?",
            *_means(dialect),
            unit="percentunit",
        ),
        panel(
            "Idle by namespace",
            "Who holds devices on which no kernel runs?",
            (dialect.idle("namespace"), "{{namespace}}"),
            look=Look.STACK,
        ),
    )


def _means(dialect: Dialect) -> tuple[tuple[str | None, str], ...]:
    """Kernel activity, and the width signal of the dialect: SM where it is on by default."""
    width = Signal.SM if isinstance(dialect, Native) else Signal.GRAPHICS
    found = []
    for signal in (Signal.KERNEL, width, Signal.TENSOR, Signal.DRAM):
        query = dialect.activity(signal)
        found.append((None if query is None else f"avg({query})", signal.value))
    return tuple(found)


def _waste(dialect: Dialect) -> Row | None:
    return row(
        "Waste by namespace",
        panel(
            "GPU-hours by namespace",
            "Over the chosen range: how many GPU-hours were held, used, idle, or not measured? "
            "Needs the recording rules that come with this dashboard.",
            (dialect.hours("held"), "held"),
            (dialect.hours("used"), "used"),
            (dialect.hours("idle"), "idle"),
            (dialect.hours("unknown"), "unknown"),
            look=Look.TABLE,
            labels=("namespace",),
            unit="h",
            leads_to=uid(dialect, WORKLOAD_UID),
        ),
        panel(
            "Share of held time that was idle",
            "Which namespace lets its GPUs idle most, over the chosen range? Needs the recording "
            "rules.",
            (f"{dialect.hours('idle')} / ({dialect.hours('held')} > 0)", "idle share"),
            look=Look.TABLE,
            labels=("namespace",),
            unit="percentunit",
            leads_to=uid(dialect, WORKLOAD_UID),
        ),
    )


def _activity(dialect: Dialect) -> Row | None:
    found = [
        panel(
            title,
            question,
            (dialect.device_activity(signal), DEVICE_LEGEND),
            unit="percentunit",
        )
        for signal, title, question in (
            (Signal.KERNEL, "Kernel activity", "When does some kernel run on each GPU?"),
            (
                Signal.GRAPHICS,
                "Graphics and compute engine",
                "When is the engine of each device busy? On MIG this replaces kernel activity.",
            ),
            (
                Signal.TENSOR,
                "Tensor activity",
                "Do the tensor cores work, or would mixed precision pay?",
            ),
            (Signal.DRAM, "Memory bandwidth", "Is the memory's bandwidth what holds it up?"),
        )
    ]
    sm = panel(
        "SM activity",
        "How much of each GPU do kernels fill? This, not kernel activity, says whether it is full.",
        (dialect.device_activity(Signal.SM), DEVICE_LEGEND),
        unit="percentunit",
    )
    if isinstance(dialect, Native):
        found.insert(1, sm)
    return row("Activity by device", *found)


def _memory_and_power(dialect: Dialect) -> Row | None:
    return row(
        "Memory, power, energy",
        panel(
            "Memory in use",
            "How full is each device's memory?",
            (dialect.device_memory_ratio(), DEVICE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Power",
            "How much does each GPU draw? High power at no activity means that counters stopped.",
            (dialect.device_power(), DEVICE_LEGEND),
            unit="watt",
        ),
        panel(
            "Energy by node",
            "How much energy did each node's GPUs draw over the chosen range?",
            (dialect.energy_by_node(), "energy"),
            unit="kwatth",
            look=Look.TABLE,
            labels=("node",),
        ),
    )


def _health(dialect: Dialect) -> Row | None:
    native = isinstance(dialect, Native)
    count, last = dialect.xid_count(), dialect.xid_last()
    return row(
        "Health",
        panel(
            "Xid errors",
            "Which GPUs reported errors, how many since their exporter started, and when last?",
            (count, "count"),
            (last, "last time"),
            look=Look.TABLE,
            labels=("node", "gpu", "xid"),
            units={"last time": "dateTimeAsIso"},
        )
        if native
        else panel(
            "Last Xid",
            "Which error did each GPU report last? 0 is none; repeats cannot be seen by DCGM.",
            (last, "xid"),
            look=Look.TABLE,
            labels=("node", "gpu", "slice"),
        ),
        panel(
            "Clocks held down",
            "Which GPUs are throttled, for what reason, for how much of the time?",
            (dialect.throttled(), f"{DEVICE_LEGEND} {{{{reason}}}}"),
            unit="percentunit",
        ),
        panel(
            "Missing GPUs",
            "How many GPUs should a driver show, by its kernel module, and does not?",
            (dialect.missing() if isinstance(dialect, Native) else None, "missing"),
        ),
    )


def _exporters(dialect: Dialect) -> Row | None:
    if not isinstance(dialect, Native):
        return None
    return row(
        "What is not seen",
        panel(
            "Coverage by node",
            "How much of the time that devices were held was measured? The rest is unknown.",
            (dialect.coverage_by_node(), "{{node}}"),
            unit="percentunit",
        ),
        panel(
            "Signals that cannot be read",
            "Which signals are missing on how many devices, and why?",
            (dialect.unavailable(), "devices"),
            look=Look.TABLE,
            labels=("signal", "reason"),
        ),
        panel(
            "Age of the last good read",
            "Which source (driver, kubelet) does an exporter fail to read?",
            (dialect.source_age(), "{{instance}} {{source}}"),
            unit="s",
        ),
        panel(
            "Exporter errors per second",
            "What goes wrong in the exporters?",
            (dialect.exporter_errors(), "{{instance}} {{source}} {{reason}}"),
            unit="cps",
        ),
    )
