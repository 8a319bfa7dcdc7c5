"""Google Kubernetes Engine: its device plugin's own metrics, and the managed ones by PromQL.

Facts from Google's list of Kubernetes metrics (``container/accelerator/…``, ``node/accelerator/…``)
and its naming rule for PromQL, and from a page of the device plugin. Duty cycle is the share of the
last sample period in which the accelerator worked, in percent; memory is in bytes. Managed DCGM
metrics have dcgm-exporter's names and are that dialect's.
"""

from typing import Final

from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, holder_of, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "gke"

_PERCENT: Final = 0.01
_MANAGED: Final = "kubernetes_io:"


def _names(field: str, managed: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Names of a container's metric and of its device's."""
    return (
        (field, f"{_MANAGED}container_accelerator_{managed}"),
        (f"{field}_gpu_node", f"{_MANAGED}node_accelerator_{managed}"),
    )


_BUSY: Final = _names("duty_cycle", "duty_cycle")
_USED: Final = _names("memory_used", "memory_used")
_TOTAL: Final = _names("memory_total", "memory_total")

_GAUGES: Final = (
    Gauge(_BUSY[0], Measure.ACTIVITY, "kernel", _PERCENT, "container"),
    Gauge(_USED[0], Measure.MEMORY_USED, group="container"),
    Gauge(_TOTAL[0], Measure.MEMORY_TOTAL, group="container"),
    Gauge(_BUSY[1], Measure.ACTIVITY, "kernel", _PERCENT),
    Gauge(_USED[1], Measure.MEMORY_USED),
    Gauge(_TOTAL[1], Measure.MEMORY_TOTAL),
)

_IGNORED: Final = (
    Ignored(
        r"request|request_gpu_.*|container_gpu_requests?|kubernetes_io:\w+_accelerator_request",
        "requests are read from the pods",
    ),
    Ignored(r"kubernetes_io:\w+_accelerator_(tensorcore|memory_bandwidth)_.*", "of TPUs"),
    OF_THE_PROCESS,
)


class _Gke:
    """The dialect of GKE's accelerator metrics."""

    name = NAME
    exporter = "GKE device plugin and managed metrics"
    rank = 60
    holders = "`pod`, `namespace`, `container`; managed: `pod_name`, `namespace_name`, …"
    prefixes = ("duty_cycle", "memory_used", "memory_total", _MANAGED)
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The accelerator by its id, and the container where the series names one."""
        uuid = first(labels, "accelerator_id")
        if not uuid:
            return None
        holder = holder_of(
            labels,
            uuid,
            pod=("pod_name", "pod"),
            namespace=("namespace_name", "namespace"),
            container=("container_name", "container"),
            own="gpu-device-plugin",
        )
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=node_of(labels, "node_name"),
            vendor=first(labels, "make"),
            model=first(labels, "model"),
        )
        return Subject(holder, device)


GAUGES: Final = _Gke()
