"""Rows that boards of a node, of a GPU and of sharing have in common."""

from gputailor_dashboards.expressions.base import DEVICE_LEGEND, HOLDER_LEGEND, Dialect
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import Look, Row, panel, row
from gputailor_exporter.metrics import Signal

_SIGNALS = (
    (Signal.KERNEL, "Kernel activity", "When does some kernel run on each GPU?"),
    (
        Signal.SM,
        "SM activity",
        "How much of each GPU do kernels fill? This, not kernel activity, says whether it is full.",
    ),
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
    (
        Signal.MEMCOPY,
        "Time memory was read or written",
        "In which part of the time was memory touched at all? It says nothing of how much.",
    ),
)


def named(dialect: Dialect, query: str | None) -> str | None:
    """The query per holder with ``gpu`` and ``slice`` added; None stays None."""
    return None if query is None else dialect.named(query)


def holders(dialect: Dialect) -> Row | None:
    """Who holds which device now."""
    return row(
        "Who holds it",
        panel(
            "Containers now",
            "Which container holds which device, and what does it do with it? A blank is unknown.",
            (named(dialect, dialect.share()), "share held"),
            (named(dialect, dialect.activity(Signal.KERNEL)), "kernel"),
            (named(dialect, dialect.memory_peak_ratio()), "memory peak"),
            look=Look.TABLE,
            width=24,
            labels=("namespace", "pod", "container", "node", "gpu", "slice"),
            unit="percentunit",
            units={"share held": "short"},
        ),
        panel(
            "Kernel activity by container",
            "When did each container's kernels run?",
            (named(dialect, dialect.activity(Signal.KERNEL)), HOLDER_LEGEND),
            unit="percentunit",
            width=24,
        ),
    )


def activity(dialect: Dialect) -> Row | None:
    """Signals by device, as far as the exporter has them by default."""
    off = set() if isinstance(dialect, Native) else {Signal.SM}
    return row(
        "Activity",
        *(
            panel(
                title,
                question,
                (dialect.device_activity(signal), DEVICE_LEGEND),
                unit="percentunit",
            )
            for signal, title, question in _SIGNALS
            if signal not in off
        ),
    )


def memory_and_power(dialect: Dialect) -> Row | None:
    """Memory, power, temperature and clocks by device."""
    reason = f"{DEVICE_LEGEND} {{{{reason}}}}"
    return row(
        "Memory, power, temperature, clocks",
        panel(
            "Memory in use",
            "How full is each device's memory?",
            (dialect.device_memory("used"), DEVICE_LEGEND),
            unit="bytes",
        ),
        panel(
            "Power",
            "How much does each GPU draw? High power at no activity means that counters stopped.",
            (dialect.device_power(), DEVICE_LEGEND),
            unit="watt",
        ),
        panel(
            "Temperature",
            "How hot is each GPU?",
            (dialect.temperature("gpu"), DEVICE_LEGEND),
            unit="celsius",
        ),
        panel(
            "SM clock",
            "Do the clocks stay up under load?",
            (dialect.clock("sm"), DEVICE_LEGEND),
            unit="hertz",
        ),
        panel(
            "Clocks held down",
            "Which GPUs are throttled, for what reason, for how much of the time?",
            (dialect.throttled(), reason),
            unit="percentunit",
        ),
    )
