"""NVIDIA's dcgm-exporter: gauges in percent, MiB and watts, and labels that changed over the years.

Facts from the exporter's counter files and pages (Apache-2.0): ``Hostname`` became ``hostname`` in
2026; pods come as ``pod`` or, where a Prometheus did not honour them, ``exported_pod``, and as
``pod_name`` from early releases; a MIG instance has ``GPU_I_ID`` and ``GPU_I_PROFILE`` beside its
parent's UUID, and what the driver knows of the whole card only (utilisation, power) is copied onto
its series; so is a shared card's value onto each pod's, which the rollup sees to.

Outside Kubernetes the label ``hpc_job`` names the job that runs on a device (``0``: none does).
It stands in for the pod: the job of a node is a holder in the namespace ``slurm``.
"""

from typing import Final

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, holder_of, told
from gputailor_agent.model.usage import Device

NAME: Final = "dcgm"

_MIB: Final = 1024.0 * 1024.0
_PERCENT: Final = 0.01
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
)


_IGNORED: Final = (
    Ignored(r"(?i)dcgm_(fi_dev_)?.*_clock", "clocks in MHz: no signal of use"),
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
    Ignored(r"(?i)dcgm_fi_dev_xid_errors|dcgm_xid_errors", "the last code only: repeats are lost"),
    Ignored(r"(?i)dcgm_fi_dev_.*(ecc|remap|retired|row_).*", "health of the card, not its use"),
    Ignored(
        r"(?i)dcgm_(fi_dev_)?(vgpu_license|.*violation|power_mgmt|fan|pstate|persistence).*",
        "settings and throttling, not use",
    ),
    Ignored(
        r"(?i)dcgm_fi_dev_(brand|name|serial|minor_number|cuda_.*|.*inforom.*|vbios_.*|count)|"
        r"dcgm_fi_(driver|nvml|process|cuda)_.*|dcgm_exp_.*",
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
    prefixes = ("DCGM_FI_", "dcgm_")
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
