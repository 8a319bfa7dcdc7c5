"""GPU: everything that is known of one device, and of the MIG instances on it."""

from gputailor_dashboards.boards import parts
from gputailor_dashboards.boards.board import EVERY, Board
from gputailor_dashboards.expressions.base import DEVICE_LEGEND, DEVICES, Dialect
from gputailor_dashboards.expressions.contract import unattributed
from gputailor_dashboards.expressions.native import DEVICE, Native
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter import metrics as m
from gputailor_exporter.metrics import Signal


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    return rows(
        _identity(dialect),
        _signals(dialect) or parts.activity(dialect),
        _memory(dialect),
        _power(dialect),
        _links(dialect),
        _errors(dialect),
        parts.holders(dialect),
    )


def _identity(dialect: Dialect) -> Row | None:
    if not isinstance(dialect, Native):
        return None
    more = "model, architecture, compute_capability, mig_profile, driver_version, cuda_version"
    by = f"{DEVICE}, {more}"
    mode = dialect.gauge(m.DEVICE_MODE_ENABLED, "mode")
    return row(
        "What it is",
        panel(
            "Identity",
            "Which model, architecture, driver and CUDA version?",
            (dialect.sliced(f"max by ({by}) ({dialect.devices(m.DEVICE_INFO)})"), "devices"),
            look=Look.TABLE,
            width=16,
            labels=("node", "gpu", "slice", "gpu_uuid", *more.split(", ")),
        ),
        panel(
            "Modes",
            "Are ECC, MIG and persistence on (1) or off (0)?",
            (mode, "on"),
            look=Look.TABLE,
            width=8,
            labels=("mode",),
        ),
    )


def _signals(dialect: Dialect) -> Row | None:
    if not isinstance(dialect, Native):
        return None
    legend = f"{DEVICE_LEGEND} {{{{signal}}}}"
    return row(
        "Activity",
        panel(
            "All signals",
            "Which units of the GPU work, and when? SM against kernel says how full it is.",
            (dialect.sliced(dialect.every_signal()), legend),
            unit="percentunit",
            width=24,
        ),
        panel(
            "Kernel activity that belongs to no container",
            "Does somebody use the GPU whom kubelet does not know?",
            (unattributed(dialect, Signal.KERNEL), DEVICE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Memory that belongs to no container",
            "Is memory held by processes outside of pods?",
            (dialect.gauge(m.DEVICE_UNATTRIBUTED_MEMORY), DEVICE_LEGEND),
            unit="bytes",
        ),
    )


def _memory(dialect: Dialect) -> Row | None:
    return row(
        "Memory",
        panel(
            "Memory",
            "How much is there, in use, and kept by the driver?",
            (dialect.device_memory("total"), f"{DEVICE_LEGEND} total"),
            (dialect.device_memory("used"), f"{DEVICE_LEGEND} used"),
            (dialect.device_memory("reserved"), f"{DEVICE_LEGEND} reserved"),
            unit="bytes",
            width=24,
        ),
    )


def _power(dialect: Dialect) -> Row | None:
    native = isinstance(dialect, Native)
    limit = dialect.gauge(m.DEVICE_POWER_LIMIT) if isinstance(dialect, Native) else None
    clock_max = (
        dialect.gauge(m.DEVICE_CLOCK_MAX, domain="sm") if isinstance(dialect, Native) else None
    )
    heat = (
        dialect.gauge(m.DEVICE_TEMPERATURE_LIMIT, "limit") if isinstance(dialect, Native) else None
    )
    fan = dialect.gauge(m.DEVICE_FAN_SPEED) if isinstance(dialect, Native) else None
    memory_heat = None if native else dialect.temperature("memory")
    return row(
        "Power, temperature, clocks",
        panel(
            "Power and its limit",
            "How much does it draw, and how much may it?",
            (dialect.device_power(), f"{DEVICE_LEGEND} now"),
            (limit, f"{DEVICE_LEGEND} limit"),
            unit="watt",
        ),
        panel(
            "Temperature and its limits",
            "How near is it to slowing down?",
            (dialect.temperature("gpu"), f"{DEVICE_LEGEND} GPU"),
            (memory_heat, f"{DEVICE_LEGEND} memory"),
            (heat, f"{DEVICE_LEGEND} limit {{{{limit}}}}"),
            unit="celsius",
        ),
        panel(
            "Clocks",
            "Do SM and memory clock stay up under load?",
            (dialect.clock("sm"), f"{DEVICE_LEGEND} SM"),
            (dialect.clock("memory"), f"{DEVICE_LEGEND} memory"),
            (clock_max, f"{DEVICE_LEGEND} SM at most"),
            unit="hertz",
        ),
        panel(
            "Clocks held down",
            "What holds the clocks down, for how much of the time?",
            (dialect.throttled(), f"{DEVICE_LEGEND} {{{{reason}}}}"),
            unit="percentunit",
        ),
        panel(
            "Fan",
            "How fast are the fans told to run?",
            (fan, DEVICE_LEGEND),
            unit="percentunit",
        ),
    )


def _links(dialect: Dialect) -> Row | None:
    if not isinstance(dialect, Native):
        return None
    return row(
        "Links",
        parts.pcie(dialect),
        panel(
            "PCIe link",
            "Generation and lanes now, and at most? Generation falls while nothing is sent.",
            (dialect.gauge(m.DEVICE_PCIE_GENERATION), f"{DEVICE_LEGEND} generation"),
            (dialect.gauge(m.DEVICE_PCIE_GENERATION_MAX), f"{DEVICE_LEGEND} generation at most"),
            (dialect.gauge(m.DEVICE_PCIE_WIDTH), f"{DEVICE_LEGEND} lanes"),
            (dialect.gauge(m.DEVICE_PCIE_WIDTH_MAX), f"{DEVICE_LEGEND} lanes at most"),
        ),
        parts.nvlink(
            dialect, (dialect.gauge(m.DEVICE_NVLINK_CAPACITY), f"{DEVICE_LEGEND} at most")
        ),
    )


def _errors(dialect: Dialect) -> Row | None:
    if not isinstance(dialect, Native):
        return None
    return row(
        "Errors",
        panel(
            "ECC errors per second",
            "Does memory fail? Uncorrected errors end what reads it.",
            (
                dialect.rate(m.DEVICE_ECC_ERRORS, "severity"),
                f"{DEVICE_LEGEND} {{{{severity}}}}",
            ),
            unit="cps",
        ),
        parts.xids(dialect),
    )


BOARD = Board(
    uid="gputailor-gpu",
    title="GPU",
    description="One GPU and the MIG instances on it, in every detail.",
    place=5,
    scope=DEVICES,
    variables=("cluster", "node", "gpu"),
    ask=questions,
    exporters=EVERY,
    one=("node", "gpu"),
)
