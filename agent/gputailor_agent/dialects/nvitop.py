"""nvitop-exporter: NVML gauges of whole cards in percent, MiB and watts (its unit ends each name).

Facts from its collector's names (nvitop 1.7) and a page of a real run of it. It names no pods, and
gives a MIG instance a series of its own with the instance's UUID. ``gpu_memory_utilization`` is the
memory controller's, ``gpu_memory_percent`` the filled share.
"""

from typing import Final

from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "nvitop"

_MIB: Final = 1024.0 * 1024.0
_PERCENT: Final = 0.01


def _percent(name: str, signal: str) -> Gauge:
    return Gauge((f"gpu_{name}utilization_Percentage",), Measure.ACTIVITY, signal, _PERCENT)


_GAUGES: Final = (
    _percent("", "kernel"),
    _percent("memory_", "memcopy"),
    _percent("encoder_", "encoder"),
    _percent("decoder_", "decoder"),
    Gauge(("gpu_memory_used_MiB",), Measure.MEMORY_USED, "", _MIB, of_instance=True),
    Gauge(("gpu_memory_total_MiB",), Measure.MEMORY_TOTAL, "", _MIB, of_instance=True),
    Gauge(("gpu_power_usage_W",), Measure.POWER),
)

_IGNORED: Final = (
    Ignored(r"gpu_memory_(free_MiB|percent_Percentage)", "made of used and total"),
    Ignored(r"gpu_(clock|fan_speed|temperature|power_limit)_.*", "clocks, sensors, settings"),
    Ignored(r"gpu_(pcie|nvlink)_.*", "throughput of 20 ms, not of the time between scrapes"),
    Ignored(r"(gpu_)?process_.*_(MiB|Percentage|Second|info|count).*", "by pid, not by pod"),
    Ignored(r"(host|nvitop)_.+", "of the machine, not of a device or a pod"),
    OF_THE_PROCESS,
)


class _Nvitop:
    """The dialect of nvitop-exporter."""

    name = NAME
    exporter = "nvitop-exporter"
    rank = 40
    holders = ""
    prefixes = ("gpu_",)
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The card or MIG instance, by its own UUID."""
        uuid = first(labels, "uuid")
        if not uuid:
            return None
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=node_of(labels, "hostname"),
            index=first(labels, "index"),
            vendor="nvidia",
            model=first(labels, "devicename"),
        )
        return Subject(None, device)


GAUGES: Final = _Nvitop()
