"""Health: Xid and ECC errors, remapped rows, heat, links."""

from typing import Final

from gputailor_dashboards.boards import parts
from gputailor_dashboards.boards.board import EVERY, Board
from gputailor_dashboards.expressions import contract
from gputailor_dashboards.expressions.base import DEVICES, NODE_LEGEND, RANGE, Dialect
from gputailor_dashboards.expressions.dcgm import (
    PCIE_REPLAYS,
    REMAP_FAILURE,
    REMAPPED_CORRECTABLE,
    REMAPPED_UNCORRECTABLE,
    Dcgm,
)
from gputailor_dashboards.expressions.native import DEVICE, Native
from gputailor_dashboards.expressions.smi import Smi
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter import metrics as m

_SMALL: Final = 6
_GPU: Final = ("node", "gpu")
_RECENT: Final = f"{RANGE}:5m"


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    return rows(
        _summary(dialect),
        row("Xid errors", parts.xids(dialect, width=24)),
        _memory(dialect) if isinstance(dialect, Native) else _memory_of_others(dialect),
        _heat(dialect),
        _links(dialect) if isinstance(dialect, Native) else None,
        _alerts(dialect) if isinstance(dialect, Native) else None,
    )


def _summary(dialect: Dialect) -> Row | None:
    failed = pending = None
    if isinstance(dialect, Native):
        failed = f"sum({dialect.devices(m.DEVICE_REMAPPED_ROWS_FAILED)})"
        pending = f"sum({dialect.devices(m.DEVICE_REMAPPED_ROWS_PENDING)})"
    return row(
        "Now",
        panel(
            "Lost or hung",
            "How many devices stopped answering?",
            (dialect.lost(), "lost"),
            look=Look.STAT,
            width=_SMALL,
            bad_from=1,
        ),
        panel(
            "GPUs to replace",
            "How many could not remap a broken memory row? Unknown on cards without remapping.",
            (failed, "failed"),
            look=Look.STAT,
            width=_SMALL,
            bad_from=1,
        ),
        panel(
            "GPUs that wait for a reset",
            "How many take bad memory out of use only by a reset?",
            (pending, "pending"),
            look=Look.STAT,
            width=_SMALL,
            bad_from=1,
        ),
        panel(
            "Hottest GPU",
            "How hot is the hottest of all?",
            (f"max({dialect.temperature('gpu')})", "temperature"),
            unit="celsius",
            look=Look.STAT,
            width=_SMALL,
            bad_from=90,
        ),
    )


def _memory(dialect: Native) -> Row | None:
    ecc = dialect.node_series("ecc_errors:increase5m")
    return row(
        "Memory",
        panel(
            "ECC errors by node",
            "Where did memory fail over the chosen range? Uncorrected errors end what reads it.",
            (f"sum by (cluster, node, severity) (sum_over_time({ecc}[{_RECENT}]))", "errors"),
            look=Look.TABLE,
            labels=("node", "severity"),
            unit="none",
        ),
        panel(
            "ECC errors over time",
            "When did they happen, within five minutes each?",
            (ecc, f"{NODE_LEGEND} {{{{severity}}}}"),
        ),
        panel(
            "Memory rows and pages",
            "How many rows were remapped and pages retired, and is it over with (1: failed)?",
            (dialect.gauge(m.DEVICE_REMAPPED_ROWS_FAILED), "remap failed"),
            (dialect.gauge(m.DEVICE_REMAPPED_ROWS_PENDING), "remap pending"),
            (dialect.gauge(m.DEVICE_RETIRED_PAGES_PENDING), "retire pending"),
            look=Look.TABLE,
            width=24,
            labels=_GPU,
            unit="none",
        ),
    )


