"""Workload: what do its pods do with the GPUs they hold?"""

from typing import Final

from gputailor_dashboards.boards import parts
from gputailor_dashboards.boards.board import WITH_PODS, Board
from gputailor_dashboards.expressions import contract
from gputailor_dashboards.expressions.base import HOLDER_LEGEND, WORKLOAD, Dialect
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter.metrics import Signal

_SMALL: Final = 6
_PLACE: Final = ("namespace", "pod", "container", "node", "gpu", "slice")


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    return rows(
        _summary(dialect),
        _drill_down(dialect),
        _activity(dialect),
        _memory_and_power(dialect),
        _inside_seconds(dialect) if isinstance(dialect, Native) else None,
    )


def _summary(dialect: Dialect) -> Row | None:
    return row(
        "Now",
        panel(
            "Held",
            "How many devices does it hold?",
            (dialect.held(), "held"),
            look=Look.STAT,
            width=_SMALL,
            nothing=parts.NONE_HELD,
        ),
        panel(
            "Used",
            "How many devices' worth of time do kernels run?",
            (dialect.used(), "used"),
            look=Look.STAT,
            width=_SMALL,
        ),
        panel(
            "Held, but idle",
            "On how many of its devices did no kernel run in the last minutes?",
            (dialect.idle(), "idle"),
            look=Look.STAT,
            width=_SMALL,
        ),
        panel(
            "Highest memory",
            "How near is the fullest of its devices to the end of its memory, at the peak?",
            (f"max({dialect.memory_peak_ratio()})", "peak"),
            unit="percentunit",
            look=Look.STAT,
            width=_SMALL,
        ),
    )


def _drill_down(dialect: Dialect) -> Row | None:
    width = Signal.SM if isinstance(dialect, Native) else Signal.GRAPHICS
    idle = contract.idle_seconds(dialect) if isinstance(dialect, Native) else None
    return row(
        "By pod, container and device",
        panel(
            "Now, by device",
            "What does each container do with each device now? A blank is unknown.",
            (parts.named(dialect, dialect.share()), "share held"),
            (parts.named(dialect, dialect.activity(Signal.KERNEL)), "kernel"),
            (parts.named(dialect, dialect.activity(width)), width.value),
            (parts.named(dialect, dialect.activity(Signal.TENSOR)), "tensor"),
            (parts.named(dialect, dialect.memory_peak_ratio()), "memory peak"),
            (parts.named(dialect, dialect.holder_power()), "power"),
            (parts.named(dialect, idle), "idle since"),
            look=Look.TABLE,
            labels=_PLACE,
            unit="percentunit",
            units={"share held": "short", "power": "watt", "idle since": "s"},
            width=24,
        ),
    )


def _activity(dialect: Dialect) -> Row | None:
    return row(
        "Activity",
        *(
            panel(
                title,
                question,
                (parts.named(dialect, dialect.activity(signal)), HOLDER_LEGEND),
                unit="percentunit",
            )
            for signal, title, question in _shown(dialect)
        ),
        panel(
            "Held and used by pod",
            "Do all pods use what they hold, or is one replica enough?",
            (dialect.held("namespace, pod"), "{{namespace}}/{{pod}} held"),
            (dialect.used("namespace, pod"), "{{namespace}}/{{pod}} used"),
        ),
    )


def _shown(dialect: Dialect) -> tuple[tuple[Signal, str, str], ...]:
    second = (
        (Signal.SM, "SM activity", "How much of the GPU do its kernels fill?")
        if isinstance(dialect, Native)
        else (
            Signal.GRAPHICS,
            "Graphics and compute engine",
            "When is the engine busy? On MIG this replaces kernel activity.",
        )
    )
    return (
        (Signal.KERNEL, "Kernel activity", "When does a kernel of it run?"),
        second,
        (Signal.TENSOR, "Tensor activity", "Does it use the tensor cores?"),
        (Signal.DRAM, "Memory bandwidth", "Is memory bandwidth what holds it up?"),
    )


def _memory_and_power(dialect: Dialect) -> Row | None:
    return row(
        "Memory and power",
        panel(
            "Memory in use",
            "How much GPU memory does it use? Frameworks take more than they need.",
            (parts.named(dialect, dialect.memory_used()), HOLDER_LEGEND),
            unit="bytes",
        ),
        panel(
            "Memory peak against the device's memory",
            "Would a smaller GPU or a slice do? The peak counts, not the mean.",
            (parts.named(dialect, dialect.memory_peak_ratio()), HOLDER_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Power",
            "How much power falls to it?",
            (parts.named(dialect, dialect.holder_power()), HOLDER_LEGEND),
            unit="watt",
        ),
    )


def _inside_seconds(dialect: Native) -> Row | None:
    return row(
        "Inside the minutes",
        panel(
            "Seconds without a kernel",
            "In which share of all seconds did nothing run at all? High beside a high mean: it "
            "waits for input.",
            (parts.named(dialect, contract.seconds_at_zero(dialect, Signal.KERNEL)), HOLDER_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Joint conditions",
            "How often was it fit for mixed precision, waiting inside a busy minute, or bound by a "
            "link?",
            (
                parts.named(dialect, contract.condition(dialect)),
                f"{HOLDER_LEGEND}: {{{{condition}}}}",
            ),
            unit="percentunit",
        ),
        panel(
            "Link traffic",
            "How much goes over PCIe and NVLink?",
            (
                parts.named(dialect, contract.link_bytes(dialect)),
                f"{HOLDER_LEGEND}: {{{{link}}}} {{{{direction}}}}",
            ),
            unit="Bps",
        ),
        panel(
            "Coverage",
            "How much of the time that it held devices was measured?",
            (contract.coverage(dialect, "namespace, pod"), "{{namespace}}/{{pod}}"),
            unit="percentunit",
        ),
    )


BOARD = Board(
    uid="gputailor-workload",
    title="Workload",
    description="One workload's GPUs, by pod, container and device.",
    place=3,
    scope=WORKLOAD,
    variables=("cluster", "namespace", "workload"),
    ask=questions,
    exporters=WITH_PODS,
    one=("workload",),
)
