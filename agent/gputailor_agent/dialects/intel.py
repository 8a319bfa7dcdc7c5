"""Intel XPU Manager: its names of today (``hw_…``) and those of version 1 (``xpum_…``).

Facts from its list of exported metrics and its dashboard converter. All are ratios, bytes and
watts. Busy is the compute engines' group; the media group is encoder and decoder in one. A tile
(``sub_dev``) is a device of its own below its card. Pods come as ``kube_pod`` and so on where the
exporter was told to look them up.
"""

from typing import Final

from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, holder_of, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "intel"


def _engine(signal: str, task: str, kind: str) -> tuple[Gauge, Gauge]:
    return (
        Gauge(
            ("hw_gpu_utilization_ratio",), Measure.ACTIVITY, signal,
            of_instance=True, labels=(("hw_gpu_task", task),),
        ),
        Gauge(
            ("xpum_engine_group_ratio",), Measure.ACTIVITY, signal,
            of_instance=True, labels=(("type", kind),),
        ),
    )  # fmt: skip


_GAUGES: Final = (
    *_engine("kernel", "compute-all", "compute"),
    *_engine("decoder", "media-all", "media"),
    *_engine("memcopy", "copy-all", "copy"),
    Gauge(
        ("hw_memory_bandwidth_utilization_ratio", "xpum_memory_bandwidth_ratio"),
        Measure.ACTIVITY, "dram", group="bandwidth", of_instance=True,
    ),
    Gauge(
        ("hw_memory_usage_bytes",), Measure.MEMORY_USED, group="memory", of_instance=True,
        labels=(("hw_memory_location", "device"),),
    ),
    Gauge(("xpum_memory_used_bytes",), Measure.MEMORY_USED, group="memory", of_instance=True),
    Gauge(
        ("hw_memory_size_bytes",), Measure.MEMORY_TOTAL, of_instance=True,
        labels=(("hw_memory_location", "device"),),
    ),
    Gauge(
        ("hw_power_watts",), Measure.POWER, group="power",
        labels=(("hw_sensor_location", "package"),),
    ),
    Gauge(("xpum_power_watts",), Measure.POWER, group="power"),
    Gauge(("hw_gpu_info",), Measure.INFO),
)  # fmt: skip

_IGNORED: Final = (
    Ignored(r"xpum_(engine|per_engine)_ratio", "the busiest or each engine; groups are read"),
    Ignored(r"(hw_memory_utilization|xpum_memory)_ratio", "made of used and size"),
    Ignored(r"(xpum|hw)_energy_joules(_total)?", "a counter of the card; power is read"),
    Ignored(
        r"(xpum|hw)_(frequency|temperature|temeperature|fan|voltage|speed|status|limit).*",
        "clocks, sensors, states",
    ),
    Ignored(r"(xpum|hw)_(gpu_|memory_)?(io|read|write|pcie|fabric|bandwidth|network).*", "links"),
    Ignored(r"xpum_(memory|pcie)_(read|write)_bytes.*", "links"),
    Ignored(r"(xpum|hw)_(errors|.*_errors|resets|eu_.*|scrape.*|version).*", "health, EU array"),
    OF_THE_PROCESS,
)


class _Intel:
    """The dialect of Intel XPU Manager."""

    name = NAME
    exporter = "Intel XPU Manager"
    rank = 20
    holders = "`kube_pod`, `kube_namespace`, `kube_container`"
    prefixes = ("hw_", "xpum_")
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The card by UUID, else by node and PCI address; a tile as ``<card>/<tile>``."""
        address = first(labels, "pci_bdf")
        node = node_of(labels, "node", "host")
        card = first(labels, "uuid") or (f"{node}:{address}" if address else "")
        if not card:
            return None
        tile = first(labels, "sub_dev", "com_intel_subdevice_id")
        uuid = f"{card}/{tile}" if tile else card
        holder = holder_of(
            labels,
            uuid,
            pod=("kube_pod",),
            namespace=("kube_namespace",),
            container=("kube_container",),
        )
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=node,
            index=first(labels, "dev_file", "card") or address,
            vendor="intel",
            model=first(labels, "dev_name", "hw_model", "hw_name"),
            parent_uuid=card if tile else "",
        )
        return Subject(holder, device)


GAUGES: Final = _Intel()
