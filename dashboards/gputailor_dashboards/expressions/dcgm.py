"""Queries on a stock dcgm-exporter, of the counters that are on by default.

Names, units and labels are those of its counter files and pages (Apache-2.0). Old versions write
``Hostname``, those since 2026 ``hostname``. With ``honorLabels`` off, Prometheus renames the
workload's labels to ``exported_pod`` and so on, and ``pod`` is the exporter's own. All of these are
read. DCGM's values are points in time, so short bursts are missed. Its value of a shared GPU is
copied to each pod: here it is split for sums, and no single pod is shown with it.
"""

import dataclasses
from typing import Final

from gputailor_dashboards.expressions.base import (
    POD_NAME,
    RANGE,
    Dialect,
    Scope,
    joined,
    matchers,
)
from gputailor_dashboards.expressions.native import silent
from gputailor_exporter.metrics import Signal

_PERCENT: Final = 100

KERNEL: Final = "DCGM_FI_DEV_GPU_UTIL"  # percent; absent on MIG
GRAPHICS: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"  # ratio, on MIG too
TENSOR: Final = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
DRAM: Final = "DCGM_FI_PROF_DRAM_ACTIVE"
SM: Final = "DCGM_FI_PROF_SM_ACTIVE"  # off by default
ENCODER: Final = "DCGM_FI_DEV_ENC_UTIL"  # percent
DECODER: Final = "DCGM_FI_DEV_DEC_UTIL"
MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"  # MiB
MEMORY_FREE: Final = "DCGM_FI_DEV_FB_FREE"
POWER: Final = "DCGM_FI_DEV_POWER_USAGE"  # watts
MEMORY_RESERVED: Final = "DCGM_FI_DEV_FB_RESERVED"
TEMPERATURE: Final = "DCGM_FI_DEV_GPU_TEMP"  # degrees Celsius
MEMORY_TEMPERATURE: Final = "DCGM_FI_DEV_MEMORY_TEMP"
SM_CLOCK: Final = "DCGM_FI_DEV_SM_CLOCK"  # MHz
MEMORY_CLOCK: Final = "DCGM_FI_DEV_MEM_CLOCK"
PCIE_REPLAYS: Final = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
REMAPPED_UNCORRECTABLE: Final = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
REMAPPED_CORRECTABLE: Final = "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"
REMAP_FAILURE: Final = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
XID: Final = "DCGM_FI_DEV_XID_ERRORS"  # code of the last one, 0 for none

_SIGNALS: Final = {
    Signal.KERNEL: (KERNEL, _PERCENT),
    Signal.GRAPHICS: (GRAPHICS, 1),
    Signal.SM: (SM, 1),
    Signal.TENSOR: (TENSOR, 1),
    Signal.DRAM: (DRAM, 1),
    Signal.ENCODER: (ENCODER, _PERCENT),
    Signal.DECODER: (DECODER, _PERCENT),
}
_DEVICE: Final = "cluster, node, gpu, UUID, slice"
_HOLDER: Final = f"{_DEVICE}, namespace, pod, container"
_OWN_PODS: Final = ".*dcgm-exporter.*"
_MIB: Final = 1024 * 1024
_MHZ: Final = 1_000_000
_TEMPERATURES: Final = {"gpu": TEMPERATURE, "memory": MEMORY_TEMPERATURE}
_HOTTEST: Final = 150  # degrees; DCGM's blanks are far above
_CLOCKS: Final = {"sm": SM_CLOCK, "memory": MEMORY_CLOCK}
_HIGHEST_XID: Final = 999  # codes have three digits at most; DCGM's blanks are far above


