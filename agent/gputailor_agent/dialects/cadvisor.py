"""cAdvisor inside kubelet (``/metrics/cadvisor``): CPU, memory, pressure, network, file system.

Facts from cAdvisor's list of Prometheus metrics (google/cadvisor, ``docs/storage/prometheus.md``)
and from Kubernetes' page on node metrics (pressure stalls from Kubernetes 1.34, cgroup v2 and Linux
4.20). ``waiting`` is the kernel's "some", ``stalled`` its "full". Each start of a container has a
control group (``id``) and counters of its own. Network is the pod's (of the whole node where the
pod uses the node's network), under no container's name.
"""

from typing import Final, NamedTuple

from gputailor_agent.model.containers import RESOURCES, Amount, pressure

NAME: Final = "cadvisor"
TITLE: Final = "cAdvisor (kubelet)"

#: Labels that tell apart what is to be added up: starts of a container, CPUs, disks, interfaces.
APART: Final = ("id", "cpu", "device", "interface")
#: The one of them that is a start of a container.
START: Final = "id"


class HostCounter(NamedTuple):
    """A counter, and the amount or the row's field (``counted``) that it adds to."""

    name: str
    amount: str
    counted: bool = False


CPU: Final = HostCounter("container_cpu_usage_seconds_total", "cpu_used_seconds", counted=True)
COUNTERS: Final = (
    CPU,
    HostCounter("container_cpu_cfs_periods_total", Amount.CPU_PERIODS),
    HostCounter("container_cpu_cfs_throttled_periods_total", Amount.CPU_THROTTLED_PERIODS),
    HostCounter("container_cpu_cfs_throttled_seconds_total", "cpu_throttled_seconds", counted=True),
    HostCounter("container_fs_reads_bytes_total", Amount.DISK_READ),
    HostCounter("container_fs_writes_bytes_total", Amount.DISK_WRITTEN),
    HostCounter("container_oom_events_total", "oom_kills", counted=True),
    *(
        HostCounter(f"container_pressure_{resource}_{told}_seconds_total", name)
        for resource in RESOURCES
        for told, stall in (("waiting", "some"), ("stalled", "full"))
        for name in (pressure("host", resource, stall),)
    ),
)
OF_THE_POD: Final = (
    HostCounter("container_network_receive_bytes_total", Amount.NETWORK_RECEIVED),
    HostCounter("container_network_transmit_bytes_total", Amount.NETWORK_SENT),
)

#: Settings, as of the hour's end. No limit is 0 of memory, and no quota at all of CPU.
QUOTA: Final = "container_spec_cpu_quota"  # microseconds per period
PERIOD: Final = "container_spec_cpu_period"
MEMORY_LIMIT: Final = "container_spec_memory_limit_bytes"
STARTED: Final = "container_start_time_seconds"
#: A level; the highest of the hour counts.
MEMORY: Final = "container_memory_working_set_bytes"
