"""NVIDIA's dcgm-exporter: gauges in percent, MiB and watts, and labels that changed over the years.

Facts from the exporter's counter files and pages (Apache-2.0): ``Hostname`` became ``hostname`` in
2026; pods come as ``pod`` or, where a Prometheus did not honour them, ``exported_pod``, and as
``pod_name`` from early releases; a MIG instance has ``GPU_I_ID`` and ``GPU_I_PROFILE`` beside its
parent's UUID, and what the driver knows of the whole card only (utilisation, power) is copied onto
its series; so is a shared card's value onto each pod's, which the rollup sees to.

Outside Kubernetes the label ``hpc_job`` names the job that runs on a device (``0``: none does).
It stands in for the pod: the job of a node is a holder in the namespace ``slurm``.

Violations are NVML's nanoseconds in every release; counter files of before 2026 say "in us", which
was put right there (NVIDIA/dcgm-exporter pull request 589). The board's limit, reliability,
sync boost and low utilisation hold no clock down that anybody could mend, so they are not read.
``DCGM_FI_DEV_XID_ERRORS`` is the latest code, which hides repeats and never goes back by itself:
a change of it proves an error, a value that stays proves none (``rollup.health``); newer releases
put the code into labels, too, so that a change begins a new series.
"""

from typing import Final

from gputailor_agent.dialects import conditions
from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, holder_of, told
from gputailor_agent.model.usage import Device

NAME: Final = "dcgm"

_MIB: Final = 1024.0 * 1024.0
_PERCENT: Final = 0.01
_NANOSECONDS: Final = 1e-9
_PROFILING: Final = "profiling"
_MEMORY: Final = "memory"  # a MIG instance has these where it has nothing else of its own
_OWN: Final = "dcgm-exporter"  # part of the exporter's own pod and container names
_NO_JOB: Final = frozenset({"", "0"})
#: Namespace of the jobs that a batch scheduler outside Kubernetes runs.
SLURM: Final = "slurm"


def _names(field: str, former: str = "") -> tuple[str, ...]:
    name = f"DCGM_FI_{field}"
    return (name, name.lower(), former) if former else (name, name.lower())


def _percent(field: str, signal: str, former: str) -> Gauge:
    return Gauge(_names(field, former), Measure.ACTIVITY, signal, _PERCENT)


def _ratio(field: str, signal: str) -> Gauge:
    names = _names(f"PROF_{field}")
    return Gauge(names, Measure.ACTIVITY, signal, 1.0, _PROFILING, of_instance=True)


def _memory(field: str, measure: Measure, former: str) -> Gauge:
    return Gauge(_names(field, former), measure, "", _MIB, _MEMORY, of_instance=True)


def _health(
    measure: Measure, condition: str, *fields: str, scale: float = 1.0, part: str = ""
) -> Gauge:
    names = tuple(name for field in fields for name in (f"DCGM_{field}", f"dcgm_{field.lower()}"))
    return Gauge(names, measure, condition, scale, part=part)


def _nanoseconds(condition: str, field: str) -> Gauge:
    return _health(Measure.THROTTLED_SECONDS, condition, f"FI_DEV_{field}", scale=_NANOSECONDS)


#: Of the whole card, whatever instance a series names.
_HEALTH: Final = (
    _nanoseconds(conditions.THERMAL, "THERMAL_VIOLATION"),
    _nanoseconds(conditions.POWER_CAP, "POWER_VIOLATION"),
    _nanoseconds(conditions.SW_THERMAL, "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"),
    _nanoseconds(conditions.HW_THERMAL, "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"),
    _nanoseconds(conditions.POWER_BRAKE, "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS"),
    _health(Measure.REASONS, "", "FI_DEV_CLOCKS_EVENT_REASONS", "FI_DEV_CLOCK_THROTTLE_REASONS"),
    _health(Measure.LAST_ERROR, conditions.XID, "FI_DEV_XID_ERRORS"),
    _health(Measure.ERRORS, conditions.XID, "EXP_XID_ERRORS_TOTAL", part="xid"),
    _health(Measure.ERRORS, conditions.ECC_UNCORRECTED, "FI_DEV_ECC_DBE_VOL_TOTAL"),
    _health(Measure.ERRORS, conditions.ECC_UNCORRECTED, "FI_DEV_ECC_DBE_AGG_TOTAL"),
    _health(Measure.ERRORS, conditions.ECC_CORRECTED, "FI_DEV_ECC_SBE_VOL_TOTAL"),
    _health(Measure.ERRORS, conditions.ECC_CORRECTED, "FI_DEV_ECC_SBE_AGG_TOTAL"),
    _health(Measure.FAULT, conditions.ROW_REMAP_FAILED, "FI_DEV_ROW_REMAP_FAILURE"),
)

