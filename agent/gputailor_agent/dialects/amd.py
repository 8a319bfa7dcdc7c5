"""AMD's device-metrics-exporter: gauges in percent, MB and watts, with pod and Slurm labels.

Facts from its metrics list and pages. Names may carry a prefix that its settings give
(``amd_`` in the project's own example); both forms are read. A partition (CPX and so on) is a
device of its own; the activity on partition 0 stands for the whole card and is read of cards that
are not split. Media engines decode and encode in one (VCN). Of violations the percentage is read, a
share of the time between two looks of the firmware; what they accumulate is in ticks of it.
"""

from typing import Final

from gputailor_agent.dialects import conditions
from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, holder_of, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "amd"

_MB: Final = 1024.0 * 1024.0  # of amd-smi: VRAM in units of 2**20 bytes
_PERCENT: Final = 0.01
_OWN: Final = "metrics-exporter"
_WHOLE: Final = frozenset({"", "spx", "none", "na"})
_SLURM: Final = "slurm"


def _names(*fields: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{field}" for field in fields for prefix in ("gpu_", "amd_gpu_"))


def _percent(field: str, signal: str, group: str = "device") -> Gauge:
    return Gauge(_names(field), Measure.ACTIVITY, signal, _PERCENT, group)


def _memory(field: str, measure: Measure) -> Gauge:
    return Gauge(_names(field), measure, "", _MB, of_instance=True)


def _violation(field: str, condition: str) -> Gauge:
    names = _names(f"violation_{field}_percentage")
    return Gauge(names, Measure.THROTTLED, condition, _PERCENT, of_instance=True)


#: Named as our own exporter names what the same firmware tells it.
_HEALTH: Final = (
    _violation("processor_hot_residency", conditions.HW_THERMAL),
    _violation("socket_thermal_residency", conditions.SW_THERMAL),
    _violation("vr_thermal_residency", conditions.SW_THERMAL),
    _violation("hbm_thermal_residency", conditions.SW_THERMAL),
    _violation("ppt_residency", conditions.POWER_CAP),
    Gauge(_names("ecc_uncorrect_total"), Measure.ERRORS, conditions.ECC_UNCORRECTED),
    Gauge(_names("ecc_correct_total"), Measure.ERRORS, conditions.ECC_CORRECTED),
)

_GAUGES: Final = (
    _percent("gfx_activity", "kernel"),
    _percent("umc_activity", "memcopy"),
    _percent("vcn_activity", "decoder", "media")._replace(part="vcn_index"),
    _percent("prof_tensor_active_percent", "tensor", "profiling"),
    _percent("prof_occupancy_percent", "occupancy", "profiling"),
    _memory("used_vram", Measure.MEMORY_USED),
    _memory("total_vram", Measure.MEMORY_TOTAL),
    Gauge(_names("power_usage", "package_power", "average_package_power"), Measure.POWER),
    *_HEALTH,
)

_IGNORED: Final = (
    Ignored(
        r"(amd_)?gpu_(free_vram|(used|total|free)_(visible_vram|gtt))", "parts, or host memory"
    ),
    Ignored(r"(amd_)?gpu_(mma|jpeg)_activity", "media engines apart from VCN: no rule asks"),
    Ignored(
        r"(amd_)?gpu_\w+_busy_instantaneous",
        "one moment per engine of a partition: no mean over time",
    ),
    Ignored(
        r"(amd_)?gpu_(edge|junction|memory|hbm)_temperature|(amd_)?gpu_.*(voltage|clock).*",
        "sensors and clocks",
    ),
    Ignored(
        r"(amd_)?gpu_(package_power|average_package_power|power_usage)",
        "another name of the power that is read",
    ),
    Ignored(
        r"(amd_)?gpu_energy_consumed",
        "a counter of the card; energy of a holder is its mean power over the time observed",
    ),
    Ignored(
        r"(amd_)?gpu_ecc_(un)?correct_(?!total$).*|(amd_)?gpu_(health|afid|bad_page).*",
        "parts of the errors that are read, and the exporter's verdict on them",
    ),
    Ignored(
        r"(amd_)?gpu_violation_.*_accumulated|(amd_)?gpu_current_accumulated.*|"
        r"(amd_)?gpu_violation_(gfx_clock_below_host_limit|low_utilization)_.*",
        "ticks of the firmware, or clocks lowered by a setting or for want of work",
    ),
    Ignored(r"(amd_)?(pcie|gpu_xgmi)_.*", "links: no signal of a container"),
    Ignored(
        r"(amd_)?gpu_prof_.*",
        "hardware counters of other meaning than sm and dram (VALU busy is not units with a wave)",
    ),
    Ignored(r"(amd_)?gpu_nodes_total|(amd_)?gpu_process.*", "counts, not use"),
    OF_THE_PROCESS,
)


class _Amd:
    """The dialect of AMD's device-metrics-exporter."""

    name = NAME
    exporter = "AMD device-metrics-exporter"
    rank = 20
    holders = "`pod`, `namespace`, `container`, or those as `exported_…`; `job_id` under Slurm"
    prefixes = ("gpu_", "amd_gpu_")
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The card, or its partition as ``<card>/<partition>``."""
        serial = first(labels, "gpu_uuid", "serial_number")
        node = node_of(labels, "hostname")
        if "gpu_id" not in labels or "gpu_partition_id" not in labels:
            return None  # another exporter's gauge of a like name
        card = serial or f"{node}:{first(labels, 'gpu_id')}"
        split = first(labels, "gpu_compute_partition_type").lower() not in _WHOLE
        uuid = f"{card}/{first(labels, 'gpu_partition_id')}" if split else card
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=node,
            index=first(labels, "gpu_id"),
            vendor="amd",
            model=first(labels, "card_series"),
            parent_uuid=card if split else "",
            driver_version=first(labels, "driver_version"),
        )
        return Subject(_holder(labels, uuid, node), device)


def _holder(labels: Labels, uuid: str, node: str) -> Holder | None:
    held = holder_of(labels, uuid, own=_OWN)
    job = first(labels, "job_id")
    if held is None and job:
        return Holder(_SLURM, f"{job}@{node}" if node else job, "", "job", uuid)
    return held


GAUGES: Final = _Amd()
