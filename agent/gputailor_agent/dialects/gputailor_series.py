"""Names of our exporter's series as a server stores them, in the groups in which they are asked."""

from typing import Final

from gputailor_exporter import metrics

_HISTOGRAMS: Final = tuple(f.name for f in metrics.FAMILIES if f.kind is metrics.Kind.HISTOGRAM)
#: Not asked for: the peak tells what is used at most, and whoever has a share holds the device.
_TOLD_OTHERWISE: Final = frozenset(
    {metrics.CONTAINER_MEMORY_USED.name, metrics.CONTAINER_ALLOCATED.name}
)

#: Everything an hourly row needs of a container, one name per request.
CONTAINER: Final[tuple[str, ...]] = tuple(
    family.name + "_bucket" if family.name in _HISTOGRAMS else family.name
    for family in metrics.FAMILIES
    if family.labels[: len(metrics.CONTAINER_LABELS)] == metrics.CONTAINER_LABELS
    and family.name not in _TOLD_OTHERWISE
)
#: Buckets of histograms: half of all series, so they are asked for less often.
HISTOGRAMS: Final[tuple[str, ...]] = tuple(f"{name}_bucket" for name in _HISTOGRAMS)
#: The rest, for every hour.
HOURLY: Final[tuple[str, ...]] = tuple(name for name in CONTAINER if name not in HISTOGRAMS)
#: Counters of devices that count for whoever holds them.
DEVICE_COUNTERS: Final[tuple[str, ...]] = (
    metrics.DEVICE_THROTTLED_SECONDS.name,
    metrics.DEVICE_XID_ERRORS.name,
    metrics.DEVICE_ECC_ERRORS.name,
)
#: What is said of devices, all in one request.
DEVICE: Final[tuple[str, ...]] = (
    metrics.DEVICE_INFO.name,
    metrics.DEVICE_MEMORY_TOTAL.name,
    metrics.DEVICE_POWER_LIMIT.name,
    metrics.DEVICE_UP.name,
    *DEVICE_COUNTERS,
)
ALLOCATED_SECONDS: Final = metrics.CONTAINER_ALLOCATED_SECONDS.name
ALLOCATED_SHARE: Final = metrics.CONTAINER_ALLOCATED_SHARE.name
DEVICE_INFO: Final = metrics.DEVICE_INFO.name
DEVICE_UP: Final = metrics.DEVICE_UP.name
PROCESS_START: Final = metrics.PROCESS_START_TIME.name
PREFIX: Final = metrics.PREFIX