_GAUGES: Final = (
    _percent("DEV_GPU_UTIL", "kernel", "dcgm_gpu_utilization"),
    _percent("DEV_MEM_COPY_UTIL", "memcopy", "dcgm_mem_copy_utilization"),
    _percent("DEV_ENC_UTIL", "encoder", "dcgm_enc_utilization"),
    _percent("DEV_DEC_UTIL", "decoder", "dcgm_dec_utilization"),
    _memory("DEV_FB_USED", Measure.MEMORY_USED, "dcgm_fb_used"),
    _memory("DEV_FB_FREE", Measure.MEMORY_FREE, "dcgm_fb_free"),
    _memory("DEV_FB_RESERVED", Measure.MEMORY_RESERVED, "dcgm_fb_reserved"),
    Gauge(_names("DEV_POWER_USAGE", "dcgm_power_usage"), Measure.POWER),
    _ratio("GR_ENGINE_ACTIVE", "graphics"),
    _ratio("SM_ACTIVE", "sm"),
    _ratio("SM_OCCUPANCY", "occupancy"),
    _ratio("PIPE_TENSOR_ACTIVE", "tensor"),
    _ratio("DRAM_ACTIVE", "dram"),
    _ratio("PIPE_FP64_ACTIVE", "fp64"),
    _ratio("PIPE_FP32_ACTIVE", "fp32"),
    _ratio("PIPE_FP16_ACTIVE", "fp16"),
    *_HEALTH,
)


_IGNORED: Final = (
    Ignored(r"(?i)dcgm_(fi_dev_)?.*_clock", "clocks in MHz: no signal of use"),
    Ignored(
        r"(?i)dcgm_fi_dev_clocks_event_reason_(sw_power_cap|sync_boost(_count)?)_ns",
        "the power cap is read as POWER_VIOLATION; boost groups are a setting",
    ),
    Ignored(r"(?i)dcgm_(fi_dev_)?.*(temp|tmp)", "temperature: no signal of use"),
    Ignored(
        r"(?i)dcgm_fi_dev_total_energy_consumption|dcgm_total_energy_consumption",
        "a counter of the card; energy of a holder is its mean power over the time observed",
    ),
    Ignored(
        r"(?i)dcgm_fi_(prof_pcie|dev_pcie|prof_nvlink|dev_nvlink).*",
        "links: typed gauge or counter by release, so its unit cannot be told",
    ),
    Ignored(r"(?i)dcgm_fi_dev_(fb_total|fb_used_percent)", "made of used, free and reserved"),
    Ignored(r"dcgm_xid_errors", "a name of early releases, whose labels name no card's health"),
    Ignored(
        r"(?i)dcgm_fi_dev_ecc_(sbe|dbe)_(vol|agg)_(?!total$).*|dcgm_(ecc|retired)_.*|"
        r"(?i:dcgm_fi_dev_ecc_(current|pending|inforom_ver))",
        "parts of the totals that are read, or a setting",
    ),
    Ignored(
        r"(?i)dcgm_fi_dev_((un)?correctable_remapped_rows|row_remap_pending|retired_.*)",
        "rows and pages mended: ordinary by themselves; the errors behind them are read",
    ),
    Ignored(
        r"(?i)dcgm_(fi_dev_)?(board_limit|low_util|reliability|sync_boost|.*app_clocks?|"
        r"total_.*)_violation",
        "settings and ordinary limits",
    ),
    Ignored(
        r"(?i)dcgm_(power|thermal)_violation",
        "a name of early releases, whose unit is not told",
    ),
    Ignored(
        r"(?i)dcgm_(fi_dev_)?(vgpu_license|power_mgmt|fan|pstate|persistence).*",
        "settings, not use",
    ),
    Ignored(
        r"(?i)dcgm_fi_dev_(brand|name|serial|minor_number|cuda_.*|.*inforom.*|vbios_.*|count)|"
        r"dcgm_fi_(driver|nvml|process|cuda)_.*|dcgm_exp_(?!xid_errors_total$).*",
        "names and versions, or counts of events",
    ),
    OF_THE_PROCESS,
)


def _node(labels: Labels) -> str:
    """The node; an exporter that was not told it (``NODE_NAME``) gives its own pod's name there."""
    named = told(labels, "Hostname", "hostname", "node")
    if _OWN not in named:
        return named
    return first(labels, "node", "node_name", "kubernetes_node", "nodename") or named


def _holder(labels: Labels, gpu_uuid: str, node: str) -> Holder | None:
    held = holder_of(
        labels,
        gpu_uuid,
        pod=("pod_name", "pod"),
        namespace=("pod_namespace", "namespace"),
        container=("container_name", "container"),
        own=_OWN,
    )
    job = first(labels, "hpc_job")
    if held is None and job not in _NO_JOB:
        return Holder(SLURM, f"{job}@{node}" if node else job, "", "job", gpu_uuid)
    return held


class _Dcgm:
    """The dialect of dcgm-exporter."""

    name = NAME
    exporter = "NVIDIA dcgm-exporter"
    rank = 20
    holders = "`pod` or `exported_pod`, `pod_name` of early releases; `hpc_job` outside Kubernetes"
    prefixes = ("DCGM_FI_", "DCGM_EXP_", "dcgm_")
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """Device and holder; a MIG instance is named ``MIG-<uuid of the card>/<instance>``."""
        card = first(labels, "UUID", "uuid")
        if not card:
            return None
        instance = first(labels, "GPU_I_ID")
        node = _node(labels)
        uuid = f"MIG-{card}/{instance}" if instance else card
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=node,
            index=first(labels, "gpu"),
            vendor="nvidia",
            model=first(labels, "modelName", "modelname"),
            mig_profile=first(labels, "GPU_I_PROFILE") if instance else "",
            parent_uuid=card if instance else "",
            driver_version=first(labels, "DCGM_FI_DRIVER_VERSION"),
        )
        return Subject(_holder(labels, uuid, node), device)


GAUGES: Final = _Dcgm()
