"""HAMi's vGPU monitor: what each container does on its part of a card, and what the card does.

Facts from its collector (Apache-2.0): names of today (``hami_…``) and those it had before and can
still be told to give. Containers are measured by HAMi's library inside them, so their values are
their own on a shared card; both ``…_utilization_ratio`` are percent in truth. The memory limit is
what the container may have, and so the total it is held against.

On cards of the Blackwell kind the per-process samples are missing and the monitor says 0 (HAMi
issue 2015). The age of the last kernel contradicts that: a container that says 0 and ran a kernel
within the step is unknown, which the rollup sees to.
"""

from typing import Final

from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, holder_of, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "hami"

_PERCENT: Final = 0.01
_CONTAINER: Final = "container"


def _own(names: tuple[str, str], measure: Measure, signal: str = "", scale: float = 1.0) -> Gauge:
    return Gauge(names, measure, signal, scale, _CONTAINER, of_instance=True, of_holder=True)


_GAUGES: Final = (
    _own(
        ("hami_container_device_utilization_ratio", "Device_utilization_desc_of_container"),
        Measure.ACTIVITY, "kernel", _PERCENT,
    ),
    _own(
        ("hami_vgpu_memory_used_bytes", "vGPU_device_memory_usage_in_bytes"), Measure.MEMORY_USED
    ),
    _own(
        ("hami_vgpu_memory_limit_bytes", "vGPU_device_memory_limit_in_bytes"),
        Measure.MEMORY_TOTAL,
    ),
    _own(
        ("hami_container_last_kernel_elapsed_seconds", "Device_last_kernel_of_container"),
        Measure.IDLE,
    ),
    Gauge(
        ("hami_host_gpu_utilization_ratio", "HostCoreUtilization"),
        Measure.ACTIVITY, "kernel", _PERCENT,
    ),
    Gauge(
        ("hami_host_gpu_memory_controller_utilization_ratio",),
        Measure.ACTIVITY, "memcopy", _PERCENT,
    ),
    Gauge(("hami_host_gpu_memory_used_bytes", "HostGPUMemoryUsage"), Measure.MEMORY_USED),
    Gauge(("hami_host_gpu_power_usage_watts",), Measure.POWER),
)  # fmt: skip

_IGNORED: Final = (
    Ignored(
        r"hami_vgpu_memory_(context|module|buffer)_bytes", "parts of hami_vgpu_memory_used_bytes"
    ),
    Ignored(
        r"hami_container_device_memory_bytes|Device_memory_desc_of_container",
        "the same figure as the vGPU's memory used",
    ),
    Ignored(r"hami_host_gpu_(temperature|ecc).*", "sensors and health, not use"),
    Ignored(r"hami_mig_device_info|MigInfo", "the instance's number, which no other metric has"),
    Ignored(
        r"(vGPU(?!_device_memory_(usage|limit)_in_bytes)|GPUDevice|nodeGPU|QuotaUsed|hami_).*",
        "the scheduler's plan: requests are read from the pods",
    ),
    OF_THE_PROCESS,
)


class _Hami:
    """The dialect of HAMi's vGPU monitor."""

    name = NAME
    exporter = "HAMi vGPU monitor"
    rank = 10
    holders = "`pod`, `namespace`, `container`; `podname`, `podnamespace`, `ctrname` before"
    prefixes = ("hami_", "vGPU_device_", "Device_", "Host")
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The card, and the container where the series is of one."""
        uuid = first(labels, "device_uuid", "deviceuuid")
        if not uuid:
            return None
        virtual = bool(first(labels, "vdevice_index", "vdeviceid"))
        holder = holder_of(
            labels,
            uuid,
            pod=("podname", "pod"),
            namespace=("podnamespace", "namespace"),
            container=("ctrname", "container"),
        )
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=node_of(labels, "node", "nodeid"),
            index=first(labels, "device_index", "deviceidx"),
            vendor="nvidia",
            model=first(labels, "device_type", "devicetype").removeprefix("NVIDIA-"),
        )
        return Subject(holder if virtual else None, device)


GAUGES: Final = _Hami()
