"""What panels and rules ask of a dialect, and what every dialect has in common.

Words used throughout: a *device* is a GPU or a MIG instance; a *holder* is a container and a device
that it was handed; its *share* is 1, or its part of a device that several hold, so that sums over
holders never exceed the devices. *Busy* is the share of time in which a kernel ran. Whatever cannot
be read has no value: a ratio is taken only where its denominator rises.

``cluster`` is a label that only a store of several clusters has; where it is absent, it is empty
everywhere, and nothing changes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
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

    Clusters, nodes, GPUs, namespaces and pods are regular expressions, empty for all.
    """

    clusters: str = ""
    nodes: str = ""
    gpus: str = ""
    namespaces: str = ""
    pods: str = ""
    window: str = RATE_INTERVAL


CLUSTER: Final = Scope(clusters="$cluster", nodes="$node", namespaces="$namespace")
#: What recorded series of namespaces and workloads are chosen by.
BELONGING: Final = Scope(clusters="$cluster", namespaces="$namespace")
WORKLOAD: Final = Scope(clusters="$cluster", namespaces="$namespace", pods=f"$workload{POD_SUFFIX}")
DEVICES: Final = Scope(clusters="$cluster", nodes="$node", gpus="$gpu")
#: Recording rules and alerts know no variables.
RULES: Final = Scope(window="5m")

#: A legend that tells devices and MIG instances of all nodes apart.
DEVICE_LEGEND: Final = "{{cluster}} {{node}} GPU {{gpu}} {{slice}}"
NODE_LEGEND: Final = "{{cluster}} {{node}}"
HOLDER_LEGEND: Final = "{{namespace}}/{{pod}} {{container}} on " + DEVICE_LEGEND


class Level(StrEnum):
    """What numbers of devices are recorded by."""

    NODE = "node"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"


LEVEL_LABELS: Final = {
    Level.NODE: "cluster, node",
    Level.NAMESPACE: "cluster, namespace",
    Level.WORKLOAD: "cluster, namespace, workload",
}


def matchers(**labels: str) -> str:
    """Selector of the labels whose regular expression is not empty, with braces."""
    inside = ",".join(f'{name}=~"{value}"' for name, value in labels.items() if value)
    return f"{{{inside}}}" if inside else ""


def joined(selector: str, more: str) -> str:
    """Add matchers to a selector, which may be empty."""
    inside = selector.removeprefix("{").removesuffix("}")
    return "{" + ",".join(part for part in (inside, more) if part) + "}"


class Untold:
    """What an exporter may not tell: each answer is None until a dialect overrides it."""

    def lost(self, by: str = "") -> str | None:
        """Number of devices that stopped answering, 0 where all do."""

    def throttled(self) -> str | None:
        """Share of time that clocks were held down, by device and reason."""

    def xid_count(self) -> str | None:
        """Number of Xid errors by device and code since the exporter started."""

    def xid_last(self) -> str | None:
        """Last Xid by device: its time in milliseconds, or its code where no time is known."""

    def share(self) -> str | None:
        """Share of the device per holder; None where the exporter names no pods."""

    def activity(self, signal: str) -> str | None:
        """Mean of a signal per holder, 0..1, where it is known for this holder alone."""

    def busy(self) -> str | None:
        """Share of time in which the device ran a kernel, per holder."""

    def memory_used(self) -> str | None:
        """Bytes in use per holder."""

    def memory_peak_ratio(self) -> str | None:
        """Highest memory in use / memory of the device, per holder."""

    def holder_power(self) -> str | None:
        """Watts that fall to each holder."""


