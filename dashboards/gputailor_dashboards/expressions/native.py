"""Queries on GPU Tailor's own exporter: devices and holders.

A mean is rate(active) / rate(observed), over observed time only: both counters stand still where a
signal cannot be read, and ``> 0`` then drops the series instead of dividing 0 by 0. ``rate`` rounds
at a window's edges, which is good enough for eyes; reports use boundary samples instead.
"""

from typing import Final

from gputailor_dashboards.expressions.base import POD_NAME, Dialect, joined, matchers
from gputailor_exporter import metrics as m

DEVICE: Final = ", ".join(("cluster", *m.DEVICE_LABELS))
HOLDER: Final = ", ".join(("cluster", *m.CONTAINER_LABELS))
DEVICE_KEY: Final = "cluster, node, gpu_uuid"
ON_DEVICE: Final = f"on ({DEVICE_KEY})"
#: Where kernel activity cannot be read (MIG), SM activity answers whether something ran.
BUSY_SIGNALS: Final = (m.Signal.KERNEL, m.Signal.SM)
#: How long an exporter is remembered after its last good scrape.
MEMORY: Final = "1d"
_ON_CLUSTER: Final = '{cluster=~"$cluster"}'
_MEMORY_PARTS: Final = {
    "used": m.DEVICE_MEMORY_USED,
    "total": m.DEVICE_MEMORY_TOTAL,
    "reserved": m.DEVICE_MEMORY_RESERVED,
}


def silent(series: str) -> str:
    """Number of targets that wrote ``series`` within a day and do not answer, 0 where all do."""
    return f"sum((up == bool 0) and on (job, instance) last_over_time({series}[{MEMORY}]))"


