"""What a dialect owes the sources: for one series, where its value belongs on a ``Page``.

A dialect looks at a series once (its name and labels), not at each sample: the sources remember
the answer. Values stay in the unit of the contract; a dialect whose units differ gives a ``scale``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from gputailor_agent.model.usage import Device


class Field(StrEnum):
    """What a sample fills. The container's and the page's are fields of the model by that name."""

    # of a container and a device
    ALLOCATED = "allocated"
    SHARE = "share"
    ALLOCATED_SECONDS = "allocated_seconds"
    ACTIVE = "active"  # key: signal
    OBSERVED = "observed"  # key: signal
    HISTOGRAM = "histogram"  # key: signal; ``bound`` is the bucket's upper edge
    CONDITIONS = "conditions"  # key: condition
    LINK_BYTES = "link_bytes"  # key: "pcie/rx"
    MEMORY_USED = "memory_used_bytes"
    MEMORY_PEAK = "memory_peak_bytes"
    ENERGY = "energy_joules"
    LAST_ACTIVE = "last_active"
    # of a device
    INFO = "info"
    MEMORY_TOTAL = "memory_total_bytes"
    POWER_LIMIT = "power_limit_watts"
    UP = "up"
    DEVICE = "device"  # key: "throttled/hw_slowdown", "xid/79"; counts on for each of its holders
    # of the exporter
    PROCESS_STARTED = "process_started"
    PRESENCE = "presence"  # any other sample of this exporter: it proves whose page this is


class Holder(NamedTuple):
    """A container and the device it holds, as the labels name them."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    gpu_uuid: str


class Place(NamedTuple):
    """Where the value of one series belongs: exactly one of holder and device, or neither.

    ``device`` carries only what this one series says about the device; ``bound`` is the upper
    edge of a histogram bucket (``inf`` for the last).
    """

    field: Field
    key: str = ""
    holder: Holder | None = None
    device: Device | None = None
    bound: float | None = None
    scale: float = 1.0


class PlaceError(Exception):
    """A series of this dialect breaks its contract; the text says what was expected."""


class Dialect(Protocol):
    """One exporter's names. ``prefixes`` decide whose series it is; they must not overlap."""

    @property
    def name(self) -> str:
        """Name that usage rows carry."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Beginnings of this exporter's metric names."""

    def place(self, sample: str, labels: Mapping[str, str], cluster: str) -> Place | None:
        """Where the series belongs; None when the page needs nothing of it.

        Raises ``PlaceError`` when labels that the contract promises are missing.
        """
