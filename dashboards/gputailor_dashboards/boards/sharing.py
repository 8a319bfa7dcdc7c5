"""MIG and sharing: which slices and replicas are taken, and does anybody starve?"""

from gputailor_dashboards.boards import parts
from gputailor_dashboards.boards.board import WITH_PODS, Board
from gputailor_dashboards.expressions import contract
from gputailor_dashboards.expressions.base import DEVICE_LEGEND, DEVICES, HOLDER_LEGEND, Dialect
from gputailor_dashboards.expressions.dcgm import Dcgm
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.panels import Look, Row, panel, row, rows
from gputailor_exporter.metrics import Signal

_PROFILE = "{{cluster}} {{node}} {{mig_profile}}"


def questions(dialect: Dialect) -> tuple[Row, ...]:
    """Return the dashboard's rows of panels on this dialect."""
    if isinstance(dialect, Native):
        return rows(_instances(dialect), _shared(dialect), parts.holders(dialect))
    if isinstance(dialect, Dcgm):
        return rows(_instances_of_dcgm(dialect), parts.holders(dialect))
    return ()


def _instances(dialect: Native) -> Row | None:
    only = f"and on ({dialect.device_labels}) ({contract.instances(dialect)})"
    return row(
        "MIG instances",
        panel(
            "Instances by profile",
            "How many instances of each profile are there, and how many are held?",
            (contract.instances_by_profile(dialect), "instances"),
            (contract.instances_held(dialect), "held"),
            look=Look.TABLE,
            labels=("node", "mig_profile"),
        ),
        panel(
            "Instances held by profile",
            "Which profiles are asked for?",
            (contract.instances_held(dialect), _PROFILE),
            look=Look.STACK,
        ),
        panel(
            "SM activity by instance",
            "How much of its slice does each instance use?",
            (f"({dialect.device_activity(Signal.SM)}) {only}", DEVICE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Memory by instance",
            "How full is the memory of each slice? Would a smaller profile do?",
            (f"({dialect.device_memory_ratio()}) {only}", DEVICE_LEGEND),
            unit="percentunit",
        ),
    )


def _shared(dialect: Native) -> Row | None:
    return row(
        "Time slices and MPS",
        panel(
            "Containers per GPU",
            "How many share each GPU?",
            (contract.sharers(dialect), DEVICE_LEGEND),
        ),
        panel(
            "Part handed out",
            "How much of each shared GPU is taken? 1 is all of it.",
            (contract.share_taken(dialect), DEVICE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Kernel activity of sharers",
            "Who of them uses it? By process, so that the parts add up to the GPU's.",
            (contract.shared_activity(dialect, Signal.KERNEL), HOLDER_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Memory of sharers",
            "Who fills the memory? Nothing keeps them apart on time slices.",
            (contract.shared_memory(dialect), HOLDER_LEGEND),
            unit="bytes",
            look=Look.STACK,
        ),
    )


def _instances_of_dcgm(dialect: Dcgm) -> Row | None:
    return row(
        "MIG instances and shared GPUs",
        panel(
            "Instances by profile",
            "How many instances of each profile are there?",
            (dialect.instances(), "instances"),
            look=Look.TABLE,
            labels=("node", "mig_profile"),
        ),
        panel(
            "Pods per GPU",
            "How many share each GPU? DCGM's value there belongs to no single pod.",
            (dialect.sharers(), DEVICE_LEGEND),
        ),
        panel(
            "Graphics and compute engine",
            "When is the engine of each device busy? On MIG this replaces kernel activity.",
            (dialect.device_activity(Signal.GRAPHICS), DEVICE_LEGEND),
            unit="percentunit",
        ),
        panel(
            "Memory in use",
            "How full is each device's memory?",
            (dialect.device_memory_ratio(), DEVICE_LEGEND),
            unit="percentunit",
        ),
    )


BOARD = Board(
    uid="gputailor-sharing",
    title="MIG and sharing",
    description="MIG instances, time slices and MPS: what is taken, and what is used of it.",
    place=6,
    scope=DEVICES,
    variables=("cluster", "node", "gpu"),
    ask=questions,
    exporters=WITH_PODS,
    one=("node",),
)