class Native(Dialect):
    """GPU Tailor's exporter."""

    key = "gputailor"
    title = "GPU Tailor exporter"
    recorded = "gputailor"
    holder_labels = HOLDER
    device_labels = DEVICE

    def _chosen_devices(self, **labels: str) -> str:
        scope = self.scope
        chosen = {"cluster": scope.clusters, "node": scope.nodes, "gpu": scope.gpus}
        return matchers(**chosen, **labels)

    def devices(self, family: m.Family, **labels: str) -> str:
        """Series of devices within the scope."""
        return family.name + self._chosen_devices(**labels)

    def holders(self, family: m.Family, suffix: str = "", **labels: str) -> str:
        """Series of holders within the scope."""
        scope = self.scope
        chosen = {"cluster": scope.clusters, "node": scope.nodes}
        if not scope.gpus:
            chosen |= {"namespace": scope.namespaces, "pod": scope.pods}
        return family.name + suffix + matchers(**chosen, **labels)

    def mean(self, active: str, observed: str, by: str) -> str:
        """Mean of a signal over observed time, by these labels."""
        window = self.scope.window
        return (
            f"sum by ({by}) (rate({active}[{window}]))"
            f" / (sum by ({by}) (rate({observed}[{window}])) > 0)"
        )

    @staticmethod
    def sliced(query: str) -> str:
        """Name MIG instances by the start of their UUID; their ``gpu`` is their parent's."""
        return f'label_replace({query}, "slice", "$1", "gpu_uuid", "(MIG-.{{8}}).*")'

    def gauge(self, family: m.Family, *labels: str, **chosen: str) -> str:
        """A gauge of devices, by device and further labels."""
        by = ", ".join((DEVICE, *labels))
        return self.sliced(f"max by ({by}) ({self.devices(family, **chosen)})")

    def rate(self, family: m.Family, *labels: str, **chosen: str) -> str:
        """Rise per second of a counter of devices, by device and further labels."""
        by = ", ".join((DEVICE, *labels))
        series = self.devices(family, **chosen)
        return self.sliced(f"max by ({by}) (rate({series}[{self.scope.window}]))")

    # -- variables -------------------------------------------------------------------------------
    @property
    def cluster_values(self) -> tuple[str, str]:
        """Names of the clusters."""
        return f"label_values({m.DEVICE_INFO.name}, cluster)", ""

    @property
    def node_values(self) -> tuple[str, str]:
        """Names of the nodes of $cluster."""
        return f"label_values({m.DEVICE_INFO.name}{_ON_CLUSTER}, node)", ""

    @property
    def gpu_values(self) -> tuple[str, str]:
        """Indexes of the GPUs of $node."""
        selector = '{cluster=~"$cluster",node=~"$node"}'
        return f"label_values({m.DEVICE_INFO.name}{selector}, gpu)", ""

    @property
    def namespace_values(self) -> tuple[str, str]:
        """Namespaces of $cluster that hold devices."""
        return f"label_values({m.CONTAINER_ALLOCATED_SECONDS.name}{_ON_CLUSTER}, namespace)", ""

    @property
    def pod_values(self) -> tuple[str, str]:
        """Workloads in $namespace, by the names of their pods."""
        selector = '{cluster=~"$cluster",namespace=~"$namespace"}'
        query = f"label_values({m.CONTAINER_ALLOCATED_SECONDS.name}{selector}, pod)"
        return query, f"/^{POD_NAME}$/"

    # -- devices ---------------------------------------------------------------------------------
    def gpus(self, by: str = "") -> str:
        """Number of GPUs that are seen; MIG instances are not counted."""
        whole = m.DEVICE_INFO.name + joined(self._chosen_devices(), 'parent_uuid=""')
        return f"count by ({by}) (count by ({DEVICE_KEY}) ({whole}))"

    def lost(self, by: str = "") -> str:
        """Number of devices that stopped answering, 0 where all do."""
        return f"sum by ({by}) ({self.devices(m.DEVICE_UP)} == bool 0)"

    def device_activity(self, signal: str) -> str:
        """Mean of a signal per device, 0..1."""
        return self.sliced(
            self.mean(
                self.devices(m.DEVICE_ACTIVE_SECONDS, signal=signal),
                self.devices(m.DEVICE_OBSERVED_SECONDS, signal=signal),
                DEVICE,
            )
        )

    def every_signal(self, by: str = DEVICE) -> str:
        """Mean of each signal, by device (or other labels) and signal."""
        active, observed = m.DEVICE_ACTIVE_SECONDS, m.DEVICE_OBSERVED_SECONDS
        return self.mean(self.devices(active), self.devices(observed), f"{by}, signal")

    def device_memory_ratio(self) -> str:
        """Memory in use / memory of the device."""
        used, total = self.devices(m.DEVICE_MEMORY_USED), self.devices(m.DEVICE_MEMORY_TOTAL)
        return self.sliced(f"max by ({DEVICE}) ({used}) / max by ({DEVICE}) ({total})")

    def device_memory(self, part: str) -> str:
        """Bytes per device: ``used``, ``total`` or ``reserved``."""
        return self.gauge(_MEMORY_PARTS[part])

    def device_power(self) -> str:
        """Watts per device."""
        return f"max by ({DEVICE}) ({self.devices(m.DEVICE_POWER)})"

    def temperature(self, sensor: str) -> str:
        """Degrees Celsius per device: sensor ``gpu`` or ``memory``."""
        return f"max by ({DEVICE}) ({self.devices(m.DEVICE_TEMPERATURE, sensor=sensor)})"

    def clock(self, domain: str) -> str:
        """Clock in hertz per device: domain ``sm`` or ``memory``."""
        return f"max by ({DEVICE}) ({self.devices(m.DEVICE_CLOCK, domain=domain)})"

    def throttled(self) -> str:
        """Share of time that clocks were held down, by device and reason."""
        return self.rate(m.DEVICE_THROTTLED_SECONDS, "reason")

    def xid_count(self) -> str:
        """Number of Xid errors by device and code since the exporter started.

        Not the rise within the range: a code's series begins with its first error, which
        ``increase`` would not count.
        """
        return f"max by ({DEVICE}, xid) ({self.devices(m.DEVICE_XID_ERRORS)})"

    def xid_last(self) -> str:
        """Last Xid by device: its time in milliseconds, or its code where no time is known."""
        return f"1000 * max by ({DEVICE}, xid) ({self.devices(m.DEVICE_XID_LAST)})"

    def silent_exporters(self) -> str:
        """Number of exporters that do not answer, 0 where all do."""
        return silent(m.EXPORTER_BUILD_INFO.name)

    def missing(self) -> str:
        """GPUs that the driver should show and does not, 0 where all are there."""
        name = m.EXPORTER_DEVICES.name
        expected, present = f'{name}{{state="expected"}}', f'{name}{{state="present"}}'
        return f"sum(clamp_min({expected} - ignoring (state) {present}, 0))"

    # -- holders ---------------------------------------------------------------------------------
    def share(self) -> str:
        """Share of the device per holder."""
        return f"max by ({HOLDER}) ({self.holders(m.CONTAINER_ALLOCATED_SHARE)})"

    def activity(self, signal: str) -> str:
        """Mean of a signal per holder, 0..1, where it is known for this holder alone."""
        return self.mean(
            self.holders(m.CONTAINER_ACTIVE_SECONDS, signal=signal),
            self.holders(m.CONTAINER_OBSERVED_SECONDS, signal=signal),
            HOLDER,
        )

    def busy(self) -> str:
        """Share of time in which the device ran a kernel, per holder."""
        kernel, sm = (self.activity(signal) for signal in BUSY_SIGNALS)
        return f"({kernel}) or on ({HOLDER}) ({sm})"

    def used(self, by: str = "") -> str | None:
        """Override: a holder's seconds are counted by process, of a shared device, too."""
        return self._summed(self.busy(), by)

    def memory_used(self) -> str:
        """Bytes in use per holder."""
        return f"max by ({HOLDER}) ({self.holders(m.CONTAINER_MEMORY_USED)})"

    def memory_peak_ratio(self) -> str:
        """Highest memory in use / memory of the device, per holder."""
        peak = f"max by ({HOLDER}) ({self.holders(m.CONTAINER_MEMORY_PEAK)})"
        total = m.DEVICE_MEMORY_TOTAL.name + matchers(
            cluster=self.scope.clusters, node=self.scope.nodes
        )
        return f"{peak} / {ON_DEVICE} group_left () max by ({DEVICE_KEY}) ({total})"

    def holder_power(self) -> str:
        """Watts that fall to each holder."""
        energy = self.holders(m.CONTAINER_ENERGY)
        return f"sum by ({HOLDER}) (rate({energy}[{self.scope.window}]))"

    def named(self, holders: str) -> str:
        """Add ``gpu`` and ``slice``, for the legend, to a query whose result is per holder."""
        index = f"max by ({DEVICE}) ({self.devices(m.DEVICE_INFO)})"
        return self.sliced(f"({holders}) * {ON_DEVICE} group_left (gpu) {index}")
