"""Node: what do its GPUs do, and who holds them?"""

from gputailor_dashboards.boards import parts
from gputailor_dashboards.boards.board import EVERY, Board
from gputailor_dashboards.expressions.base import DEVICES, Dialect
from gputailor_dashboards.expressions.native import DEVICE, Native
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter import metrics as m
from gputailor_exporter.metrics import Signal


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    return rows(
        parts.now(
            dialect,
            panel(
                "Power now",
                "How much do its GPUs draw together?",
                (f"sum({dialect.device_power()})", "power"),
                unit="watt",
                look=Look.STAT,
                width=parts.SMALL,
            ),
        ),
        _devices(dialect),
        parts.holders(dialect),
        parts.activity(dialect),
        parts.memory_and_power(dialect),
        row("Links", parts.pcie(dialect), parts.nvlink(dialect))
        if isinstance(dialect, Native)
        else None,
    )


def _devices(dialect: Dialect) -> Row | None:
    model = None
    if isinstance(dialect, Native):
        by = f"{DEVICE}, model, mig_profile, driver_version, cuda_version"
        model = dialect.sliced(f"max by ({by}) ({dialect.devices(m.DEVICE_INFO)})")
    return row(
        "Devices",
        panel(
            "Devices now",
            "What does each GPU or MIG instance do now? Choose a GPU to see all of it.",
            (dialect.device_activity(Signal.KERNEL), "kernel"),
            (dialect.device_activity(Signal.SM) if model else None, "sm"),
            (dialect.device_memory_ratio(), "memory"),
            (dialect.device_power(), "power"),
            (dialect.temperature("gpu"), "temperature"),
            look=Look.TABLE,
            width=24 if model is None else 12,
            labels=("node", "gpu", "slice"),
            unit="percentunit",
            units={"power": "watt", "temperature": "celsius"},
        ),
        panel(
            "Models and drivers",
            "Which models, MIG profiles and driver versions are there?",
            (model, "devices"),
            look=Look.TABLE,
            labels=("node", "gpu", "slice", "model", "mig_profile", "driver_version"),
        ),
    )


BOARD = Board(
    uid="gputailor-node",
    title="Node",
    description="The GPUs of one node: use, memory, power, links, and who holds them.",
    place=4,
    scope=DEVICES,
    variables=("cluster", "node", "gpu"),
    ask=questions,
    exporters=EVERY,
    one=("node",),
)
