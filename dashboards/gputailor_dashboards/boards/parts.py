"""Rows that several boards have in common."""

from gputailor_dashboards.expressions.base import DEVICE_LEGEND, HOLDER_LEGEND, Dialect
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import UNKNOWN, Look, Panel, Row, panel, row
from gputailor_exporter import metrics as m
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


#: Columns of a number that stands alone.
SMALL = 4
_DIRECTION = f"{DEVICE_LEGEND} {{{{direction}}}}"


def now(dialect: Dialect, *more: Panel | None) -> Row | None:
    """How many GPUs are there, held, used, idle and lost; ``more`` follows in the row."""
    return row(
        "Now",
        _number("GPUs", "How many GPUs are seen? MIG instances are not counted.", dialect.gpus()),
        _number(
            "Held",
            "How many devices (GPUs and MIG instances) do containers hold?",
            _or_none_of(dialect.held(), dialect.gpus()),
        ),
        _number(
            "Used",
            "How many devices' worth of time do kernels run on what is held?",
            dialect.used(),
            nothing=NONE_HELD,
        ),
        _number(
            "Held, but idle",
            "On how many held devices did no kernel run in the last minutes? Unknown is not idle.",
            dialect.idle(),
            nothing=NONE_HELD,
            bad_from=1,
        ),
        _number("Lost or hung", "How many devices stopped answering?", dialect.lost(), bad_from=1),
        *more,
    )


#: Of a number that is taken of what is held.
NONE_HELD = "none held, or unknown"


def _or_none_of(held: str | None, gpus: str) -> str | None:
    """0 where GPUs are seen and none is held; still nothing where none is seen."""
    return None if held is None else f"{held} or 0 * {gpus}"


def _number(
    title: str,
    question: str,
    query: str | None,
    *,
    nothing: str = UNKNOWN,
    bad_from: float | None = None,
) -> Panel | None:
    return panel(
        title,
        question,
        (query, title.lower()),
        look=Look.STAT,
        width=SMALL,
        nothing=nothing,
        bad_from=bad_from,
    )


def xids(dialect: Dialect, width: int = 12) -> Panel | None:
    """Xid errors by GPU and code; what DCGM tells is the last code alone."""
    native = isinstance(dialect, Native)
    return panel(
        "Xid errors",
        "Which GPUs reported errors, how many since their exporter started, and when last?"
        if native
        else "Which error did each GPU report last? 0 is none; repeats cannot be seen by DCGM.",
        (dialect.xid_count(), "count"),
        (dialect.xid_last(), "last time" if native else "code"),
        look=Look.TABLE,
        width=width,
        labels=("node", "gpu", "xid") if native else ("node", "gpu", "slice"),
        unit="none",
        units={"last time": "dateTimeAsIso"},
    )


def pcie(dialect: Native) -> Panel | None:
    """Traffic over PCIe by device and direction."""
    return panel(
        "PCIe",
        "How much goes over PCIe, seen from the device?",
        (dialect.rate(m.DEVICE_PCIE_BYTES, "direction"), _DIRECTION),
        unit="Bps",
    )


def nvlink(dialect: Native, *more: tuple[str, str]) -> Panel | None:
    """Traffic over NVLink by device and direction; ``more`` queries with their legends."""
    return panel(
        "NVLink",
        "How much goes over NVLink?",
        (dialect.rate(m.DEVICE_NVLINK_BYTES, "direction"), _DIRECTION),
        *more,
        unit="Bps",
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
