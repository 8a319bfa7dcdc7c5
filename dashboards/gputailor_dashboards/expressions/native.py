"""Queries on GPU Tailor's own exporter.

A mean is rate(active) / rate(observed), over observed time only: both counters stand still where a
signal cannot be read, and ``> 0`` then drops the series instead of dividing 0 by 0. ``rate`` rounds
at a window's edges, which is good enough for eyes; reports use boundary samples instead.
"""

from typing import Final

from gputailor_dashboards.expressions.base import RANGE, Dialect, joined, matchers
from gputailor_exporter import metrics as m

_DEVICE: Final = ", ".join(m.DEVICE_LABELS)
_HOLDER: Final = ", ".join(m.CONTAINER_LABELS)
_ON_DEVICE: Final = "on (node, gpu_uuid)"
#: Where kernel activity cannot be read (MIG), SM activity answers whether something ran.
_BUSY_SIGNALS: Final = (m.Signal.KERNEL, m.Signal.SM)
_JOULES_PER_KWH: Final = 3_600_000
#: How long an exporter is remembered after its last good scrape.
_MEMORY: Final = "1d"


class Native(Dialect):
    """GPU Tailor's exporter."""

    key = "gputailor"
    title = "GPU Tailor exporter"
    recorded = "gputailor"
    holder_labels = _HOLDER
    device_labels = _DEVICE

    def _devices(self, family: m.Family, **labels: str) -> str:
        return family.name + matchers(node=self.scope.nodes, **labels)

    def _holders(self, family: m.Family, **labels: str) -> str:
        scope = self.scope
        return family.name + matchers(
            node=scope.nodes, namespace=scope.namespaces, pod=scope.pods, **labels
        )

    def _mean(self, active: str, observed: str, by: str) -> str:
        window = self.scope.window
        return (
            f"sum by ({by}) (rate({active}[{window}]))"
            f" / (sum by ({by}) (rate({observed}[{window}])) > 0)"
        )

    @staticmethod
    def _sliced(query: str) -> str:
        """Name MIG instances by the start of their UUID; their ``gpu`` is their parent's."""
        return f'label_replace({query}, "slice", "$1", "gpu_uuid", "(MIG-.{{8}}).*")'

    @property
    def node_values(self) -> tuple[str, str]:
        """Grafana query and regular expression that give the nodes' names."""
        return f"label_values({m.DEVICE_INFO.name}, node)", ""

    @property
    def namespace_values(self) -> tuple[str, str]:
        """Likewise the namespaces that hold devices."""
        return f"label_values({m.CONTAINER_ALLOCATED_SECONDS.name}, namespace)", ""

    @property
    def pod_values(self) -> str:
        """Grafana query that gives the pods of $namespace; the workloads' names follow from it."""
        name = m.CONTAINER_ALLOCATED_SECONDS.name
        return f'label_values({name}{{namespace=~"$namespace"}}, pod)'

    def gpus(self) -> str:
        """Number of GPUs that are seen; MIG instances are not counted."""
        selector = joined(matchers(node=self.scope.nodes), 'parent_uuid=""')
        return f"count(count by (node, gpu_uuid) ({m.DEVICE_INFO.name}{selector}))"

    def lost(self) -> str:
        """Number of devices that stopped answering, 0 where all do."""
        return f"sum({self._devices(m.DEVICE_UP)} == bool 0)"

    def device_activity(self, signal: str) -> str:
        """Mean of a signal per device, 0..1."""
        return self._sliced(
            self._mean(
                self._devices(m.DEVICE_ACTIVE_SECONDS, signal=signal),
                self._devices(m.DEVICE_OBSERVED_SECONDS, signal=signal),
                _DEVICE,
            )
        )

    def every_signal(self) -> str:
        """Mean of each signal, per device and signal."""
        active, observed = m.DEVICE_ACTIVE_SECONDS, m.DEVICE_OBSERVED_SECONDS
        by = f"{_DEVICE}, signal"
        return self._mean(self._devices(active), self._devices(observed), by)

    def device_memory_ratio(self) -> str:
        """Memory in use / memory of the device."""
        used, total = self._devices(m.DEVICE_MEMORY_USED), self._devices(m.DEVICE_MEMORY_TOTAL)
        return self._sliced(f"max by ({_DEVICE}) ({used}) / max by ({_DEVICE}) ({total})")

    def device_power(self) -> str:
        """Watts per device."""
        return f"max by ({_DEVICE}) ({self._devices(m.DEVICE_POWER)})"

    def energy_by_node(self) -> str:
        """Kilowatt hours by node over the dashboard's range."""
        energy = self._devices(m.DEVICE_ENERGY)
        return f"sum by (node) (increase({energy}[{RANGE}])) / {_JOULES_PER_KWH}"

    def throttled(self) -> str:
        """Share of time that clocks were held down, by device and reason."""
        seconds = self._devices(m.DEVICE_THROTTLED_SECONDS)
        return self._sliced(f"max by ({_DEVICE}, reason) (rate({seconds}[{self.scope.window}]))")

    def xid_count(self) -> str:
        """Number of Xid errors by device and code within the range."""
        count = self._devices(m.DEVICE_XID_ERRORS)
        return f"max by ({_DEVICE}, xid) (max_over_time({count}[{RANGE}]))"

    def xid_last(self) -> str:
        """Last Xid by device: its time in milliseconds, or its code where no time is known."""
        return f"1000 * max by ({_DEVICE}, xid) ({self._devices(m.DEVICE_XID_LAST)})"

    def share(self) -> str:
        """Share of the device per holder."""
        return f"max by ({_HOLDER}) ({self._holders(m.CONTAINER_ALLOCATED_SHARE)})"

    def activity(self, signal: str) -> str:
        """Mean of a signal per holder, 0..1, where it is known for this holder alone."""
        return self._mean(
            self._holders(m.CONTAINER_ACTIVE_SECONDS, signal=signal),
            self._holders(m.CONTAINER_OBSERVED_SECONDS, signal=signal),
            _HOLDER,
        )

    def busy(self) -> str:
        """Share of time in which the device ran a kernel, per holder."""
        kernel, sm = (self.activity(signal) for signal in _BUSY_SIGNALS)
        return f"({kernel}) or on ({_HOLDER}) ({sm})"

    def used(self, by: str = "") -> str:
        """Override: a holder's seconds are counted by process, of a shared device, too."""
        return f"sum by ({by}) ({self.busy()})"

    def memory_used(self) -> str:
        """Bytes in use per holder."""
        return f"max by ({_HOLDER}) ({self._holders(m.CONTAINER_MEMORY_USED)})"

    def memory_peak_ratio(self) -> str:
        """Highest memory in use / memory of the device, per holder."""
        peak = f"max by ({_HOLDER}) ({self._holders(m.CONTAINER_MEMORY_PEAK)})"
        total = f"max by (node, gpu_uuid) ({m.DEVICE_MEMORY_TOTAL.name})"
        return f"{peak} / {_ON_DEVICE} group_left () {total}"

    def holder_power(self) -> str:
        """Watts that fall to each holder."""
        energy = self._holders(m.CONTAINER_ENERGY)
        return f"sum by ({_HOLDER}) (rate({energy}[{self.scope.window}]))"

    def idle_seconds(self) -> str:
        """Seconds since a kernel, the encoder or the decoder was last active, per holder."""
        return f"time() - max by ({_HOLDER}) ({self._holders(m.CONTAINER_LAST_ACTIVE)})"

    def seconds_at_zero(self, signal: str) -> str:
        """Share of one-second values of a signal that were exactly zero, per holder."""
        name, window = m.CONTAINER_ACTIVITY.name, self.scope.window
        scope = self.scope
        labels = {"namespace": scope.namespaces, "pod": scope.pods, "signal": signal}
        zero = f"{name}_bucket" + matchers(**labels, le="0|0[.]0")
        count = f"{name}_count" + matchers(**labels)
        return (
            f"sum by ({_HOLDER}) (rate({zero}[{window}]))"
            f" / (sum by ({_HOLDER}) (rate({count}[{window}])) > 0)"
        )

    def condition(self) -> str:
        """Share of time in which a joint one-second condition held, per holder and condition."""
        seconds = self._holders(m.CONTAINER_CONDITION_SECONDS)
        return f"sum by ({_HOLDER}, condition) (rate({seconds}[{self.scope.window}]))"

    def link_bytes(self) -> str:
        """Bytes per second over PCIe and NVLink, per holder, link and direction."""
        count = self._holders(m.CONTAINER_LINK_BYTES)
        return f"sum by ({_HOLDER}, link, direction) (rate({count}[{self.scope.window}]))"

    def coverage(self, by: str) -> str:
        """Observed seconds / held seconds; the best-read of kernel and SM activity counts."""
        signals = "|".join(_BUSY_SIGNALS)
        observed = self._holders(m.CONTAINER_OBSERVED_SECONDS, signal=signals)
        held = self._holders(m.CONTAINER_ALLOCATED_SECONDS)
        window = self.scope.window
        return (
            f"(sum by ({by}) (max by ({_HOLDER}) (rate({observed}[{window}])))"
            f" or 0 * sum by ({by}) (rate({held}[{window}])))"
            f" / (sum by ({by}) (rate({held}[{window}])) > 0)"
        )

    def coverage_by_node(self) -> str:
        """Observed seconds / held seconds, by node."""
        return self.coverage("node")

    def unavailable(self) -> str:
        """Number of devices by signal that cannot be read, and why."""
        family = m.EXPORTER_SIGNAL_UNAVAILABLE.name
        return f"count by (signal, reason) ({family})"

    def silent_exporters(self) -> str:
        """Number of exporters that do not answer, 0 where all do."""
        seen = f"last_over_time({m.EXPORTER_BUILD_INFO.name}[{_MEMORY}])"
        return f"sum((up == bool 0) and on (job, instance) {seen})"

    def source_age(self) -> str:
        """Seconds since each source of an exporter was last read well."""
        return f"time() - max by (instance, source) ({m.EXPORTER_LAST_SUCCESS.name})"

    def exporter_errors(self) -> str:
        """Failures of an exporter per second, by source and reason."""
        errors = m.EXPORTER_ERRORS.name
        return f"sum by (instance, source, reason) (rate({errors}[{self.scope.window}]))"

    def missing(self) -> str:
        """GPUs that the driver should show and does not, 0 where all are there."""
        name = m.EXPORTER_DEVICES.name
        expected, present = f'{name}{{state="expected"}}', f'{name}{{state="present"}}'
        return f"sum(clamp_min({expected} - ignoring (state) {present}, 0))"

    def named(self, holders: str) -> str:
        """Add ``gpu`` and ``slice``, for the legend, to a query whose result is per holder."""
        index = f"max by ({_DEVICE}) ({m.DEVICE_INFO.name})"
        return self._sliced(f"({holders}) * {_ON_DEVICE} group_left (gpu) {index}")
