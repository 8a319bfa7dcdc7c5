"""NVIDIA's dcgm-exporter: gauges in percent, MiB and watts, and labels that changed over the years.

Facts from the exporter's counter files and pages (Apache-2.0): ``Hostname`` became ``hostname`` in
2026; pods come as ``pod`` or, where a Prometheus did not honour them, ``exported_pod``, and as
``pod_name`` from early releases; a MIG instance has ``GPU_I_ID`` and ``GPU_I_PROFILE`` beside its
parent's UUID, and what the driver knows of the whole card only (utilisation, power) is copied onto
its series; so is a shared card's value onto each pod's, which the rollup sees to.
"""

from collections.abc import Mapping
from typing import Final

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.model.usage import Device

NAME: Final = "dcgm"

_MIB: Final = 1024.0 * 1024.0
_PERCENT: Final = 0.01
_PROFILING: Final = "profiling"
_MEMORY: Final = "memory"  # a MIG instance has these where it has nothing else of its own
_OWN: Final = "dcgm-exporter"  # part of the exporter's own pod and container names

_Labels = Mapping[str, str]


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


def _first(labels: _Labels, *names: str) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _holder(labels: _Labels, gpu_uuid: str) -> Holder | None:
    prefix = "exported_" if "exported_pod" in labels else ""
    pod = _first(labels, f"{prefix}pod", "pod_name")
    container = _first(labels, f"{prefix}container", "container_name")
    if not pod or _OWN in pod or _OWN in container:
        return None  # an idle device, onto which Prometheus put the labels of the exporter's pod
    return Holder(
        namespace=_first(labels, f"{prefix}namespace", "pod_namespace"),
        pod=pod,
        pod_uid=_first(labels, f"{prefix}pod_uid"),
        container=container,
        gpu_uuid=gpu_uuid,
    )


class _Dcgm:
    """The dialect of dcgm-exporter."""

    name = NAME
    prefixes = ("DCGM_FI_", "dcgm_")
    gauges = _GAUGES

    def identify(self, labels: _Labels, cluster: str) -> Subject | None:
        """Device and holder; a MIG instance is named ``MIG-<uuid of the card>/<instance>``."""
        card = _first(labels, "UUID", "uuid")
        if not card:
            return None
        instance = _first(labels, "GPU_I_ID")
        uuid = f"MIG-{card}/{instance}" if instance else card
        device = Device(
            cluster=cluster,
            gpu_uuid=uuid,
            node=_first(labels, "Hostname", "hostname", "node"),
            index=_first(labels, "gpu"),
            vendor="nvidia",
            model=_first(labels, "modelName", "modelname"),
            mig_profile=_first(labels, "GPU_I_PROFILE") if instance else "",
            parent_uuid=card if instance else "",
            driver_version=_first(labels, "DCGM_FI_DRIVER_VERSION"),
        )
        return Subject(_holder(labels, uuid), device)


GAUGES: Final = _Dcgm()
