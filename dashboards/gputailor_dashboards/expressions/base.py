"""What panels and rules ask of a dialect, and what every dialect has in common.

Words used throughout: a *device* is a GPU or a MIG instance; a *holder* is a container and a device
that it was handed; its *share* is 1, or its part of a device that several hold, so that sums over
holders never exceed the devices. *Busy* is the share of time in which a kernel ran. Whatever cannot
be read has no value: a ratio is taken only where its denominator rises.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

#: Letters that Kubernetes takes for generated names (no vowels, no 0, 1 or 3; apimachinery rand).
_RANDOM: Final = "bcdfghjklmnpqrstvwxz2456789"

#: What controllers add to a workload's name to name a pod: a role, then the hash of a template or
#: the time of a CronJob, then five random letters or a number. Go, Python, JavaScript agree.
POD_SUFFIX: Final = (
    "(?:-(?:master|worker|launcher|head|server))?"
    f"(?:-(?:[{_RANDOM}]{{8,10}}|[0-9]{{8,}}))?"
    f"(?:-(?:[{_RANDOM}]{{5}}|[0-9]{{1,4}}))?"
)
#: A pod's name; its first group is the workload's name as far as names tell.
POD_NAME: Final = f"(.+?){POD_SUFFIX}"

RATE_INTERVAL: Final = "$__rate_interval"
RANGE: Final = "$__range"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which series are asked for, and over which window a mean is taken.

    ``nodes``, ``namespaces`` and ``pods`` are regular expressions, empty for all.
    """

    nodes: str = ""
    namespaces: str = ""
    pods: str = ""
    window: str = RATE_INTERVAL


CLUSTER: Final = Scope(nodes="$node", namespaces="$namespace")
WORKLOAD: Final = Scope(namespaces="$namespace", pods=f"$workload{POD_SUFFIX}")
#: Recording rules and alerts know no variables.
RULES: Final = Scope(window="5m")

#: A legend that tells devices and MIG instances of all nodes apart.
DEVICE_LEGEND: Final = "{{node}} GPU {{gpu}} {{slice}}"
HOLDER_LEGEND: Final = "{{namespace}}/{{pod}} {{container}} on " + DEVICE_LEGEND


def matchers(**labels: str) -> str:
    """Selector of the labels whose regular expression is not empty, with braces."""
    inside = ",".join(f'{name}=~"{value}"' for name, value in labels.items() if value)
    return f"{{{inside}}}" if inside else ""


def joined(selector: str, more: str) -> str:
    """Add matchers to a selector, which may be empty."""
    inside = selector.removeprefix("{").removesuffix("}")
    return "{" + ",".join(part for part in (inside, more) if part) + "}"


class Dialect(ABC):
    """Queries of one exporter, within a scope. A query it cannot answer is None."""

    key: str
    title: str
    #: Prefix of the series that its recording rules write.
    recorded: str
    #: Labels that tell holders apart, and those of a device.
    holder_labels: str
    device_labels: str

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # -- variables ---------------------------------------------------------------------------
    @property
    @abstractmethod
    def node_values(self) -> tuple[str, str]:
        """Grafana query and regular expression that give the nodes' names."""

    @property
    @abstractmethod
    def namespace_values(self) -> tuple[str, str]:
        """Likewise the namespaces that hold devices."""

    @property
    @abstractmethod
    def pod_values(self) -> str:
        """Grafana query that gives the pods of $namespace; the workloads' names follow from it."""

    # -- devices, labelled node, gpu, slice ------------------------------------------------------
    @abstractmethod
    def gpus(self) -> str:
        """Number of GPUs that are seen; MIG instances are not counted."""

    @abstractmethod
    def lost(self) -> str | None:
        """Number of devices that stopped answering, 0 where all do."""

    @abstractmethod
    def device_activity(self, signal: str) -> str | None:
        """Mean of a signal per device, 0..1."""

    @abstractmethod
    def device_memory_ratio(self) -> str:
        """Memory in use / memory of the device."""

    @abstractmethod
    def device_power(self) -> str:
        """Watts per device."""

    @abstractmethod
    def energy_by_node(self) -> str:
        """Kilowatt hours by node over the dashboard's range."""

    @abstractmethod
    def throttled(self) -> str | None:
        """Share of time that clocks were held down, by device and reason."""

    @abstractmethod
    def xid_count(self) -> str | None:
        """Number of Xid errors by device and code within the range."""

    @abstractmethod
    def xid_last(self) -> str:
        """Last Xid by device: its time in milliseconds, or its code where no time is known."""

    # -- holders ---------------------------------------------------------------------------------
    @abstractmethod
    def share(self) -> str:
        """Share of the device per holder."""

    @abstractmethod
    def activity(self, signal: str) -> str | None:
        """Mean of a signal per holder, 0..1, where it is known for this holder alone."""

    @abstractmethod
    def busy(self) -> str:
        """Share of time in which the device ran a kernel, per holder."""

    @abstractmethod
    def memory_used(self) -> str:
        """Bytes in use per holder."""

    @abstractmethod
    def memory_peak_ratio(self) -> str:
        """Highest memory in use / memory of the device, per holder."""

    @abstractmethod
    def holder_power(self) -> str | None:
        """Watts that fall to each holder."""

    @abstractmethod
    def coverage_by_node(self) -> str | None:
        """Observed seconds / held seconds, by node."""

    @abstractmethod
    def silent_exporters(self) -> str:
        """Number of exporters that do not answer, 0 where all do."""

    # -- the same in every dialect ---------------------------------------------------------------
    @abstractmethod
    def named(self, holders: str) -> str:
        """Add ``gpu`` and ``slice``, for the legend, to a query whose result is per holder."""

    def times_share(self, holders: str) -> str:
        """Weigh a query per holder by the holder's share of its device."""
        return f"({holders}) * on ({self.holder_labels}) ({self.share()})"

    def held(self, by: str = "") -> str:
        """Devices held: GPUs and MIG instances, shares of shared ones added up."""
        return f"sum by ({by}) ({self.share()})"

    def used(self, by: str = "") -> str:
        """Devices' worth of time in which kernels ran; holders that are unknown are left out."""
        return f"sum by ({by}) ({self.times_share(self.busy())})"

    def idle(self, by: str = "") -> str:
        """Devices held on which no kernel ran in the whole window; unknown is not idle."""
        return f"sum by ({by}) ({self.times_share(f'({self.busy()}) == bool 0')})"

    def unknown(self, by: str = "") -> str:
        """Devices held whose activity cannot be read."""
        known = f"({self.share()}) and on ({self.holder_labels}) ({self.busy()})"
        return f"{self.held(by)} - (sum by ({by}) ({known}) or 0 * {self.held(by)})"

    def hours(self, what: str) -> str:
        """GPU-hours over the range of a recorded number of devices by namespace.

        One value every five minutes, each standing for 1/12 of an hour; a gap adds nothing.
        """
        series = f"{self.recorded}:namespace_gpus_{what}:sum" + matchers(
            namespace=self.scope.namespaces
        )
        return f"sum by (namespace) (sum_over_time({series}[{RANGE}:5m])) / 12"