class Dialect(Untold, ABC):
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

    # -- variables: a Grafana query, and the regular expression that takes the value out ----------
    @property
    @abstractmethod
    def cluster_values(self) -> tuple[str, str]:
        """Names of the clusters."""

    @property
    @abstractmethod
    def node_values(self) -> tuple[str, str]:
        """Names of the nodes of $cluster."""

    @property
    @abstractmethod
    def gpu_values(self) -> tuple[str, str]:
        """Indexes of the GPUs of $node."""

    @property
    def namespace_values(self) -> tuple[str, str]:
        """Namespaces of $cluster that hold devices."""
        raise PodsNotNamedError(self.title)

    @property
    def pod_values(self) -> tuple[str, str]:
        """Workloads in $namespace, by the names of their pods."""
        raise PodsNotNamedError(self.title)

    # -- devices, labelled cluster, node, gpu, slice ---------------------------------------------
    @abstractmethod
    def gpus(self, by: str = "") -> str:
        """Number of GPUs that are seen; MIG instances are not counted."""

    @abstractmethod
    def device_activity(self, signal: str) -> str | None:
        """Mean of a signal per device, 0..1."""

    @abstractmethod
    def device_memory_ratio(self) -> str:
        """Memory in use / memory of the device."""

    @abstractmethod
    def device_memory(self, part: str) -> str | None:
        """Bytes per device: ``used``, ``total`` or ``reserved``."""

    @abstractmethod
    def device_power(self) -> str:
        """Watts per device."""

    @abstractmethod
    def temperature(self, sensor: str) -> str | None:
        """Degrees Celsius per device: sensor ``gpu`` or ``memory``."""

    @abstractmethod
    def clock(self, domain: str) -> str | None:
        """Clock in hertz per device: domain ``sm`` or ``memory``."""

    @abstractmethod
    def silent_exporters(self) -> str:
        """Number of exporters that do not answer, 0 where all do."""

    def named(self, holders: str) -> str:
        """Add ``gpu`` and ``slice``, for the legend, to a query whose result is per holder."""
        return holders

    # -- the same in every dialect ---------------------------------------------------------------
    def _holders(self, what: str) -> str | None:
        """Devices' worth per holder: ``held``, ``used``, ``idle``, or ``known`` (readable)."""
        share, busy = self.share(), self.busy()
        if share is None or busy is None:
            return None
        if what == "held":
            return share
        if what == "known":
            return f"({share}) and on ({self.holder_labels}) ({busy})"
        worth = busy if what == "used" else f"({busy}) == bool 0"
        return f"({worth}) * on ({self.holder_labels}) ({share})"

    def _summed(self, holders: str | None, by: str) -> str | None:
        if holders is None:
            return None
        if Level.WORKLOAD in by.split(", "):
            holders = f'label_replace({holders}, "workload", "$1", "pod", "{POD_NAME}")'
        return f"sum by ({by}) ({holders})"

    def held(self, by: str = "") -> str | None:
        """Devices held: GPUs and MIG instances, shares of shared ones added up."""
        return self._summed(self._holders("held"), by)

    def used(self, by: str = "") -> str | None:
        """Devices' worth of time in which kernels ran; holders that are unknown are left out."""
        return self._summed(self._holders("used"), by)

    def idle(self, by: str = "") -> str | None:
        """Devices held on which no kernel ran in the whole window; unknown is not idle."""
        return self._summed(self._holders("idle"), by)

    def unknown(self, by: str = "") -> str | None:
        """Devices held whose activity cannot be read; 0 where all held ones are read."""
        held, known = self.held(by), self._summed(self._holders("known"), by)
        if held is None or known is None:
            return None
        return f"{held} - ({known} or 0 * {held})"

    # -- what recording rules have written -------------------------------------------------------
    def level(self, level: Level, what: str) -> str | None:
        """Recorded number of devices ``held``, ``used``, ``idle`` or ``unknown`` by a level."""
        if self.share() is None:
            return None
        return f"{self.recorded}:{level}_gpus_{what}:sum{self._chosen(level)}"

    def _chosen(self, level: Level) -> str:
        scope = self.scope
        if level is Level.NODE:
            return matchers(cluster=scope.clusters, node=scope.nodes)
        return matchers(cluster=scope.clusters, namespace=scope.namespaces, team=self._team())

    def _team(self) -> str:
        """Of the boards that choose by namespace alone, the team is a variable, too."""
        return "$team" if self.scope == BELONGING else ""

    def node_series(self, name: str, **labels: str) -> str:
        """A series that is recorded by node, under ``recorded:node_NAME``."""
        scope = self.scope
        selector = matchers(cluster=scope.clusters, node=scope.nodes, **labels)
        return f"{self.recorded}:node_{name}{selector}"

    def hours(self, level: Level, what: str, by: str) -> str | None:
        """GPU-hours over the range of a recorded number of devices.

        One value every five minutes, each standing for 1/12 of an hour; a gap adds nothing.
        """
        series = self.level(level, what)
        if series is None:
            return None
        return f"sum by ({by}) (sum_over_time({series}[{RANGE}:5m])) / 12"


class PodsNotNamedError(LookupError):
    """A board asks for pods on an exporter that names none: a slip in the board's list."""

    def __init__(self, title: str) -> None:
        super().__init__(f"{title} names no pods: its boards have no variable of them")