class Dcgm(Dialect):
    """dcgm-exporter, of NVIDIA."""

    key = "dcgm"
    title = "dcgm-exporter"
    recorded = "gputailor_dcgm"
    holder_labels = _HOLDER
    device_labels = _DEVICE

    def _device_matchers(self) -> dict[str, str]:
        """Match the node's name under either label; the absent one matches the empty end."""
        scope = self.scope
        nodes = f"{scope.nodes}|" if scope.nodes else ""
        chosen = {"cluster": scope.clusters, "Hostname": nodes, "hostname": nodes}
        return chosen | {"gpu": scope.gpus}

    @staticmethod
    def _normal(query: str) -> str:
        """Give ``node`` and ``slice`` ("1g.5gb 13" on MIG, else a blank) their one name."""
        node = f'label_join({query}, "node", "", "Hostname", "hostname")'
        return f'label_join({node}, "slice", " ", "GPU_I_PROFILE", "GPU_I_ID")'

    def devices(self, name: str, over: str = "") -> str:
        """Return a metric by device, through a function of a range where ``over`` names one."""
        series = name + matchers(**self._device_matchers())
        return f"max by ({_DEVICE}) ({self._normal(self._call(series, over))})"

    def per_holder(self, name: str, over: str = "") -> str:
        """Return a metric by holder, through a function of a range where ``over`` names one."""
        exported, plain = self._exported(name, over), self._plain(name, over)
        return f"max by ({_HOLDER}) ({exported} or {plain})"

    def _call(self, series: str, over: str) -> str:
        return f"{over}({series}[{self.scope.window}])" if over else series

    def _exported(self, name: str, over: str) -> str:
        """Series whose workload stands in exported_ labels; the plain ones are the exporter's."""
        scope = self.scope
        selector = matchers(
            **self._device_matchers(), exported_namespace=scope.namespaces, exported_pod=scope.pods
        )
        query = self._normal(self._call(name + joined(selector, 'exported_pod!=""'), over))
        for label in ("namespace", "pod", "container"):
            query = f'label_replace({query}, "{label}", "$1", "exported_{label}", "(.*)")'
        return query

    def _plain(self, name: str, over: str) -> str:
        scope = self.scope
        selector = matchers(**self._device_matchers(), namespace=scope.namespaces, pod=scope.pods)
        held = f'exported_pod="",pod!="",pod!~"{_OWN_PODS}"'
        return self._normal(self._call(name + joined(selector, held), over))

    @property
    def cluster_values(self) -> tuple[str, str]:
        """Names of the clusters."""
        return f"label_values({MEMORY_USED}, cluster)", ""

    @property
    def node_values(self) -> tuple[str, str]:
        """Names of the nodes of $cluster."""
        # Grafana's query_result gives whole series; the regular expression takes the name out.
        series = self._normal(f'{MEMORY_USED}{{cluster=~"$cluster"}}')
        return f"query_result(count by (node) ({series}))", '/node="([^"]+)"/'

    @property
    def gpu_values(self) -> tuple[str, str]:
        """Indexes of the GPUs of $node."""
        nodes = matchers(cluster="$cluster", Hostname="$node|", hostname="$node|")
        return f"label_values({MEMORY_USED}{nodes}, gpu)", ""

    @property
    def namespace_values(self) -> tuple[str, str]:
        """Namespaces of $cluster that hold devices."""
        held = Dcgm(Scope(clusters="$cluster")).per_holder(MEMORY_USED)
        return f"query_result(count by (namespace) ({held}))", '/namespace="([^"]+)"/'

    @property
    def pod_values(self) -> tuple[str, str]:
        """Workloads in $namespace, by the names of their pods."""
        held = Dcgm(Scope(clusters="$cluster", namespaces="$namespace")).per_holder(MEMORY_USED)
        return f"query_result(count by (pod) ({held}))", f'/pod="{POD_NAME}"/'

    def gpus(self, by: str = "") -> str:
        """Number of GPUs that are seen; MIG instances are not counted."""
        return f"count by ({by}) (count by (cluster, node, UUID) ({self.devices(POWER)}))"

    def device_activity(self, signal: str) -> str | None:
        """Mean of a signal per device, 0..1."""
        if signal not in _SIGNALS:
            return None
        name, scale = _SIGNALS[Signal(signal)]
        return self._scaled(self.devices(name, "avg_over_time"), scale)

    @staticmethod
    def _scaled(query: str, scale: int) -> str:
        """Drop what cannot be (DCGM's blanks are about 2^47, 2^31 and 2^63), then make a ratio."""
        kept = f"({query} <= {scale})"
        return kept if scale == 1 else f"{kept} / {scale}"

    def device_memory_ratio(self) -> str:
        """Memory in use / memory of the device."""
        used, free = self.devices(MEMORY_USED), self.devices(MEMORY_FREE)
        return f"{used} / ({used} + {free})"

    def device_power(self) -> str:
        """Watts per device."""
        return self.devices(POWER)

    def device_memory(self, part: str) -> str | None:
        """Bytes per device: ``used``, ``total`` or ``reserved``."""
        used, reserved = self.devices(MEMORY_USED), self.devices(MEMORY_RESERVED)
        if part == "total":
            return f"{_MIB} * ({used} + {self.devices(MEMORY_FREE)})"
        return f"{_MIB} * {used if part == 'used' else reserved}"

    def temperature(self, sensor: str) -> str:
        """Degrees Celsius per device: sensor ``gpu`` or ``memory``."""
        return f"{self.devices(_TEMPERATURES[sensor])} <= {_HOTTEST}"

    def clock(self, domain: str) -> str:
        """Clock in hertz per device: domain ``sm`` or ``memory``."""
        return f"{_MHZ} * {self.devices(_CLOCKS[domain])}"

    def xid_last(self) -> str:
        """Last Xid by device: its time in milliseconds, or its code where no time is known."""
        return f"{self.devices(XID)} <= {_HIGHEST_XID}"

    def share(self) -> str:
        """Share of the device per holder."""
        held = f"group by ({_HOLDER}) ({self.per_holder(MEMORY_USED)})"
        return f"{held} / on ({_DEVICE}) group_left () {self._sharers()}"

    def activity(self, signal: str) -> str | None:
        """Mean of a signal per holder, 0..1, where it is known for this holder alone."""
        if signal not in _SIGNALS:
            return None
        name, scale = _SIGNALS[Signal(signal)]
        return self._alone(self._scaled(self.per_holder(name, "avg_over_time"), scale))

    def _alone(self, holders: str) -> str:
        """Leave out holders of shared devices: DCGM's value there is the device's."""
        return f"({holders}) unless on ({_DEVICE}) ({self._sharers()} > 1)"

    def _sharers(self) -> str:
        """Holders per device, those outside the scope included."""
        scope = self.scope
        everyone = Dcgm(Scope(scope.clusters, scope.nodes, scope.gpus, window=scope.window))
        return f"count by ({_DEVICE}) ({everyone.per_holder(MEMORY_USED)})"

    def busy(self) -> str:
        """Share of time in which the device ran a kernel, per holder."""
        kernel = self._scaled(self.per_holder(KERNEL, "avg_over_time"), _PERCENT)
        graphics = self._scaled(self.per_holder(GRAPHICS, "avg_over_time"), 1)
        return f"({kernel}) or ({graphics})"

    def memory_used(self) -> str:
        """Bytes in use per holder."""
        return self._alone(f"{_MIB} * {self.per_holder(MEMORY_USED)}")

    def memory_peak_ratio(self) -> str:
        """Highest memory in use / memory of the device, per holder."""
        series = self._with_range(MEMORY_USED)
        used, free = self.per_holder(MEMORY_USED), self.per_holder(MEMORY_FREE)
        return self._alone(f"{series} / ({used} + {free})")

    def _with_range(self, name: str) -> str:
        whole = Dcgm(dataclasses.replace(self.scope, window=RANGE))
        return whole.per_holder(name, "max_over_time")

    def holder_power(self) -> str:
        """Watts that fall to each holder."""
        return self._alone(self.per_holder(POWER))

    def silent_exporters(self) -> str:
        """Number of exporters that do not answer, 0 where all do."""
        return silent(POWER)

    def instances(self) -> str:
        """MIG instances by node and profile."""
        series = MEMORY_USED + joined(matchers(**self._device_matchers()), 'GPU_I_PROFILE!=""')
        one = f"max by ({_DEVICE}, GPU_I_PROFILE) ({self._normal(series)})"
        named = f'label_replace({one}, "mig_profile", "$1", "GPU_I_PROFILE", "(.*)")'
        return f"count by (cluster, node, mig_profile) ({named})"

    def sharers(self) -> str:
        """Pods per device."""
        held = f"count by ({_DEVICE}) ({self.per_holder(MEMORY_USED)})"
        return f"{held} > 1"