def _memory_of_others(dialect: Dialect) -> Row | None:
    queries: tuple[tuple[str | None, str], ...] = ()
    if isinstance(dialect, Dcgm):
        queries = (
            (dialect.devices(REMAP_FAILURE), "remap failed"),
            (dialect.devices(REMAPPED_UNCORRECTABLE), "rows, uncorrectable"),
            (dialect.devices(REMAPPED_CORRECTABLE), "rows, correctable"),
            (dialect.devices(PCIE_REPLAYS), "PCIe replays"),
        )
    if isinstance(dialect, Smi):
        queries = (
            (dialect.rows("failure"), "remap failed"),
            (dialect.rows("pending"), "remap pending"),
            (dialect.ecc("uncorrected"), "ECC, uncorrected"),
            (dialect.ecc("corrected"), "ECC, corrected"),
        )
    return row(
        "Memory and link",
        panel(
            "Memory rows and errors",
            "Which GPUs have failing memory? Counts since the driver was loaded or in all.",
            *queries,
            look=Look.TABLE,
            width=24,
            labels=_GPU,
            unit="none",
        ),
    )


def _heat(dialect: Dialect) -> Row | None:
    native = isinstance(dialect, Native)
    margin = (
        f"min by (cluster, node) ({contract.temperature_margin(dialect)})"
        if isinstance(dialect, Native)
        else None
    )
    held_down = dialect.node_series("throttled:ratio_rate5m") if native else dialect.throttled()
    return row(
        "Heat",
        panel(
            "Hottest GPU by node",
            "Which nodes run hot?",
            (dialect.node_series("temperature_celsius:max"), NODE_LEGEND),
            unit="celsius",
        ),
        panel(
            "Clocks held down",
            "Where are clocks held down, for what reason, in which part of the time?",
            (
                held_down,
                f"{NODE_LEGEND} {{{{reason}}}}"
                if native
                else "{{cluster}} {{node}} GPU {{gpu}} {{slice}} {{reason}}",
            ),
            unit="percentunit",
        ),
        panel(
            "Degrees left until it slows down",
            "How near is the hottest GPU of each node to its limit now?",
            (margin, "left"),
            look=Look.TABLE,
            labels=("node",),
            unit="celsius",
        ),
    )


def _links(dialect: Native) -> Row | None:
    errors = dialect.node_series("nvlink_errors:increase5m")
    info = dialect.devices(m.DEVICE_FABRIC)
    return row(
        "Links",
        panel(
            "PCIe lanes that are missing",
            "Which GPUs use fewer lanes than card and slot have?",
            (contract.narrow_links(dialect), "missing"),
            look=Look.TABLE,
            labels=_GPU,
            unit="none",
        ),
        panel(
            "NVLinks up",
            "Are all links up? 1 is up, 0 is down.",
            (dialect.gauge(m.DEVICE_NVLINK_UP, "link"), "up"),
            look=Look.TABLE,
            labels=("node", "gpu", "link"),
            unit="none",
        ),
        panel(
            "NVLink errors",
            "Where do links fail, within five minutes each?",
            (errors, f"{NODE_LEGEND} {{{{error}}}}"),
        ),
        panel(
            "Fabric",
            "Is each GPU registered with the NVSwitch fabric?",
            (f"max by ({DEVICE}, state, status, health) ({info})", "devices"),
            look=Look.TABLE,
            labels=("node", "gpu", "state", "status", "health"),
            unit="none",
        ),
    )


def _alerts(dialect: Native) -> Row | None:
    selector = 'alertname=~"Gpu.*",cluster=~"$cluster"'
    invalid = dialect.rate(m.DEVICE_INVALID_VALUES, "signal")
    return row(
        "Alerts",
        panel(
            "Alerts that fire or wait",
            "Which alerts are on, for which GPU? Empty: none, or the rules are not loaded.",
            (
                f"count by (alertname, alertstate, severity, node, gpu) (ALERTS{{{selector}}})",
                "alerts",
            ),
            look=Look.TABLE,
            width=16,
            labels=("alertname", "alertstate", "severity", "node", "gpu"),
            unit="none",
        ),
        panel(
            "Values that cannot be true",
            "Which values did exporters drop, how many a second?",
            (f"sum by (cluster, node, signal) ({invalid})", f"{NODE_LEGEND} {{{{signal}}}}"),
            unit="cps",
            width=8,
        ),
    )


BOARD = Board(
    uid="gputailor-health",
    title="Health",
    description="Xid and ECC errors, remapped rows, heat and links of GPUs.",
    place=8,
    scope=DEVICES,
    variables=("cluster", "node", "gpu"),
    ask=questions,
    exporters=EVERY,
)
