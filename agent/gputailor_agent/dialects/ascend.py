"""Huawei's npu-exporter (MindCluster): Ascend chips, in percent, MB and watts.

Facts from its metrics page and test page (Apache-2.0). ``id`` is the chip on its node, ``vdie_id``
tells chips of a cluster apart (it may be empty). Pods come as ``pod_name`` and ``container_name``.
High-bandwidth memory is the device's; cards without it (310P) have ``npu_chip_info_*_memory``. -1
means that a value could not be read. ``vnpu_pod_*`` are of virtual NPUs, whose memory is in KB.
"""

from typing import Final

from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, holder_of, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "ascend"

_KB: Final = 1024.0
_MB: Final = 1024.0 * 1024.0
_PERCENT: Final = 0.01
_CHIP: Final = "npu_chip_info_"
_VIRTUAL: Final = "virtual"
_OWN: Final = "npu-exporter"


def _virtual(name: str, measure: Measure, signal: str = "", scale: float = 1.0) -> Gauge:
    return Gauge(
        (f"vnpu_pod_{name}",), measure, signal, scale, _VIRTUAL, of_instance=True, of_holder=True
    )


_GAUGES: Final = (
    Gauge((f"{_CHIP}utilization",), Measure.ACTIVITY, "kernel", _PERCENT),
    Gauge((f"{_CHIP}cube_utilization",), Measure.ACTIVITY, "tensor", _PERCENT, "cube"),
    Gauge((f"{_CHIP}hbm_bandwidth_utilization",), Measure.ACTIVITY, "dram", _PERCENT, "hbm"),
    Gauge((f"{_CHIP}hbm_used_memory", f"{_CHIP}used_memory"), Measure.MEMORY_USED, "", _MB),
    Gauge((f"{_CHIP}hbm_total_memory", f"{_CHIP}total_memory"), Measure.MEMORY_TOTAL, "", _MB),
    Gauge((f"{_CHIP}power",), Measure.POWER),
    _virtual("aicore_utilization", Measure.ACTIVITY, "kernel", _PERCENT),
    _virtual("used_memory", Measure.MEMORY_USED, "", _KB),
    _virtual("total_memory", Measure.MEMORY_TOTAL, "", _KB),
)

_IGNORED: Final = (
    Ignored(rf"{_CHIP}(used|total)_memory", "host-side memory where there is HBM"),
    Ignored(
        rf"{_CHIP}(overall|vector|hbm|aicpu.*|ctrlcpu.*)_utilization|{_CHIP}vector_utilization",
        "mixes of engines, or of the chip's own processors",
    ),
    Ignored(rf"{_CHIP}(bandwidth|pcie|mac|roce|link|network|hccs|optical|dcmi).*", "network"),
    Ignored(
        rf"{_CHIP}(aicore_current_freq|voltage|temperature|hbm_temperature|.*_freq)",
        "clocks and sensors",
    ),
    Ignored(rf"{_CHIP}(error_code.*|health_status|.*ecc.*)", "health of the chip, not its use"),
    Ignored(rf"{_CHIP}(name|serial_number|product_type|process_info.*)", "names and pids"),
    Ignored(
        r"container_npu_.*|npu_container_info", "copies of the chip's values by container and chip"
    ),
    Ignored(r"machine_.*|npu_exporter_version_info", "counts and versions"),
    OF_THE_PROCESS,
)


class _Ascend:
    """The dialect of npu-exporter."""

    name = NAME
    exporter = "Ascend npu-exporter"
    rank = 20
    holders = "`pod_name`, `namespace` or `exported_namespace`, `container_name`"
    prefixes = (_CHIP, "vnpu_pod_")
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The chip by its die, else by node and number; a virtual NPU as ``<chip>/<vNPU>``."""
        index = first(labels, "id")
        if not index:
            return None
        node = node_of(labels)
        chip = first(labels, "vdie_id") or f"{node}:{index}"
        virtual = first(labels, "v_dev_id", "vnpu_id") if "is_virtual" in labels else ""
        uuid = f"{chip}/{virtual}" if virtual else chip
        holder = holder_of(labels, uuid, pod=("pod_name",), container=("container_name",), own=_OWN)
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=node,
            index=index,
            vendor="huawei",
            model=first(labels, "model_name"),
            parent_uuid=chip if virtual else "",
        )
        return Subject(holder, device)


GAUGES: Final = _Ascend()
