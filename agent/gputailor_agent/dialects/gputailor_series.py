"""Names of our exporter's series as a server stores them, in the groups in which they are asked."""

from typing import Final

from gputailor_exporter import metrics

_HISTOGRAMS: Final = tuple(f.name for f in metrics.FAMILIES if f.kind is metrics.Kind.HISTOGRAM)

#: Everything an hourly row needs of a container, one name per request.
CONTAINER: Final[tuple[str, ...]] = tuple(
    family.name + "_bucket" if family.name in _HISTOGRAMS else family.name
    for family in metrics.FAMILIES
    if family.labels[: len(metrics.CONTAINER_LABELS)] == metrics.CONTAINER_LABELS
)
#: What is said of devices, all in one request.
DEVICE: Final[tuple[str, ...]] = (
    metrics.DEVICE_INFO.name,
    metrics.DEVICE_MEMORY_TOTAL.name,
    metrics.DEVICE_POWER_LIMIT.name,
    metrics.DEVICE_UP.name,
)
ALLOCATED_SECONDS: Final = metrics.CONTAINER_ALLOCATED_SECONDS.name
ALLOCATED_SHARE: Final = metrics.CONTAINER_ALLOCATED_SHARE.name
DEVICE_INFO: Final = metrics.DEVICE_INFO.name
DEVICE_UP: Final = metrics.DEVICE_UP.name
PROCESS_START: Final = metrics.PROCESS_START_TIME.name
PREFIX: Final = metrics.PREFIX
