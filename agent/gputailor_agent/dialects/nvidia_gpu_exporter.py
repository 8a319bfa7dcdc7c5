"""utkuozdemir's nvidia_gpu_exporter (``nvidia_smi_…``): ratios, bytes and watts of whole cards.

Facts from its metrics page and test pages (MIT). It names no pods: whose a device was comes from
another source. Every series carries the bare UUID; name, index and driver stand in ``gpu_info``,
MIG instances in ``mig_info``. Its MIG series are of GPU instances (``gpu_instance_id``), whose
memory their compute instances share; utilisation of instances only its NVML back end has, on
Hopper and later. Reasons that hold clocks down are flags (1 or 0); newer drivers count their
seconds, too, which tell more than samples of a flag. Xid errors only the NVML back end counts.
"""

from typing import Final

from gputailor_agent.dialects import conditions
from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "nvidia_gpu_exporter"

_SMI: Final = "nvidia_smi_"
_MIG: Final = "mig"


def _ratio(field: str, signal: str) -> Gauge:
    return Gauge((f"{_SMI}utilization_{field}_ratio",), Measure.ACTIVITY, signal)


def _memory(part: str, measure: Measure) -> tuple[Gauge, Gauge]:
    return (
        Gauge((f"{_SMI}memory_{part}_bytes",), measure),
        Gauge((f"{_SMI}mig_memory_{part}_bytes",), measure, group=_MIG, of_instance=True),
    )


_SLOWDOWNS: Final = {
    "hw_slowdown": conditions.HW_SLOWDOWN,
    "hw_thermal_slowdown": conditions.HW_THERMAL,
    "hw_power_brake_slowdown": conditions.POWER_BRAKE,
    "sw_thermal_slowdown": conditions.SW_THERMAL,
    "sw_power_cap": conditions.POWER_CAP,
}


def _counted_slowdown(reason: str) -> Gauge:
    name = f"{_SMI}clocks_event_reasons_counters_{reason}_seconds"
    return Gauge((name,), Measure.THROTTLED_SECONDS, _SLOWDOWNS[reason])


def _slowdown(reason: str) -> Gauge:
    names = tuple(f"{_SMI}clocks_{word}_reasons_{reason}" for word in ("event", "throttle"))
    return Gauge(names, Measure.THROTTLED, _SLOWDOWNS[reason])


def _ecc(severity: str, condition: str) -> Gauge:
    name = f"{_SMI}ecc_errors_{severity}_volatile_total"
    return Gauge((name,), Measure.ERRORS, condition)


_HEALTH: Final = (
    *(_counted_slowdown(reason) for reason in _SLOWDOWNS if reason != "hw_slowdown"),
    *map(_slowdown, _SLOWDOWNS),
    Gauge((f"{_SMI}xid_errors_total",), Measure.ERRORS, conditions.XID, part="xid"),
    _ecc("uncorrected", conditions.ECC_UNCORRECTED),
    _ecc("corrected", conditions.ECC_CORRECTED),
    Gauge((f"{_SMI}remapped_rows_failure",), Measure.FAULT, conditions.ROW_REMAP_FAILED),
)

_GAUGES: Final = (
    _ratio("gpu", "kernel"),
    _ratio("memory", "memcopy"),
    _ratio("encoder", "encoder"),
    _ratio("decoder", "decoder"),
    *_memory("used", Measure.MEMORY_USED),
    *_memory("total", Measure.MEMORY_TOTAL),
    Gauge((f"{_SMI}power_draw_watts",), Measure.POWER),
    Gauge((f"{_SMI}gpu_info",), Measure.INFO),
    Gauge((f"{_SMI}mig_info",), Measure.INFO, of_instance=True),
    *_HEALTH,
)

_IGNORED: Final = (
    Ignored(rf"{_SMI}(mig_)?memory_(free|reserved)_bytes", "the total is told outright"),
    Ignored(rf"{_SMI}protected_memory_.*", "a part of memory_used"),
    Ignored(rf"{_SMI}utilization_(jpeg|ofa)_ratio", "engines that no rule asks for"),
    Ignored(
        rf"{_SMI}energy_joules_total",
        "a counter of the card; energy of a holder is its mean power over the time observed",
    ),
    Ignored(
        rf"{_SMI}power_(draw_average|draw_instant|.*limit)_watts|{_SMI}enforced_power_limit_watts",
        "power_draw is read; limits are settings",
    ),
    Ignored(rf"{_SMI}compute_app.*", "processes by pid, which no label leads to a pod"),
    Ignored(
        rf"{_SMI}clocks_(event|throttle)_reasons_(active|supported|gpu_idle|.*sync_boost.*|"
        "applications_clocks_setting)",
        "the faults among the reasons are read one by one; the rest are settings",
    ),
    Ignored(
        rf"{_SMI}(clocks(?!_(event|throttle)_)|gsp|gom|c2c|pstate|temperature|fan|edpp).*",
        "clocks, sensors, modes",
    ),
    Ignored(
        rf"{_SMI}(ecc_mode|ecc_errors_(un)?corrected_(?!volatile_total)|remapped_rows_(?!failure$)|"
        "retired|row_remapper|xid_last|inforom|gpu_recovery).*",
        "parts and the life's sum of errors that are read, settings, advice of the driver",
    ),
    Ignored(
        rf"{_SMI}(pci|pcie|fabric|platform|protected|vgpu|display|encoder_stats|fbc_stats).*",
        "place, links now and settings: no signal of use",
    ),
    Ignored(
        rf"{_SMI}(accounting|persistence|addressing|driver|compute|mig)_(mode|cap|buffer|model|version).*",
        "settings; the driver's version stands in gpu_info",
    ),
    Ignored(
        rf"{_SMI}(count|index|name|serial|kmd_version|driver_version|.*timestamp.*|module_id)",
        "what gpu_info says as labels",
    ),
    Ignored(
        rf"{_SMI}(failed_scrapes_total|last_.*|.*_last_collect_success|command_exit_code|nvml_.*)",
        "of the exporter itself",
    ),
    Ignored(r"nvidia_gpu_exporter_.*", "of the exporter itself"),
    OF_THE_PROCESS,
)


class _NvidiaGpuExporter:
    """The dialect of nvidia_gpu_exporter."""

    name = NAME
    exporter = "utkuozdemir/nvidia_gpu_exporter"
    rank = 30
    holders = ""
    prefixes = (_SMI,)
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The card, or the GPU instance as ``MIG-<uuid of the card>/<instance>``."""
        bare = first(labels, "uuid")
        if not bare:
            return None
        card = bare if bare.startswith("GPU-") else f"GPU-{bare}"
        instance = first(labels, "gpu_instance_id")
        device = Device(
            cluster=cluster,
            gpu_uuid=f"MIG-{card}/{instance}" if instance else card,
            node=node_of(labels),
            index=first(labels, "index"),
            vendor="nvidia",
            model=first(labels, "name"),
            mig_profile=first(labels, "profile"),
            parent_uuid=card if instance else "",
            compute_capability=first(labels, "compute_cap"),
            driver_version=first(labels, "driver_version"),
            cuda_version=first(labels, "cuda_version"),
        )
        return Subject(None, device)


GAUGES: Final = _NvidiaGpuExporter()
